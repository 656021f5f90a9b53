//! Which processors this process may use: affinity mask, cgroup quota, NUMA node.
//!
//! A container often sees every processor of the host in its mask but has a quota of two; so both count.

use std::io;
use std::path::{Path, PathBuf};

/// Bits of a [`CpuSet`]; machines with more processors have the rest left out.
pub const CPUS_MAX: usize = 1024;

/// A set of processors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet([u64; CPUS_MAX / 64]);

impl Default for CpuSet {
    fn default() -> CpuSet {
        CpuSet([0; CPUS_MAX / 64])
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_list())
    }
}

impl CpuSet {
    /// Adds processor `cpu`; numbers from [`CPUS_MAX`] on are ignored.
    pub fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether processor `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|w| w >> (cpu % 64) & 1 == 1)
    }

    /// Number of processors.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the sets have a processor in common.
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// The processors of both.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        CpuSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The processors that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        CpuSet(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The processors in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CPUS_MAX).filter(|&cpu| self.contains(cpu))
    }

    /// As `0-3,8`, the notation of sysfs.
    pub fn to_list(&self) -> String {
        let mut out = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            let comma = if out.is_empty() { "" } else { "," };
            let range = if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
            out.push_str(&range);
        }
        out
    }

    /// Reads `0-3,8`; `None` if it is something else.
    pub fn from_list(text: &str) -> Option<CpuSet> {
        let mut set = CpuSet::default();
        for range in text.trim().split(',').filter(|r| !r.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
            (first..=last.min(CPUS_MAX - 1)).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }
}

/// The processors that the calling thread may run on (affinity mask, which cpuset cgroups bound).
pub fn allowed() -> io::Result<CpuSet> {
    let mut set = CpuSet::default();
    // SAFETY: the buffer is writable for the size that is given.
    let n = unsafe { libc::sched_getaffinity(0, size_of::<CpuSet>(), (&raw mut set.0).cast()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(set) }
}

/// Restricts the calling thread, and what it starts later, to `set`.
pub fn restrict(set: &CpuSet) -> io::Result<()> {
    // SAFETY: the buffer is readable for the size that is given.
    let n = unsafe { libc::sched_setaffinity(0, size_of::<CpuSet>(), (&raw const set.0).cast()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The processor that the calling thread runs on now.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: sched_getcpu has no precondition.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Processors' worth of time that cgroup v2 (`cpu.max`) or v1 (`cpu.cfs_quota_us`) grants, `None` if there is no limit
/// or it can't be read. The strictest limit on the way to the root counts.
pub fn quota() -> Option<f64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_from(&own, Path::new("/sys/fs/cgroup"))
}

/// The strictest limit of all hierarchies in `own`, the text of /proc/self/cgroup, that are mounted below `root`.
///
/// In a container the path may be that of the host (no cgroup namespace) while the container's own cgroup is what is mounted; so every
/// directory from the path up to the mount's root is looked at, and those that don't exist here say nothing.
fn quota_from(own: &str, root: &Path) -> Option<f64> {
    own.lines().filter_map(|line| quota_of(line, root)).reduce(f64::min)
}

/// The limit for one line `hierarchy:controllers:path` of /proc/self/cgroup.
fn quota_of(line: &str, root: &Path) -> Option<f64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let bases: Vec<PathBuf> = if controllers.is_empty() {
        vec![root.to_owned(), root.join("unified")]
    } else if controllers.split(',').any(|c| c == "cpu") {
        vec![root.join("cpu"), root.join(controllers)]
    } else {
        return None;
    };
    let path = Path::new(path.trim_start_matches('/'));
    bases
        .iter()
        .flat_map(|base| path.ancestors().map(move |p| base.join(p)))
        .filter_map(|d| quota_in(&d))
        .reduce(f64::min)
}

/// The limit that is set in the cgroup directory `dir`.
fn quota_in(dir: &Path) -> Option<f64> {
    let number = |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<f64>().ok();
    let (limit, period) = match std::fs::read_to_string(dir.join("cpu.max")) {
        Ok(text) => {
            let (limit, period) = text.trim().split_once(' ')?;
            (limit.parse().ok()?, period.parse().ok()?)
        }
        Err(_) => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    (limit > 0.0 && period > 0.0).then(|| limit / period)
}

/// The NUMA node of processor `cpu`, `None` if the kernel doesn't tell.
pub fn numa_node(cpu: usize) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    entries.flatten().find_map(|e| e.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let set = CpuSet::from_list("0-3,8,10-11\n").unwrap();
        assert_eq!(set.to_list(), "0-3,8,10-11");
        assert_eq!(set.count(), 7);
        assert!(set.contains(10) && !set.contains(9));
        assert!(!set.intersects(&CpuSet::from_list("9").unwrap()));
        assert_eq!(CpuSet::from_list("x"), None);
        assert_eq!(CpuSet::from_list("99999999").unwrap().count(), 0);
        assert_eq!(CpuSet::from_list("1-18446744073709551615").unwrap().count(), CPUS_MAX - 1);
    }

    #[test]
    fn this_process_has_a_processor() {
        let set = allowed().unwrap();
        assert!(set.count() >= 1);
        restrict(&set).unwrap();
        assert!(set.contains(current_cpu().unwrap()));
        assert!(quota().is_none_or(|q| q > 0.0));
    }

    /// Files of cgroups as a process in a container sees them: (what, /proc/self/cgroup, files below /sys/fs/cgroup, quota).
    type View = (&'static str, &'static str, &'static [(&'static str, &'static str)], Option<f64>);
    const VIEWS: &[View] = &[
        ("v2 in a cgroup namespace", "0::/\n", &[("cpu.max", "50000 100000\n")], Some(0.5)),
        ("v2, no limit", "0::/\n", &[("cpu.max", "max 100000\n")], None),
        ("v2, moved out of the namespace's root", "0::/../b\n", &[("cpu.max", "200000 100000\n")], Some(2.0)),
        (
            "v2 with the host's path",
            "0::/system.slice/docker-0123.scope\n",
            &[("cpu.max", "150000 100000\n")],
            Some(1.5),
        ),
        (
            "v2, a pod's limit above that of its container",
            "0::/kubepods/pod1/c1\n",
            &[
                ("kubepods/cpu.max", "max 100000\n"),
                ("kubepods/pod1/cpu.max", "100000 100000\n"),
                ("kubepods/pod1/c1/cpu.max", "400000 100000\n"),
            ],
            Some(1.0),
        ),
        (
            "v1 with the host's path",
            "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123\n",
            &[("cpu,cpuacct/cpu.cfs_quota_us", "300000\n"), ("cpu,cpuacct/cpu.cfs_period_us", "100000\n")],
            Some(3.0),
        ),
        ("v1, no limit", "2:cpu:/\n", &[("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu/cpu.cfs_period_us", "100000\n")], None),
        (
            "v1 and v2 side by side",
            "2:cpu,cpuacct:/docker/1\n0::/docker/1\n",
            &[
                ("cpu/docker/1/cpu.cfs_quota_us", "50000\n"),
                ("cpu/docker/1/cpu.cfs_period_us", "50000\n"),
                ("unified/docker/1/cgroup.procs", ""),
            ],
            Some(1.0),
        ),
        ("nothing mounted", "0::/x\n", &[], None),
        ("nonsense", "x\n0::\n::\n", &[("cpu.max", "much\n")], None),
    ];

    #[test]
    fn containers_see_their_quota() {
        for (index, (what, own, files, wanted)) in VIEWS.iter().enumerate() {
            let root = std::env::temp_dir().join(format!("ferrule-cgroup-{}-{index}", std::process::id()));
            std::fs::create_dir_all(&root).unwrap();
            for (name, text) in *files {
                std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                std::fs::write(root.join(name), text).unwrap();
            }
            assert_eq!(quota_from(own, &root), *wanted, "{what}");
            std::fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn quotas_of_both_versions() {
        let root = std::env::temp_dir().join(format!("ferrule-quota-{}", std::process::id()));
        let v2 = root.join("a/b");
        let v1 = root.join("cpu/x");
        std::fs::create_dir_all(&v2).unwrap();
        std::fs::create_dir_all(&v1).unwrap();
        std::fs::write(v2.join("cpu.max"), "max 100000\n").unwrap();
        std::fs::write(root.join("a/cpu.max"), "150000 100000\n").unwrap();
        std::fs::write(v1.join("cpu.cfs_quota_us"), "200000\n").unwrap();
        std::fs::write(v1.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(quota_of("0::/a/b", &root), Some(1.5));
        assert_eq!(quota_of("4:cpu,cpuacct:/x", &root), Some(2.0));
        assert_eq!(quota_of("3:memory:/x", &root), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
