//! Which channel a pair of ranks uses, and why none of the others: what `ferrule why` prints.

use base::WorldRank;
use protocol::control::report::LaneUse;
use protocol::endpoint::LaneCount;
use protocol::lanes::Class;
use std::collections::BTreeMap;

base::config! {
    /// Prints the channel of each pair, and why not the others, when the program ends.
    WHY: bool = false;
    /// Prints who has run the non-blocking and persistent collectives, workers or the ranks, and why, when the program ends.
    WHY_COLLECTIVES: bool = false;
}

/// One pair, seen from this process.
#[derive(Clone, Debug, Default)]
pub struct Why {
    /// The channel for messages that travel in packets; empty while none is known.
    pub channel: &'static str,
    /// The way in which large messages are read from the sender's memory, if there is one.
    pub single_copy: Option<&'static str>,
    /// What was tried or ruled out, with the reason.
    pub rejected: Vec<(&'static str, String)>,
    /// What has been sent over each lane, if there are several.
    pub lanes: Vec<LaneCount>,
}

impl Why {
    /// Notes that `channel` is not used.
    pub fn reject(&mut self, channel: &'static str, why: impl Into<String>) {
        self.rejected.push((channel, why.into()));
    }
}

/// Lines of a table: this rank's pairs.
pub fn table<'a>(me: WorldRank, pairs: impl Iterator<Item = (WorldRank, &'a str, Why)>) -> Vec<String> {
    pairs
        .map(|(peer, host, why)| {
            let channel = if why.channel.is_empty() { "unused" } else { why.channel };
            let with = why.single_copy.map_or(String::new(), |s| format!("+{s}"));
            let not: Vec<String> = why.rejected.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
            let not = if not.is_empty() { String::new() } else { format!("  not {}", not.join("; ")) };
            let lanes: Vec<String> = why.lanes.iter().enumerate().map(lane).collect();
            let lanes = if lanes.is_empty() { String::new() } else { format!("  lanes {}", lanes.join(", ")) };
            format!("{:>5} → {:<5} {host:<16} {:<10}{lanes}{not}", me.0, peer.0, format!("{channel}{with}"))
        })
        .collect()
}

/// What was sent over the lanes of each class, in the order of their numbers.
pub fn by_class(counts: &[LaneCount]) -> Vec<LaneUse> {
    let mut classes: BTreeMap<Option<u8>, LaneUse> = BTreeMap::new();
    for count in counts {
        let class = count.class.and_then(Class::code);
        let of_class = classes.entry(class).or_insert(LaneUse { class, ..LaneUse::default() });
        of_class.lanes += 1;
        of_class.lost += u32::from(count.is_lost);
        of_class.packets += count.packets;
        of_class.bytes += count.bytes;
        of_class.waited += count.waited;
        of_class.waited_ns += count.waited_ns;
    }
    classes.into_values().collect()
}

/// A lane in words: its number, class, packets and bytes that were sent over it, and how long packets waited for it in this process.
fn lane((number, count): (usize, &LaneCount)) -> String {
    let class = count.class.map_or(String::new(), |class| format!(" {class}"));
    let lost = if count.is_lost { ", lost" } else { "" };
    let waited = match count.waited {
        0 => String::new(),
        packets => format!(", {packets} waited {:.3} ms in all", count.waited_ns as f64 / 1e6),
    };
    format!("{number}{class} ({} packets, {} bytes{waited}{lost})", count.packets, count.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_went_over_each_lane() {
        let small = LaneCount {
            class: Some(Class::Latency),
            is_lost: false,
            packets: 7,
            bytes: 56,
            waited: 3,
            waited_ns: 41_000,
        };
        let large =
            LaneCount { class: Some(Class::Bulk), is_lost: true, packets: 2, bytes: 3000, ..LaneCount::default() };
        let why = Why { channel: "tcp", lanes: vec![small, large], ..Why::default() };
        let line = table(WorldRank(0), [(WorldRank(3), "n1", why)].into_iter()).remove(0);
        assert!(
            line.ends_with(
                "lanes 0 latency (7 packets, 56 bytes, 3 waited 0.041 ms in all), 1 bulk (2 packets, 3000 bytes, lost)"
            ),
            "{line}"
        );
    }

    #[test]
    fn a_line_names_channel_and_reasons() {
        let mut why = Why { channel: "shm", single_copy: Some("mem"), ..Why::default() };
        why.reject("cma", "Operation not permitted");
        let lines = table(WorldRank(0), [(WorldRank(3), "n1", why)].into_iter());
        assert!(lines[0].contains("shm+mem") && lines[0].contains("not cma: Operation not permitted"), "{}", lines[0]);
    }

    #[test]
    fn lanes_of_one_class_are_added() {
        let bulk = LaneCount { class: Some(Class::Bulk), packets: 2, bytes: 100, ..LaneCount::default() };
        let lost = LaneCount { is_lost: true, waited: 1, waited_ns: 5, ..bulk };
        let small = LaneCount { class: Some(Class::Latency), packets: 1, ..LaneCount::default() };
        let found = by_class(&[bulk, small, lost]);
        let found: Vec<_> =
            found.iter().map(|of| (of.class, of.lanes, of.lost, of.packets, of.bytes, of.waited)).collect();
        assert_eq!(found, [(Class::Latency.code(), 1, 0, 1, 0, 0), (Class::Bulk.code(), 2, 1, 4, 200, 1)]);
    }
}
