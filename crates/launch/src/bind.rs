//! Which CPUs each rank of a node is bound to.
//!
//! The default is not to bind: a job can't know what else runs on its CPUs (a second job would bind to the same
//! first cores), and a bound rank's threads all share one core. `--bind-to` is for whoever owns the node.
//! Only CPUs that this process may use are given away.

use protocol::control::tree::Bind;
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

/// The CPUs of each object of kind `bind`, in the order in which ranks get them: one after another, or (when
/// `map` is the larger kind) in turn from each object of kind `map`.
fn places(topology: &Topology, bind: Bind, map: Bind) -> Vec<CpuSet> {
    let mut groups: Vec<(Object, Vec<(Object, CpuSet)>)> = Vec::new();
    for thread in topology.threads() {
        let outer = if map as u8 > bind as u8 { object(map, thread) } else { (0, 0) };
        let inner = object(bind, thread);
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
    let longest = groups.iter().map(|g| g.1.len()).max().unwrap_or(0);
    (0..longest).flat_map(|i| groups.iter().filter_map(move |g| g.1.get(i)).map(|p| p.1)).collect()
}

/// The CPUs of the node's `local`-th rank; `None` if it is not bound. More ranks than objects start again at the first.
pub fn binding(topology: &Topology, local: usize, bind: Bind, map: Bind) -> Option<CpuSet> {
    if bind == Bind::None {
        return None;
    }
    let places = places(topology, bind, map);
    places.get(local % places.len().max(1)).copied()
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
        (0..5).filter_map(|i| binding(&machine(), i, bind, map)).map(|s| s.to_list()).collect()
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
        (0..3).filter_map(|i| binding(&machine, i, bind, map)).map(|s| s.to_list()).collect()
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
        assert!(binding(&Topology::current().unwrap(), 0, Bind::Core, Bind::None).unwrap().count() >= 1);
    }
}
