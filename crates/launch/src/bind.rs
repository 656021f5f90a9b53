//! Which CPUs each rank of a node is bound to.
//!
//! The default is not to bind: a job can't know what else runs on its CPUs (a second job would bind to the same
//! first cores), and a bound rank's threads all share one core. `--bind-to` is for whoever owns the node.
//! Only CPUs that this process may use are given away.

use protocol::control::tree::Bind;
use std::path::Path;
use sys::affinity::CpuSet;

/// One hardware thread and where it sits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Thread {
    cpu: usize,
    core: usize,
    numa: usize,
    socket: usize,
}

/// Identity of a core, a NUMA node, ...
type Object = (usize, usize);

/// The CPUs of a node that may be used.
pub struct Topology {
    threads: Vec<Thread>,
}

impl Topology {
    /// Reads sysfs; what it doesn't tell is taken for one socket of one-thread cores.
    pub fn of_this_host() -> Topology {
        let allowed = sys::affinity::allowed().unwrap_or_default();
        let mut threads: Vec<Thread> = allowed
            .iter()
            .map(|cpu| {
                let number = |name: &str| {
                    let path = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/topology/{name}"));
                    std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<usize>().ok())
                };
                Thread {
                    cpu,
                    core: number("core_id").unwrap_or(cpu),
                    numa: sys::affinity::numa_node(cpu).unwrap_or(0),
                    socket: number("physical_package_id").unwrap_or(0),
                }
            })
            .collect();
        threads.sort_by_key(|t| (t.socket, t.numa, t.core, t.cpu));
        Topology { threads }
    }

    fn object(bind: Bind, thread: &Thread) -> Object {
        match bind {
            Bind::None => (0, 0),
            Bind::HwThread => (0, thread.cpu),
            Bind::Core => (thread.socket, thread.core),
            Bind::Numa => (0, thread.numa),
            Bind::Socket => (0, thread.socket),
        }
    }

    /// The CPUs of each object of kind `bind`, in the order in which ranks get them: one after another, or (when
    /// `map` is the larger kind) in turn from each object of kind `map`.
    fn places(&self, bind: Bind, map: Bind) -> Vec<CpuSet> {
        let mut groups: Vec<(Object, Vec<(Object, CpuSet)>)> = Vec::new();
        for thread in &self.threads {
            let outer = if map as u8 > bind as u8 { Topology::object(map, thread) } else { (0, 0) };
            let inner = Topology::object(bind, thread);
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
    pub fn binding(&self, local: usize, bind: Bind, map: Bind) -> Option<CpuSet> {
        if bind == Bind::None {
            return None;
        }
        let places = self.places(bind, map);
        places.get(local % places.len().max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets, each with two cores of two threads: cpus 0-3 first threads, 4-7 second threads.
    fn machine() -> Topology {
        let mut threads: Vec<Thread> =
            (0..8).map(|cpu| Thread { cpu, core: cpu % 2, numa: cpu % 4 / 2, socket: cpu % 4 / 2 }).collect();
        threads.sort_by_key(|t| (t.socket, t.numa, t.core, t.cpu));
        Topology { threads }
    }

    fn lists(bind: Bind, map: Bind) -> Vec<String> {
        (0..5).filter_map(|i| machine().binding(i, bind, map)).map(|s| s.to_list()).collect()
    }

    #[test]
    fn ranks_get_objects_in_the_asked_order() {
        assert_eq!(lists(Bind::Core, Bind::None), ["0,4", "1,5", "2,6", "3,7", "0,4"]);
        assert_eq!(lists(Bind::Core, Bind::Numa), ["0,4", "2,6", "1,5", "3,7", "0,4"]);
        assert_eq!(lists(Bind::Socket, Bind::None), ["0-1,4-5", "2-3,6-7", "0-1,4-5", "2-3,6-7", "0-1,4-5"]);
        assert_eq!(lists(Bind::HwThread, Bind::Core), ["0", "1", "2", "3", "4"]);
        assert!(lists(Bind::None, Bind::None).is_empty());
    }

    #[test]
    fn this_host_has_a_core() {
        assert!(Topology::of_this_host().binding(0, Bind::Core, Bind::None).unwrap().count() >= 1);
    }
}
