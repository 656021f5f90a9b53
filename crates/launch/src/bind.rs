//! Which CPUs each rank of a node is bound to.
//!
//! The default is not to bind: a job can't know what else runs on its CPUs (a second job would bind to the same
//! first cores), and a bound rank's threads all share one core. `--bind-to` is for whoever owns the node.
//! Only CPUs that this process may use are given away.

use protocol::control::tree::{ALL_CORES, Bind, CoreRange};
use sys::affinity::CpuSet;
use sys::topology::{Thread, Topology};

/// Identity of a core, a NUMA node, ...
type Object = (usize, usize);

fn object(bind: Bind, thread: &Thread) -> Object {
    match bind {
        Bind::None => (0, 0),
        Bind::HwThread => (0, thread.cpu),
        Bind::Core => (thread.package, thread.core),
        Bind::Numa => (0, thread.numa.unwrap_or(0)),
        Bind::Socket => (0, thread.package),
    }
}

/// What the ranks of a job are bound to.
pub struct Rule<'a> {
    /// Kind of object.
    pub unit: Bind,
    /// The larger objects that are taken in turn.
    pub map: Bind,
    /// Objects of each rank, one after another; all of them in one object of kind `map` if that is the larger kind.
    pub count: u32,
    /// Instead: these CPUs, in turn; empty if the user has listed none.
    pub user: &'a [Vec<u32>],
}

/// The CPUs of each set of `count` objects, in the order in which ranks get them: one after another, or (when
/// `map` is the larger kind) in turn from each object of kind `map`. A set has `count` objects, so some may be left over.
fn places(topology: &Topology, rule: &Rule<'_>) -> Vec<CpuSet> {
    let mut groups: Vec<(Object, Vec<(Object, CpuSet)>)> = Vec::new();
    for thread in topology.threads() {
        let outer = if rule.map as u8 > rule.unit as u8 { object(rule.map, thread) } else { (0, 0) };
        let inner = object(rule.unit, thread);
        let at = groups.iter().position(|g| g.0 == outer).unwrap_or_else(|| {
            groups.push((outer, Vec::new()));
            groups.len() - 1
        });
        let list = &mut groups[at].1;
        let place = list.iter().position(|p| p.0 == inner).unwrap_or_else(|| {
            list.push((inner, CpuSet::default()));
            list.len() - 1
        });
        list[place].1.insert(thread.cpu);
    }
    let union = |set: &[(Object, CpuSet)]| set.iter().fold(CpuSet::default(), |all, one| all.union(&one.1));
    let count = rule.count.max(1) as usize;
    let groups: Vec<Vec<CpuSet>> = groups.iter().map(|g| g.1.chunks_exact(count).map(union).collect()).collect();
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|i| groups.iter().filter_map(move |g| g.get(i).copied())).collect()
}

/// The CPUs of the node's `local`-th rank; `None` if it is not bound. More ranks than sets of objects start again at the first.
pub fn binding(topology: &Topology, local: usize, rule: &Rule<'_>) -> Result<Option<CpuSet>, String> {
    if rule.unit == Bind::None {
        return Ok(None);
    }
    if !rule.user.is_empty() {
        let list = &rule.user[local % rule.user.len()];
        return listed(topology, list).map(Some).map_err(|why| format!("--bind-to user: {why}"));
    }
    let places = places(topology, rule);
    match places.len() {
        0 if rule.map as u8 > rule.unit as u8 => Err(format!(
            "a rank needs {} {}s of one {}, and none here has so many",
            rule.count,
            name(rule.unit),
            name(rule.map)
        )),
        0 => Err(format!("a rank needs {} {}s, and this host doesn't have so many", rule.count, name(rule.unit))),
        sets => Ok(Some(places[local % sets])),
    }
}

