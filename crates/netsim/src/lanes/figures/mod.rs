//! The figures of Subramoni, Lai, Sur and Panda (ICPP 2010), from the model: what it gives, and how far each of its constants moves that.
//!
//! Nothing is fitted to the published figures. The constants are [`Settings::qdr`]'s.

use super::stats::Summary;
use super::traffic::alltoall::{self, Outcome};
use super::traffic::streams;
use super::{BadTables, Buffering, Network, Settings, Tables};
use protocol::lanes::LanePlan;

/// A figure's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// As on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What the authors measured.
    pub paper: &'static str,
    /// What the model assumes beside [`Settings::qdr`].
    pub assumes: &'static str,
    /// Names of the values, with units.
    pub columns: Vec<&'static str>,
    /// A name and the values of each row.
    pub rows: Vec<(String, Vec<f64>)>,
}

/// Names of all figures.
pub const NAMES: [&str; 4] = ["interarrival", "pt2pt", "alltoall", "cpmd"];

/// What changes in a row of a sensitivity table.
type Variation = (&'static str, fn(&mut Settings));

const VARIATIONS: [Variation; 8] = [
    ("as assumed", |_| {}),
    ("turns of 1 packet", |s| s.turn_packets = 1),
    ("turns of 64 packets", |s| s.turn_packets = 64),
    ("4 KiB of buffer a lane", |s| s.buffering = Buffering::Private { lane_bytes: 4352 }),
    ("64 KiB of buffer a lane", |s| s.buffering = Buffering::Private { lane_bytes: 65_536 }),
    ("64 KiB a port, divided", |s| s.buffering = Buffering::Divided { port_bytes: 65_536 }),
    ("cables of 100 m", |s| s.wire_ps = 500_000),
    ("memory as fast as the link", |s| s.host_ps_per_byte = 250),
];

/// What a figure is computed with.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Of the random numbers.
    pub seed: u64,
    /// Tables of the fabric in place of 8 equal lanes.
    pub tables: Option<Tables>,
}

/// A figure by its name. `None`: there is none of this name. Errors: tables that can't work.
pub fn figure(name: &str, inputs: &Inputs) -> Option<Result<Figure, BadTables>> {
    match name {
        "interarrival" => Some(interarrival(inputs)),
        "pt2pt" => Some(point_to_point(inputs)),
        "alltoall" => Some(all_to_all(inputs)),
        "cpmd" => Some(cpmd(inputs)),
        _ => None,
    }
}

impl Inputs {
    /// A turn of a lane is one packet of 2 KB.
    fn distributed(&self) -> Tables {
        self.tables.clone().unwrap_or_else(|| Tables::equal(8, 32))
    }

    fn stream(
        &self,
        streams: usize,
        tables: Tables,
        bytes: u32,
        vary: fn(&mut Settings),
    ) -> Result<streams::Outcome, BadTables> {
        let levels = tables.lanes;
        let mut settings = Settings::qdr(tables);
        vary(&mut settings);
        let shape = streams::Shape { streams, levels, message_bytes: bytes, window: 64, windows: 20, post_ps: 150_000 };
        streams::run(shape, settings, self.seed)
    }

    fn job(&self, policy: &str, bytes: u32, compute_ps: u64, vary: fn(&mut Settings)) -> Result<Outcome, BadTables> {
        let (tables, lanes) = match policy {
            "single" => (Tables::equal(1, 32), 1),
            "segregate" => (Tables::small_first(), 2),
            _ => (self.distributed(), self.distributed().lanes),
        };
        let plan = LanePlan::parse(&lanes.to_string(), policy).map_err(BadTables)?;
        let mut settings = Settings::qdr(tables);
        vary(&mut settings);
        let shape = alltoall::Shape {
            ranks: 64,
            per_host: 8,
            message_bytes: bytes,
            rounds: 8,
            compute_ps,
            eager_max: 8192,
            small_max: 4096,
            step_ps: 300_000,
            plan,
        };
        alltoall::run(shape, Network::fat_tree(&[2, 4], &[1, 2]), settings, self.seed)
    }
}

