//! Which rank runs on which host.
//!
//! Rules (Hydra's and Open MPI's where they agree): hosts are taken in order; each takes its slots (one if not said, or
//! `-ppn`), then the next; after the last host the first takes its slots again, unless `max_slots` forbids. `--map-by node`
//! gives one rank to each host in turn. Programs of one command line share the hosts and go on where the one before
//! stopped. Without `-n` a program fills all slots of the hosts that were named, or is one rank.
//! A rank file or `-rankmap` says of each rank where it runs; then slots count for nothing but `max_slots`.

use crate::cli::rankfile::RankHost;
use crate::cli::{Host, MapBy, Options, RANKS_MAX, RankFile};

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
    if let Some(file) = &options.rank_file {
        return place_by_file(options, file);
    }
    if !options.rank_map.is_empty() {
        return place_by_map(options, options.hosts.as_deref().unwrap_or(&default));
    }
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

/// Ranks of each program if each rank's place is said; `said` is the number of places.
fn counts(options: &Options, said: usize) -> Result<Vec<u32>, String> {
    let counts: Vec<u32> = match options.apps.as_slice() {
        [app] => vec![app.count.unwrap_or(said as u32)],
        apps => apps
            .iter()
            .map(|app| app.count.ok_or("a rank file or -rankmap for several programs needs -n for each"))
            .collect::<Result<_, _>>()?,
    };
    if counts.iter().map(|n| u64::from(*n)).sum::<u64>() > u64::from(RANKS_MAX) {
        return Err(format!("these are more than {RANKS_MAX} ranks"));
    }
    Ok(counts)
}

/// Ranks on hosts, in the order of ranks; the program of each goes by `counts`.
struct Placing {
    placement: Placement,
    used: Vec<u32>,
}

impl Placing {
    fn new(options: &Options, ranks: u32) -> Placing {
        let slots = options.hosts.as_deref().map_or(0, |hosts| all_slots(hosts, options));
        let universe = options.universe_size.unwrap_or(0).max(slots).max(ranks);
        Placing { placement: Placement { hosts: Vec::new(), ranks: Vec::new(), universe }, used: Vec::new() }
    }

    fn add(&mut self, host: &Host, app: usize) -> Result<(), String> {
        let hosts = &mut self.placement.hosts;
        let at = hosts.iter().position(|name| *name == host.name).unwrap_or_else(|| {
            hosts.push(host.name.clone());
            self.used.push(0);
            hosts.len() - 1
        });
        self.used[at] += 1;
        if host.max_slots.is_some_and(|max| self.used[at] > max) {
            return Err(format!("host {} takes {} ranks only (max_slots)", host.name, self.used[at] - 1));
        }
        self.placement.ranks.push((at as u32, app as u32));
        Ok(())
    }
}

/// Places ranks as the rank file says. If no hosts are named, those of the file are the job's.
fn place_by_file(options: &Options, file: &RankFile) -> Result<Placement, String> {
    let counts = counts(options, file.ranks.len())?;
    let mut placing = Placing::new(options, counts.iter().sum());
    let mut rank = 0;
    for (app, count) in counts.into_iter().enumerate() {
        let hosts = options.apps[app].hosts.as_deref().or(options.hosts.as_deref());
        for _ in 0..count {
            let place = file.place(rank)?;
            let host = host_of(&place.host, hosts).map_err(|why| file.wrong(place, &why))?;
            placing.add(&host, app).map_err(|why| file.wrong(place, &why))?;
            rank += 1;
        }
    }
    Ok(placing.placement)
}