/// The CPUs of those cores (or hardware threads, if that is the unit), and how many cores they are.
pub fn cores(topology: &Topology, unit: Bind, ranges: &[CoreRange]) -> Result<(CpuSet, u32), String> {
    let mut packages: Vec<Object> = Vec::new();
    let mut there: Vec<(usize, Object, CpuSet)> = Vec::new();
    for thread in topology.threads() {
        let (outer, inner) = (object(Bind::Socket, thread), object(unit, thread));
        let package = packages.iter().position(|p| *p == outer).unwrap_or_else(|| {
            packages.push(outer);
            packages.len() - 1
        });
        let at = there.iter().position(|one| one.1 == inner).unwrap_or_else(|| {
            there.push((package, inner, CpuSet::default()));
            there.len() - 1
        });
        there[at].2.insert(thread.cpu);
    }
    let mut chosen = std::collections::BTreeSet::new();
    for range in ranges {
        let of_package = |i: &usize| range.package.is_none_or(|package| there[*i].0 == package as usize);
        let numbered: Vec<usize> = (0..there.len()).filter(of_package).collect();
        let last = if range.last == ALL_CORES { numbered.len().saturating_sub(1) } else { range.last as usize };
        let Some(found) = numbered.get(range.first as usize..=last) else {
            let whole = range.package.map_or_else(|| "this host".into(), |package| format!("package {package}"));
            let (what, count) = (name(unit), numbered.len());
            return Err(format!(
                "{what} {last} of {whole} is not there, or this job may not use it; there are {count}"
            ));
        };
        chosen.extend(found.iter().copied());
    }
    let set = chosen.iter().fold(CpuSet::default(), |all, i| all.union(&there[*i].2));
    Ok((set, chosen.len() as u32))
}

/// The part of a machine that `--cpu-set` names, and its CPUs; all of it if that names none.
pub fn within(topology: &Topology, cpu_set: &[u32]) -> Result<(Topology, CpuSet), String> {
    let cpus = match cpu_set {
        [] => topology.cpus(),
        list => listed(topology, list).map_err(|why| format!("--cpu-set: {why}"))?,
    };
    let threads = topology.threads().iter().filter(|thread| cpus.contains(thread.cpu)).copied().collect();
    Ok((Topology::new(threads, topology.is_here()), cpus))
}

/// The CPUs that the user lists for a rank.
fn listed(topology: &Topology, list: &[u32]) -> Result<CpuSet, String> {
    let (there, mut cpus) = (topology.cpus(), CpuSet::default());
    for cpu in list {
        if !there.contains(*cpu as usize) {
            return Err(format!("cpu {cpu} is not there, or this job may not use it"));
        }
        cpus.insert(*cpu as usize);
    }
    Ok(cpus)
}

