//! What `ferrule startup` found, as it is written and read.

use super::run::Failed;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Results {
    /// Version of Ferrule.
    pub ferrule: String,
    /// Where and when.
    pub machine: Machine,
    /// The command's words.
    pub command: Vec<String>,
    /// Rate of the emulated links.
    pub rate: String,
    /// Width of the tree of agents.
    pub tree_width: u32,
    /// Ranks on each emulated host.
    pub ranks_per_host: usize,
    /// Schemes on emulated hosts.
    pub schemes: Vec<SchemePoint>,
    /// Launchers on this host.
    pub launchers: Vec<LauncherPoint>,
    /// Memory of sleeping jobs.
    pub sleepers: Vec<Sleepers>,
    /// What was left out, and why.
    pub failures: Vec<Failure>,
    /// Models of the measured schemes and of the published figures.
    pub models: Vec<ModelRecord>,
}

/// The machine.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Kernel's release.
    pub kernel: String,
    /// One-minute load when the run began.
    pub load: String,
    /// Seconds since 1970.
    pub unix_time: u64,
}

/// One scheme, N and setting.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct SchemePoint {
    /// Name.
    pub scheme: String,
    /// N.
    pub ranks: usize,
    /// Emulated hosts.
    pub hosts: usize,
    /// Emulated wait for a session.
    pub session_ms: u32,
    /// `demand` or `all`.
    pub connect: String,
    /// From the start of mpiexec to its end, for each repeat.
    pub wall_s: Vec<f64>,
    /// Until all ranks had returned from `MPI_Init`, as mpiexec reports it.
    pub init_s: Vec<f64>,
    /// The report of the last repeat.
    pub report: serde_json::Value,
}

impl SchemePoint {
    /// The times that count: until `MPI_Init` if known, else the whole job.
    pub fn times(&self) -> &[f64] {
        if self.init_s.len() == self.wall_s.len() { &self.init_s } else { &self.wall_s }
    }
}

/// One launcher and N on this host.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LauncherPoint {
    /// Name.
    pub name: String,
    /// N.
    pub ranks: usize,
    /// From the start of mpiexec to its end, for each repeat.
    pub wall_s: Vec<f64>,
}

/// Memory of a job whose ranks sleep.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Sleepers {
    /// N.
    pub ranks: usize,
    /// Until all had met.
    pub ready_s: f64,
    /// From the end of rank 0's input to the end of mpiexec.
    pub end_s: f64,
    /// Proportional set size of mpiexec and agents.
    pub launcher_bytes: u64,
    /// Processes that this is the sum of.
    pub launcher_processes: usize,
    /// Proportional set size of all ranks.
    pub ranks_bytes: u64,
    /// Less memory available on the machine than before.
    pub machine_bytes: u64,
}

/// Something that was left out.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Failure {
    /// Scheme or launcher, and setting.
    pub what: String,
    /// N, zero if it is not about one.
    pub ranks: usize,
    /// Why.
    pub why: String,
}

/// A fitted model.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct ModelRecord {
    /// Scheme.
    pub scheme: String,
    /// `measured` or `paper`.
    pub source: String,
    /// Emulated wait for a session.
    pub session_ms: u32,
    /// `demand` or `all`.
    pub connect: String,
    /// Terms.
    pub terms: Vec<TermRecord>,
    /// Largest N that was measured.
    pub ranks_max: usize,
    /// (model − measured) / measured there.
    pub error: f64,
    /// The same, fitted without the largest N.
    pub held_out_error: Option<f64>,
    /// Predictions.
    pub predictions: Vec<Prediction>,
}

/// A term of a model.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct TermRecord {
    /// What it grows with.
    pub growth: String,
    /// What the constant stands for.
    pub meaning: String,
    /// Seconds.
    pub constant: f64,
    /// Half width of the 95% interval; none without degrees of freedom.
    pub half_width: Option<f64>,
}

/// A model's value.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Prediction {
    /// N.
    pub ranks: usize,
    /// Seconds on hosts that share this machine's processors.
    pub emulated_s: f64,
    /// Half width of the 95% interval.
    pub emulated_half_s: Option<f64>,
    /// Seconds on hosts with processors of their own.
    pub cluster_s: f64,
    /// Half width of the 95% interval.
    pub cluster_half_s: Option<f64>,
}

impl Results {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Results, Failed> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Writes the file anew; readers see the old one or the new one.
    pub fn write(&self, path: &Path) -> Result<(), Failed> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let part = path.with_extension("part");
        std::fs::write(&part, text + "\n")
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Notes that something is left out.
    pub fn fail(&mut self, what: &str, ranks: usize, why: Failed) {
        self.failures.push(Failure { what: what.into(), ranks, why });
    }
}

/// The middle of some times; infinite without any.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::INFINITY,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let cpu = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        Machine {
            cpu: cpu.trim_start_matches([' ', '\t', ':']).into(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().into(),
            unix_time: std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs()),
        }
    }
}