fn host_of(wanted: &RankHost, hosts: Option<&[Host]>) -> Result<Host, String> {
    match (wanted, hosts) {
        (RankHost::Named(name), None) => Ok(Host { name: name.clone(), slots: None, max_slots: None }),
        (RankHost::Named(name), Some(hosts)) => hosts
            .iter()
            .find(|host| host.name == *name)
            .or_else(|| hosts.iter().find(|host| is_same_host(&host.name, name)))
            .cloned()
            .ok_or_else(|| format!("host {name} is not one of the job's hosts")),
        (RankHost::Numbered(number), None) => {
            Err(format!("+n{number} needs a list of hosts (-host, -hosts or a host file)"))
        }
        (RankHost::Numbered(number), Some(hosts)) => hosts
            .get(*number as usize)
            .cloned()
            .ok_or_else(|| format!("+n{number} is not there: the job has {} hosts, counted from 0", hosts.len())),
    }
}

/// `a` and `a.example.com` are one host; addresses are what they are.
fn is_same_host(one: &str, other: &str) -> bool {
    let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
    let first = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_full = |name: &str| name.contains('.');
    !is_address(one) && !is_address(other) && is_full(one) != is_full(other) && first(one) == first(other)
}

/// Places ranks as `-rankmap` says; a map that is shorter than the job begins anew, as Hydra's does.
fn place_by_map(options: &Options, hosts: &[Host]) -> Result<Placement, String> {
    let counts = counts(options, options.rank_map.len())?;
    let mut placing = Placing::new(options, counts.iter().sum());
    let mut numbers = options.rank_map.iter().cycle();
    for (app, count) in counts.into_iter().enumerate() {
        for number in numbers.by_ref().take(count as usize) {
            let host = hosts.get(*number as usize).ok_or_else(|| {
                format!("-rankmap: host {number} is not there: the job has {} hosts, counted from 0", hosts.len())
            })?;
            placing.add(host, app).map_err(|why| format!("-rankmap: {why}"))?;
        }
    }
    Ok(placing.placement)
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
        nodes_with(line, None)
    }

    fn nodes_with(line: &str, rank_file: Option<&str>) -> String {
        let words = format!("{line} x");
        let Ok(Command::Run(mut options)) = parse(words.split_whitespace().map(Into::into)) else { panic!("{line}") };
        options.rank_file =
            rank_file.map(|text| RankFile { name: "f".into(), ranks: crate::cli::rankfile::parse(text).unwrap() });
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
    #[test]
    fn a_rank_file_places_each_rank() {
        let file = "rank 1=a slot=0\nrank 0=b slot=0\nrank 2=+n1 slot=1\n";
        let place = |line: &str| nodes_with(line, Some(file));
        assert_eq!(place("-hosts a,b"), "b a b");
        assert_eq!(place("-n 2 -hosts a.example.com,b"), "b a.example.com");
        assert_eq!(place("-n 1 -hosts a,b x : -n 1 -host c,a"), "b a");
        assert_eq!(place("-n 2"), "b a");
        assert_eq!(place("-n 3"), "rank file f: line 3: +n1 needs a list of hosts (-host, -hosts or a host file)");
        assert_eq!(place("-n 4 -hosts a,b"), "rank file f: no line for rank 3");
        assert_eq!(place("-hosts a"), "rank file f: line 2: host b is not one of the job's hosts");
        assert_eq!(
            nodes_with("-hosts a", Some("rank 0=+n1 slot=0")),
            "rank file f: line 1: +n1 is not there: the job has 1 hosts, counted from 0"
        );
        assert!(place("-hosts a,b x : -n 1").contains("-n for each"));
        assert!(nodes_with("-n 2 -hosts 10.0.0.1", Some("rank 0=10 slot=0")).contains("host 10 is not one"));
    }

    #[test]
    fn a_rank_map_places_each_rank() {
        assert_eq!(nodes("-rankmap 1,0,1 -hosts a,b"), "b a b");
        assert_eq!(nodes("-rankmap (0,2,2) -hosts a,b -n 6"), "a a b b a a");
        assert_eq!(nodes("-rankmap 1,0 -hosts a,b -n 1 x : -n 2"), "b a b");
        assert_eq!(nodes("-rankmap 0 -n 2"), "here here");
        assert_eq!(
            nodes("-rankmap 0,2 -hosts a,b"),
            "-rankmap: host 2 is not there: the job has 2 hosts, counted from 0"
        );
    }
}