/// By how many percent `with` is less than `without`.
fn gain(without: f64, with: f64) -> f64 {
    100.0 * (1.0 - with / without)
}

fn interarrival(inputs: &Inputs) -> Result<Figure, BadTables> {
    let mut rows = Vec::new();
    for (name, vary) in VARIATIONS {
        for (streams, tables) in
            [(1, Tables::equal(1, 32)), (8, Tables::equal(1, 32)), (1, inputs.distributed()), (8, inputs.distributed())]
        {
            let label = format!("{name}: streams {streams}, lanes {}", tables.lanes);
            let outcome = inputs.stream(streams, tables, 2048, vary)?;
            let (gaps, latency) = (Summary::of(&outcome.gaps_ns), Summary::of(&outcome.latencies_ns));
            rows.push((label, vec![gaps.mean, gaps.p50, gaps.p99, gaps.max, gaps.variation, latency.mean / 1e3]));
        }
    }
    Ok(Figure {
        name: "interarrival",
        title: "Times between the packets of a stream",
        paper: "8 streams arrive far more predictably with 8 lanes; the mean latency is slightly higher",
        assumes: "one switch, messages of 2 KB, one queue pair a stream, windows of 64 messages with an answer",
        columns: vec!["mean ns", "p50 ns", "p99 ns", "max ns", "coefficient of variation", "mean latency µs"],
        rows,
    })
}

fn point_to_point(inputs: &Inputs) -> Result<Figure, BadTables> {
    let mut rows = Vec::new();
    let mut row = |label: String, bytes, vary| -> Result<(), BadTables> {
        let (one, many) = (
            inputs.stream(8, Tables::equal(1, 32), bytes, vary)?,
            inputs.stream(8, inputs.distributed(), bytes, vary)?,
        );
        let latency = |outcome: &streams::Outcome| Summary::of(&outcome.latencies_ns).mean;
        let more = -gain(one.bandwidth, many.bandwidth);
        rows.push((label, vec![one.bandwidth, many.bandwidth, more, gain(latency(&one), latency(&many))]));
        Ok(())
    };
    for bytes in [1024, 2048, 4096, 8192, 16_384] {
        row(format!("{bytes} B"), bytes, VARIATIONS[0].1)?;
    }
    for (name, vary) in &VARIATIONS[1..] {
        row(format!("2048 B, {name}"), 2048, *vary)?;
    }
    Ok(Figure {
        name: "pt2pt",
        title: "8 pairs of ranks between two hosts",
        paper: "13 % better",
        assumes: "as interarrival",
        columns: vec!["1 lane GB/s", "8 lanes GB/s", "more bandwidth %", "less mean latency %"],
        rows,
    })
}

fn all_to_all(inputs: &Inputs) -> Result<Figure, BadTables> {
    let mut rows = Vec::new();
    let mut row = |label: String, bytes, vary| -> Result<(), BadTables> {
        let times = ["single", "distribute:connection", "segregate"].map(|policy| inputs.job(policy, bytes, 0, vary));
        let [one, many, apart] = times;
        let [one, many, apart] = [one?.alltoall_us, many?.alltoall_us, apart?.alltoall_us];
        rows.push((label, vec![one, many, apart, gain(one, many), gain(one, apart)]));
        Ok(())
    };
    for bytes in [1024, 4096, 8192, 16_384, 65_536] {
        row(format!("{bytes} B"), bytes, VARIATIONS[0].1)?;
    }
    for (name, vary) in &VARIATIONS[1..] {
        row(format!("16384 B, {name}"), 16_384, *vary)?;
    }
    Ok(Figure {
        name: "alltoall",
        title: "All-to-all of 64 ranks on 8 hosts",
        paper: "20 % less time with distribution, 12 % with segregation",
        assumes: "4 leaves with 2 hosts each, 2 spines, D-mod-K; pairwise exchange; above 8 KiB the sender asks first",
        columns: vec!["1 lane µs", "distribute µs", "segregate µs", "distribute gains %", "segregate gains %"],
        rows,
    })
}

