//! Which rank runs on which host.
//!
//! Rules (Hydra's and Open MPI's where they agree): hosts are taken in order; each takes its slots (one if not said, or
//! `-ppn`), then the next; after the last host the first takes its slots again, unless `max_slots` forbids. `--map-by node`
//! gives one rank to each host in turn. Programs of one command line share the hosts and go on where the one before
//! stopped. Without `-n` a program fills all slots of the hosts that were named, or is one rank.

use crate::cli::{Host, MapBy, Options, RANKS_MAX};

/// Hosts that are used, and for each rank its host and program.
#[derive(Debug, PartialEq, Eq)]
pub struct Placement {
    /// Names.
    pub hosts: Vec<String>,
    /// Index into `hosts`, and program.
    pub ranks: Vec<(u32, u32)>,
    /// Slots of all hosts, at least the number of ranks.
    pub universe: u32,
}

/// Takes hosts in turn.
struct Dealer {
    hosts: Vec<Host>,
    used: Vec<u32>,
    at: usize,
    /// Ranks that the host at `at` has got in this turn.
    in_turn: u32,
}

impl Dealer {
    fn new(hosts: &[Host]) -> Dealer {
        Dealer { hosts: hosts.to_vec(), used: vec![0; hosts.len()], at: 0, in_turn: 0 }
    }

    fn turn(&self, host: usize, options: &Options) -> u32 {
        let slots = options.per_node.or(self.hosts[host].slots).unwrap_or(1);
        if options.map_by == MapBy::Node { 1 } else { slots }
    }

    fn next(&mut self, options: &Options) -> Result<String, String> {
        for _ in 0..=self.hosts.len() {
            let full = self.hosts[self.at].max_slots.is_some_and(|max| self.used[self.at] >= max);
            if !full && self.in_turn < self.turn(self.at, options) && !self.skip_full_slots(options) {
                self.used[self.at] += 1;
                self.in_turn += 1;
                return Ok(self.hosts[self.at].name.clone());
            }
            self.at = (self.at + 1) % self.hosts.len();
            self.in_turn = 0;
        }
        Err("the hosts' max_slots do not suffice for so many ranks".into())
    }

    /// By node, a host whose slots are used up waits until those of all are.
    fn skip_full_slots(&self, options: &Options) -> bool {
        let rounds = |i: usize| self.used[i] / self.hosts[i].slots.or(options.per_node).unwrap_or(1);
        options.map_by == MapBy::Node && (0..self.hosts.len()).any(|i| rounds(i) < rounds(self.at))
    }
}

/// Places all ranks; `here` is the name of this host, used when no host is named.
pub fn place(options: &Options, here: &str) -> Result<Placement, String> {
    let default = [Host { name: here.into(), slots: None, max_slots: None }];
    let named = options.hosts.as_deref();
    let mut shared = Dealer::new(named.unwrap_or(&default));
    let (mut hosts, mut ranks): (Vec<String>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
    for (number, app) in options.apps.iter().enumerate() {
        let own = app.hosts.as_ref().map(|list| with_slots_of(list, named.unwrap_or(&[])));
        let mut dealer = own.as_deref().map(Dealer::new);
        let list = own.as_deref().or(named);
        let count = app.count.unwrap_or_else(|| list.map_or(options.per_node.unwrap_or(1), |l| all_slots(l, options)));
        if count > RANKS_MAX - ranks.len() as u32 {
            return Err(format!("these are more than {RANKS_MAX} ranks"));
        }
        for _ in 0..count {
            let name = dealer.as_mut().unwrap_or(&mut shared).next(options)?;
            let host = hosts.iter().position(|h| *h == name).unwrap_or_else(|| {
                hosts.push(name);
                hosts.len() - 1
            });
            ranks.push((host as u32, number as u32));
        }
    }
    let slots = named.map_or(0, |l| all_slots(l, options));
    let universe = options.universe_size.unwrap_or(0).max(slots).max(ranks.len() as u32);
    Ok(Placement { hosts, ranks, universe })
}

fn all_slots(hosts: &[Host], options: &Options) -> u32 {
    hosts.iter().fold(0, |sum: u32, h| sum.saturating_add(options.per_node.or(h.slots).unwrap_or(1)))
}

/// `--host a` together with a host file takes the file's slots.
fn with_slots_of(list: &[Host], file: &[Host]) -> Vec<Host> {
    let known = |h: &Host| file.iter().find(|f| f.name == h.name);
    list.iter().map(|h| if h.slots.is_some() { h } else { known(h).unwrap_or(h) }).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Command, parse};

    fn nodes(line: &str) -> String {
        let words = format!("{line} x");
        let Ok(Command::Run(options)) = parse(words.split_whitespace().map(Into::into)) else { panic!("{line}") };
        match place(&options, "here") {
            Ok(p) => p.ranks.iter().map(|(h, _)| p.hosts[*h as usize].clone()).collect::<Vec<_>>().join(" "),
            Err(e) => e,
        }
    }

    #[test]
    fn ranks_fill_slots_and_start_again() {
        assert_eq!(nodes("-n 3"), "here here here");
        assert_eq!(nodes("-n 4 -hosts a,b"), "a b a b");
        assert_eq!(nodes("-n 6 -hosts a:2,b"), "a a b a a b");
        assert_eq!(nodes("-n 4 -ppn 2 -hosts a,b"), "a a b b");
        assert_eq!(nodes("-n 5 -hosts a:2,b:2 --map-by node"), "a b a b a");
        assert_eq!(nodes("-n 4 -hosts a:1,b:3 --map-by node"), "a b b b");
        assert_eq!(nodes("-hosts a:2,b:2"), "a a b b");
        assert_eq!(nodes("-ppn 2 -hosts a,b"), "a a b b");
        assert_eq!(nodes("-n 1 -hosts a:2,b x : -n 2"), "a a b");
        assert_eq!(nodes("-n 1 -host a x : -n 2 -host b"), "a b b");
        assert!(nodes("-ppn 1048576 -hosts a,b,c,d").contains("more than"));
        assert!(
            nodes(&format!("-ppn 1048576 -hosts {}", (0..4096).map(|i| format!("a{i},")).collect::<String>()))
                .contains("more than")
        );
    }
}
