//! Hints about where an agent runs. Nothing of it is proved.

use crate::settings;
use protocol::control::near::{Directory, Hints, Mode};
use protocol::control::tree::JobSpec;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Hints of this agent, whose sockets are called `name`. `reachable`: the abstract one is open; `inherited`: mpiexec can introduce it.
pub fn of_this_agent(job: &JobSpec, name: &[u8], reachable: bool, inherited: bool) -> Hints {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let network = std::fs::metadata("/proc/self/ns/net").ok().filter(|_| reachable).map(|m| m.ino());
    Hints {
        mode: mode(job) as u8,
        boot_id: boot_id.map(|text| text.trim().to_string()),
        network,
        name: name.to_vec(),
        directories: candidates(job).iter().filter_map(|(path, named)| describe(path, *named)).collect(),
        inherited,
        uid: sys::process::effective_uid(),
        cpus: sys::affinity::allowed().map(|set| set.iter().map(|cpu| cpu as u32).collect()).unwrap_or_default(),
        quota_milli: sys::affinity::quota().map(|quota| (quota * 1000.0).clamp(1.0, 1e9) as u32),
        quota_group: control_group(),
        regions: Vec::new(),
    }
}

/// Where this agent looks for others: its own environment counts more than that of the job, because containers differ.
pub fn mode(job: &JobSpec) -> Mode {
    match of_node(channel::locality::LOCALITY.read(), "LOCALITY", job).as_str() {
        "off" | "node" => Mode::Alone,
        "host" => Mode::Host,
        "file" => Mode::Files,
        _ => Mode::Auto,
    }
}

/// A setting of this node: from the agent's environment, else from what mpiexec sets for the ranks.
pub(super) fn of_node((own, is_set): &(String, bool), name: &str, job: &JobSpec) -> String {
    let name = format!("FERRULE_{name}");
    let set = job.apps.iter().flat_map(|app| &app.set).rev().find(|(n, _)| n == name.as_bytes());
    match set {
        Some((_, value)) if !is_set => String::from_utf8_lossy(value).into_owned(),
        _ => own.clone(),
    }
}

/// The directory that the user has made for this, if any.
pub fn job_directory(job: &JobSpec) -> Option<PathBuf> {
    let text = of_node(settings::JOB_DIR.read(), "JOB_DIR", job);
    (!text.is_empty()).then(|| text.into())
}

/// Directories that containers and processes of one host often share, best first.
fn candidates(job: &JobSpec) -> Vec<(PathBuf, bool)> {
    let working = job.apps.first().map(|app| PathBuf::from(OsStr::from_bytes(&app.working_directory)));
    let fixed = [Some("/dev/shm".into()), Some(std::env::temp_dir()), Some("/tmp".into()), working];
    let guessed = fixed.into_iter().flatten().filter(|p: &PathBuf| !sys::sock::is_network_directory(p));
    job_directory(job).map(|path| (path, true)).into_iter().chain(guessed.map(|path| (path, false))).collect()
}

fn describe(path: &Path, named: bool) -> Option<Directory> {
    let meta = std::fs::metadata(path).ok().filter(|m| m.is_dir())?;
    sys::sock::is_writable_directory(path).then(|| Directory {
        device: meta.dev(),
        inode: meta.ino(),
        named,
        path: path.as_os_str().as_bytes().to_vec(),
    })
}

/// A number that two agents share if the same control group limits their processors.
fn control_group() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default().hash(&mut hasher);
    for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        std::fs::metadata(base).map_or(0, |m| m.ino()).hash(&mut hasher);
    }
    hasher.finish()
}
