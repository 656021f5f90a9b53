//! Which cores, NUMA nodes and packages a machine's processors belong to.
//!
//! The kernel (/sys) tells, unless `FERRULE_TOPOLOGY` names a file that `lstopo` or `hwloc-gather-topology` has written ([`hwloc`]). Such a
//! file may describe this machine (it names exactly the processors that are online) where a container hides /sys, or any other
//! machine: then nothing is really bound, and ranks go by the processors that mpiexec says it would have given them.

pub mod hwloc;

use crate::affinity::{self, CpuSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

base::config! {
    /// A file of hwloc (XML) that describes the machine, the same path on every host; empty for what the kernel tells.
    TOPOLOGY: text = "";
    /// Set by mpiexec on a machine that is only described: the processors that the rank would be bound to, such as 0-3,8.
    BOUND_TO: text = "";
}

/// One hardware thread and where it sits. Numbers of cores are unique within a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number for the kernel.
    pub cpu: usize,
    /// Its core.
    pub core: usize,
    /// Its NUMA node, if the kernel tells.
    pub numa: Option<usize>,
    /// Its package (socket).
    pub package: usize,
}

/// The processors of a machine that may be used, sorted by package, NUMA node, core and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    threads: Vec<Thread>,
    is_here: bool,
}

impl Topology {
    /// What this process may use, by the setting or the kernel; an error if the file of the setting is of no use.
    pub fn current() -> Result<Arc<Topology>, String> {
        static LAST: Mutex<Option<(CpuSet, Arc<Topology>)>> = Mutex::new(None);
        let allowed = affinity::allowed().unwrap_or_default();
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, topology)) = last.as_ref().filter(|(cpus, _)| *cpus == allowed) {
            return Ok(Arc::clone(topology));
        }
        let topology = match described() {
            None => Topology::of_kernel(&allowed),
            Some(Ok(topology)) if topology.is_here => topology.part(&allowed),
            Some(Ok(topology)) => topology.clone(),
            Some(Err(why)) => return Err(why.clone()),
        };
        let topology = Arc::new(topology);
        *last = Some((allowed, Arc::clone(&topology)));
        Ok(topology)
    }

    /// The processors `cpus` as /sys describes them; what it doesn't tell is taken for one package of one-thread cores.
    pub fn of_kernel(cpus: &CpuSet) -> Topology {
        let threads = cpus.iter().map(|cpu| {
            let number = |name: &str| {
                let path = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/topology/{name}"));
                std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<usize>().ok())
            };
            Thread {
                cpu,
                core: number("core_id").unwrap_or(cpu),
                numa: affinity::numa_node(cpu),
                package: number("physical_package_id").unwrap_or(0),
            }
        });
        Topology::new(threads.collect(), true)
    }

    /// A machine of these threads; `is_here` if it is this one.
    pub fn new(mut threads: Vec<Thread>, is_here: bool) -> Topology {
        threads.sort_by_key(|t| (t.package, t.numa, t.core, t.cpu));
        Topology { threads, is_here }
    }

    /// The threads, in order.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Whether this machine is meant, so that processes can be bound.
    pub fn is_here(&self) -> bool {
        self.is_here
    }

    /// All processors.
    pub fn cpus(&self) -> CpuSet {
        let mut all = CpuSet::default();
        self.threads.iter().for_each(|t| all.insert(t.cpu));
        all
    }

    fn part(&self, cpus: &CpuSet) -> Topology {
        let threads = self.threads.iter().filter(|t| cpus.contains(t.cpu)).copied().collect();
        Topology { threads, is_here: self.is_here }
    }

    /// The threads that this process may run on, or would be bound to on the machine that is described.
    pub fn own_threads(&self) -> Vec<Thread> {
        let given = CpuSet::from_list(BOUND_TO.value()).filter(|cpus| cpus.count() > 0);
        let cpus = if self.is_here { affinity::allowed().ok() } else { given };
        self.threads.iter().filter(|t| cpus.is_none_or(|cpus| cpus.contains(t.cpu))).copied().collect()
    }

    /// How many packages, NUMA nodes, cores and processors there are, in words.
    pub fn summary(&self) -> String {
        let count = |key: &dyn Fn(&Thread) -> (usize, usize)| {
            let mut keys: Vec<(usize, usize)> = self.threads.iter().map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.len()
        };
        let words = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        [
            words(count(&|t| (0, t.package)), "package"),
            words(count(&|t| (0, t.numa.unwrap_or(0))), "NUMA node"),
            words(count(&|t| (t.package, t.core)), "core"),
            words(self.threads.len(), "processor"),
        ]
        .join(", ")
    }
}

/// The machine of the setting's file, if one is set. Read once.
fn described() -> Option<&'static Result<Topology, String>> {
    static FILE: OnceLock<Option<Result<Topology, String>>> = OnceLock::new();
    let read = || {
        let path = TOPOLOGY.value().trim();
        let topology = || {
            let mut topology = hwloc::parse(&hwloc::read(Path::new(path))?)?;
            topology.is_here = online() == Some(topology.cpus());
            Ok(topology)
        };
        (!path.is_empty()).then(|| topology().map_err(|why: String| format!("FERRULE_TOPOLOGY={path}: {why}")))
    };
    FILE.get_or_init(read).as_ref()
}

/// Whether the file of the setting, if one is set, can be used.
pub fn check() -> Result<(), String> {
    described().map_or(Ok(()), |topology| topology.as_ref().map(drop).map_err(Clone::clone))
}

/// The processors that are online.
fn online() -> Option<CpuSet> {
    CpuSet::from_list(&std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// The NUMA node that memory of this process should be on: that of its processors if they share one, else that of the processor it
/// runs on now. `None` on a machine with one node.
pub fn home_node() -> Option<usize> {
    let nodes = CpuSet::from_list(&std::fs::read_to_string("/sys/devices/system/node/online").ok()?)?;
    if nodes.count() < 2 {
        return None;
    }
    let allowed = affinity::allowed().ok()?;
    let first = affinity::numa_node(allowed.iter().next()?);
    let shared = first.is_some() && allowed.iter().all(|cpu| affinity::numa_node(cpu) == first);
    if shared { first } else { affinity::numa_node(affinity::current_cpu()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors() {
        let here = Topology::of_kernel(&affinity::allowed().unwrap());
        assert!(here.is_here());
        assert_eq!(here.cpus(), affinity::allowed().unwrap());
        assert_eq!(here.own_threads().len(), here.threads().len());
        assert!(here.summary().contains("package"));
    }

    #[test]
    fn home_is_a_node_that_is_online() {
        let online =
            std::fs::read_to_string("/sys/devices/system/node/online").ok().and_then(|t| CpuSet::from_list(&t));
        match (home_node(), online) {
            (Some(node), Some(online)) => assert!(online.contains(node)),
            (None, online) => assert!(online.is_none_or(|o| o.count() < 2)),
            (Some(node), None) => panic!("node {node} of none"),
        }
    }
}