fn name(bind: Bind) -> &'static str {
    match bind {
        Bind::None => "host",
        Bind::HwThread => "hardware thread",
        Bind::Core => "core",
        Bind::Numa => "NUMA node",
        Bind::Socket => "socket",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets, each with two cores of two threads: cpus 0-3 first threads, 4-7 second threads.
    fn machine() -> Topology {
        let threads: Vec<Thread> =
            (0..8).map(|cpu| Thread { cpu, core: cpu % 2, numa: Some(cpu % 4 / 2), package: cpu % 4 / 2 }).collect();
        Topology::new(threads, true)
    }

    fn lists(bind: Bind, map: Bind) -> Vec<String> {
        sets(bind, map, 1, &[]).unwrap()
    }

    fn sets(unit: Bind, map: Bind, count: u32, user: &[Vec<u32>]) -> Result<Vec<String>, String> {
        let one = |local| binding(&machine(), local, &Rule { unit, map, count, user }).transpose();
        (0..5).filter_map(one).map(|set| set.map(|set| set.to_list())).collect()
    }

    #[test]
    fn a_rank_may_get_several_objects() {
        assert_eq!(
            sets(Bind::Core, Bind::None, 2, &[]).unwrap(),
            ["0-1,4-5", "2-3,6-7", "0-1,4-5", "2-3,6-7", "0-1,4-5"]
        );
        assert_eq!(sets(Bind::HwThread, Bind::None, 3, &[]).unwrap()[..3], ["0-1,4", "2,5-6", "0-1,4"]);
        // A rank's cores are all of one socket if sockets are taken in turn.
        assert_eq!(sets(Bind::Core, Bind::Socket, 2, &[]).unwrap()[..3], ["0-1,4-5", "2-3,6-7", "0-1,4-5"]);
        assert_eq!(sets(Bind::HwThread, Bind::Socket, 2, &[]).unwrap(), ["0,4", "2,6", "1,5", "3,7", "0,4"]);
        assert!(sets(Bind::Core, Bind::None, 5, &[]).unwrap_err().contains("needs 5 cores, and this host"));
        assert!(sets(Bind::Core, Bind::Socket, 3, &[]).unwrap_err().contains("3 cores of one socket"));
    }

    #[test]
    fn the_users_lists_are_taken_in_turn() {
        let lists = [vec![0, 2], vec![7]];
        assert_eq!(sets(Bind::HwThread, Bind::None, 1, &lists).unwrap(), ["0,2", "7", "0,2", "7", "0,2"]);
        assert!(sets(Bind::HwThread, Bind::None, 1, &[vec![8]]).unwrap_err().contains("cpu 8"));
    }

    #[test]
    fn cores_of_a_rank_file_are_counted_in_their_package() {
        let some = |unit, ranges: &[(Option<u32>, u32, u32)]| {
            let range = |r: &(Option<u32>, u32, u32)| CoreRange { package: r.0, first: r.1, last: r.2 };
            let ranges: Vec<CoreRange> = ranges.iter().map(range).collect();
            cores(&machine(), unit, &ranges).map(|(set, count)| (set.to_list(), count))
        };
        assert_eq!(some(Bind::Core, &[(None, 1, 2)]), Ok(("1-2,5-6".into(), 2)));
        assert_eq!(some(Bind::Core, &[(Some(1), 0, 0), (None, 0, 0)]), Ok(("0,2,4,6".into(), 2)));
        assert_eq!(some(Bind::Core, &[(Some(1), 0, ALL_CORES), (None, 3, 3)]), Ok(("2-3,6-7".into(), 2)));
        assert_eq!(some(Bind::HwThread, &[(None, 0, 2)]), Ok(("0-1,4".into(), 3)));
        let why = some(Bind::Core, &[(Some(0), 1, 2)]).unwrap_err();
        assert_eq!(why, "core 2 of package 0 is not there, or this job may not use it; there are 2");
        assert!(some(Bind::Core, &[(Some(2), 0, ALL_CORES)]).unwrap_err().contains("package 2 is not there"));
        assert!(some(Bind::Core, &[(None, 4, 4)]).unwrap_err().contains("core 4 of this host is not there"));
    }

    #[test]
    fn a_set_of_cpus_is_divided_as_a_machine() {
        let (part, cpus) = within(&machine(), &[6, 2, 3]).unwrap();
        assert_eq!(cpus.to_list(), "2-3,6");
        let rule = Rule { unit: Bind::Core, map: Bind::None, count: 1, user: &[] };
        let one = |local| binding(&part, local, &rule).unwrap().unwrap().to_list();
        assert_eq!([one(0), one(1), one(2)], ["2,6", "3", "2,6"]);
        assert_eq!(within(&machine(), &[]).unwrap().1.count(), 8);
        assert!(within(&machine(), &[8]).err().unwrap().contains("--cpu-set: cpu 8 is not there"));
    }

    #[test]
    fn ranks_get_objects_in_the_asked_order() {
        assert_eq!(lists(Bind::Core, Bind::None), ["0,4", "1,5", "2,6", "3,7", "0,4"]);
        assert_eq!(lists(Bind::Core, Bind::Numa), ["0,4", "2,6", "1,5", "3,7", "0,4"]);
        assert_eq!(lists(Bind::Socket, Bind::None), ["0-1,4-5", "2-3,6-7", "0-1,4-5", "2-3,6-7", "0-1,4-5"]);
        assert_eq!(lists(Bind::HwThread, Bind::Core), ["0", "1", "2", "3", "4"]);
        assert!(lists(Bind::None, Bind::None).is_empty());
    }

    /// The first ranks' processors on a machine that a file describes.
    fn described(text: &str, bind: Bind, map: Bind) -> Vec<String> {
        let machine = sys::topology::hwloc::parse(text).unwrap();
        let rule = Rule { unit: bind, map, count: 1, user: &[] };
        (0..3).filter_map(|i| binding(&machine, i, &rule).unwrap()).map(|s| s.to_list()).collect()
    }

    #[test]
    fn described_machines_are_divided_as_real_ones() {
        let two_sockets = include_str!("../../sys/src/topology/testdata/two-sockets.xml");
        assert_eq!(described(two_sockets, Bind::Socket, Bind::None), ["0-7,16-23", "8-15,24-31", "0-7,16-23"]);
        assert_eq!(described(two_sockets, Bind::Numa, Bind::None), ["0-3,16-19", "4-7,20-23", "8-11,24-27"]);
        assert_eq!(described(two_sockets, Bind::Numa, Bind::Socket), ["0-3,16-19", "8-11,24-27", "4-7,20-23"]);
        assert_eq!(described(two_sockets, Bind::Core, Bind::Numa), ["0,16", "4,20", "8,24"]);
        let laptop = include_str!("../../sys/src/topology/testdata/laptop.xml");
        assert_eq!(described(laptop, Bind::Numa, Bind::None), ["0-5", "0-5", "0-5"]);
        assert_eq!(described(laptop, Bind::Core, Bind::None), ["0-1", "2-3", "4"]);
    }

    #[test]
    fn this_host_has_a_core() {
        let rule = Rule { unit: Bind::Core, map: Bind::None, count: 1, user: &[] };
        assert!(binding(&Topology::current().unwrap(), 0, &rule).unwrap().unwrap().count() >= 1);
    }
}