fn cpmd(inputs: &Inputs) -> Result<Figure, BadTables> {
    const BYTES: u32 = 16_384;
    let mut rows = Vec::new();
    for (name, vary) in VARIATIONS {
        // 11 % of the all-to-all and 6 % of the whole mean that the all-to-all is 6/11 of the time; what computes is the rest.
        let alone = inputs.job("single", BYTES, 0, vary)?.alltoall_us;
        let compute_ps = (alone * 5.0 / 6.0 * 1e6) as u64;
        let one = inputs.job("single", BYTES, compute_ps, vary)?;
        let many = inputs.job("distribute:connection", BYTES, compute_ps, vary)?;
        let apart = inputs.job("segregate", BYTES, compute_ps, vary)?;
        let gains = [(&one, &many), (&one, &apart)]
            .map(|(a, b)| [gain(a.alltoall_us, b.alltoall_us), gain(a.total_us, b.total_us)]);
        rows.push((
            name.to_string(),
            vec![one.alltoall_us, one.total_us, gains[0][0], gains[0][1], gains[1][0], gains[1][1]],
        ));
    }
    Ok(Figure {
        name: "cpmd",
        title: "A mix like CPMD's: computation, all-to-all of 16 KiB, agreement on 8 bytes; 64 ranks, 8 rounds",
        paper: "11 % less time in the all-to-all, 6 % less in all",
        assumes: "as alltoall; computation is 5/6 of the all-to-all's time with one lane, which follows from the authors' 11 and 6 %; it differs by 5 % among ranks",
        columns: vec![
            "all-to-all, 1 lane µs",
            "total, 1 lane µs",
            "distribute: all-to-all %",
            "distribute: total %",
            "segregate: all-to-all %",
            "segregate: total %",
        ],
        rows,
    })
}

/// A load to measure the simulator's speed with: 64 hosts of a fat tree with 8 lanes, each sends to each other one, all at once.
pub fn speed_load(seed: u64) -> Result<super::Counts, BadTables> {
    use super::{Delivered, Fabric, Program};
    struct Nothing;
    impl Program for Nothing {
        fn on_message(&mut self, _fabric: &mut Fabric, _message: Delivered) {}
    }
    let mut fabric = Fabric::new(Network::fat_tree(&[8, 8], &[1, 8]), Settings::qdr(Tables::equal(8, 32)))?;
    let mut random = super::random::Random::new(seed);
    for from in 0..64 {
        for to in (0..64).filter(|to| *to != from) {
            let qp = fabric.open(from, to, random.below(8) as u8)?;
            fabric.post(qp, 2048 * 200, 0);
        }
    }
    fabric.run(&mut Nothing);
    Ok(fabric.counts())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: Inputs = Inputs { seed: 1, tables: None };

    #[test]
    fn lanes_narrow_the_times_between_packets() {
        let variation = |streams, tables| {
            let outcome = INPUTS.stream(streams, tables, 2048, |_| {}).unwrap();
            Summary::of(&outcome.gaps_ns).variation
        };
        let (one, many) = (variation(8, Tables::equal(1, 32)), variation(8, Tables::equal(8, 32)));
        assert!(many < one / 2.0, "{many} with 8 lanes, {one} with one");
    }

    #[test]
    fn a_job_ends_with_every_policy_and_protocol() {
        for policy in ["single", "distribute:connection", "segregate"] {
            for (bytes, compute_ps) in [(64, 0), (16_384, 0), (16_384, 1_000_000)] {
                let outcome = INPUTS.job(policy, bytes, compute_ps, |s| s.turn_packets = 2).unwrap();
                assert!(
                    outcome.total_us > outcome.alltoall_us && outcome.alltoall_us > 10.0,
                    "{policy} {bytes}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn figures_have_names() {
        assert!(figure("no", &INPUTS).is_none());
        assert_eq!(NAMES.len(), 4);
    }
}
