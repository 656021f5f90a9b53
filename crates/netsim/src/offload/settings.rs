//! The constants of the model, each with where it comes from, and their checks.
//!
//! Nothing is fitted to the published figures. What the sources don't say is an assumption, and [`ASSUMPTIONS`] lists those that can be varied.

use std::fmt;

/// How a worker moves the data of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Its processor copies chunks out of the sender's memory, and the other node's worker copies them into the receiver's: Ferrule's workers, without the kernel's costs of TCP.
    Copy,
    /// The network adapter reads the sender's memory and writes the receiver's: memory of ranks is registered for workers of their host.
    Registered,
    /// The adapter reads the sender's memory into the worker's (staging), and writes from there into the receiver's: a SmartNIC.
    Staged,
}

/// Which ranks a worker of a node serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// An equal share of them: BluesMPI.
    Ranks,
    /// All of them, and another worker the next operation: Ferrule (decision 0042). One operation has one worker a node.
    Operations,
}

/// The workers of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// How many.
    pub per_node: u32,
    /// How they move data.
    pub path: Path,
    /// Whom they serve.
    pub share: Share,
    /// Speed of their cores; that of the ranks' cores is 1.
    pub speed: f64,
    /// What the way from the host's memory to theirs carries, in each direction.
    pub staging_gb_s: f64,
    /// From a rank to its worker, and back.
    pub hand_over_us: f64,
    /// Data is moved in chunks of this size.
    pub chunk_bytes: u32,
    /// Chunks that a worker has under way at most: its staging memory.
    pub chunks_max: u32,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Number of nodes.
    pub nodes: u32,
    /// Ranks of a node, each with a core of its own.
    pub ranks_per_node: u32,
    /// What a node's link carries, in each direction.
    pub link_gb_s: f64,
    /// From one adapter to another.
    pub latency_us: f64,
    /// Time of a rank's core to begin an operation of its adapter or to take note of one, or of a message without data.
    pub op_us: f64,
    /// What such a core copies, from one process to another.
    pub copy_gb_s: f64,
    /// From one process of a node to another.
    pub local_us: f64,
    /// None if ranks run collectives themselves.
    pub workers: Option<Workers>,
}

/// What can't be simulated, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSettings(pub String);

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ranks of all nodes that are simulated at most.
const RANKS_MAX: u32 = 4096;

impl Workers {
    /// Workers on a SmartNIC such as a BlueField-2. It has 8 Cortex-A72 cores (data sheet); that such a core does 0.4 of a host core's work is an assumption. The host's
    /// memory is reached over 16 lanes of PCI Express 3.0, 15.75 GB/s, of which 12.5 are left for data (assumption: 80 %). 64 KiB and 8 MiB are Ferrule's chunks and the memory that its
    /// workers may have.
    pub fn smart_nic(per_node: u32) -> Workers {
        Workers {
            per_node,
            path: Path::Staged,
            share: Share::Ranks,
            speed: 0.4,
            staging_gb_s: 12.5,
            hand_over_us: 2.0,
            chunk_bytes: 64 << 10,
            chunks_max: 128,
        }
    }

    /// Workers on free cores of the host that copy. A worker that sleeps is awake 5 µs after its bell (assumption).
    pub fn host(per_node: u32) -> Workers {
        Workers { path: Path::Copy, speed: 1.0, hand_over_us: 5.0, ..Workers::smart_nic(per_node) }
    }

    /// The same, with registered memory.
    pub fn registered(per_node: u32) -> Workers {
        Workers { path: Path::Registered, ..Workers::host(per_node) }
    }
}

impl Settings {
    /// 32 nodes on links of 100 Gb/s, as BlueField adapters had them; the published figures are of 32 nodes, the sources at hand don't say more. Headers of packets (1 %) are left out.
    /// Latency, operation and copy are usual figures of such hosts, and assumptions here.
    pub fn cluster(ranks_per_node: u32) -> Settings {
        Settings {
            nodes: 32,
            ranks_per_node,
            link_gb_s: 12.5,
            latency_us: 1.0,
            op_us: 0.25,
            copy_gb_s: 8.0,
            local_us: 0.5,
            workers: None,
        }
    }

    /// Ranks of all nodes.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.ranks_per_node
    }

    /// An error if this can't be simulated.
    pub fn check(&self) -> Result<(), BadSettings> {
        let whole = |name: &str, value: u32, least: u32, most: u32| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(BadSettings(format!("{name} {value}: expected {least} to {most}"))),
        };
        let positive = |name: &str, value: f64, least: f64| match value.is_finite() && value >= least && value <= 1e6 {
            true => Ok(()),
            false => Err(BadSettings(format!("{name} {value}: expected {least} to 1000000"))),
        };
        whole("nodes", self.nodes, 1, 1024)?;
        whole("ranks per node", self.ranks_per_node, 1, 1024)?;
        whole("ranks of all nodes", self.ranks(), 2, RANKS_MAX)?;
        positive("link, GB/s", self.link_gb_s, 1e-3)?;
        positive("latency, µs", self.latency_us, 0.0)?;
        positive("operation, µs", self.op_us, 0.0)?;
        positive("copy, GB/s", self.copy_gb_s, 1e-3)?;
        positive("local latency, µs", self.local_us, 0.0)?;
        if let Some(workers) = &self.workers {
            whole("workers per node", workers.per_node, 1, self.ranks_per_node)?;
            positive("speed of a worker's core", workers.speed, 1e-3)?;
            positive("staging, GB/s", workers.staging_gb_s, 1e-3)?;
            positive("hand-over, µs", workers.hand_over_us, 0.0)?;
            whole("bytes of a chunk", workers.chunk_bytes, 512, 1 << 30)?;
            whole("chunks of a worker", workers.chunks_max, 1, 1 << 20)?;
        }
        Ok(())
    }
}

/// An assumption: its name, and how it is multiplied.
pub type Assumption = (&'static str, fn(&mut Settings, f64));

fn of_workers(settings: &mut Settings, change: impl FnOnce(&mut Workers)) {
    if let Some(workers) = &mut settings.workers {
        change(workers);
    }
}

/// What a sensitivity table varies.
pub const ASSUMPTIONS: [Assumption; 10] = [
    ("bandwidth of links", |s, by| s.link_gb_s *= by),
    ("latency of links", |s, by| s.latency_us *= by),
    ("time of an operation", |s, by| s.op_us *= by),
    ("bandwidth of copies", |s, by| s.copy_gb_s *= by),
    ("latency inside a node", |s, by| s.local_us *= by),
    ("speed of a worker's core", |s, by| of_workers(s, |w| w.speed *= by)),
    ("bandwidth of staging", |s, by| of_workers(s, |w| w.staging_gb_s *= by)),
    ("hand-over to a worker", |s, by| of_workers(s, |w| w.hand_over_us *= by)),
    ("size of a chunk", |s, by| of_workers(s, |w| w.chunk_bytes = (f64::from(w.chunk_bytes) * by) as u32)),
    ("chunks under way", |s, by| of_workers(s, |w| w.chunks_max = (f64::from(w.chunks_max) * by).max(1.0) as u32)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_told() {
        let bad = |change: fn(&mut Settings)| {
            let mut settings = Settings { workers: Some(Workers::smart_nic(1)), ..Settings::cluster(16) };
            change(&mut settings);
            settings.check().expect_err("it is refused").0
        };
        assert_eq!(bad(|s| s.nodes = 0), "nodes 0: expected 1 to 1024");
        assert_eq!(bad(|s| (s.nodes, s.ranks_per_node) = (1, 1)), "ranks of all nodes 1: expected 2 to 4096");
        assert_eq!(bad(|s| s.ranks_per_node = 129), "ranks of all nodes 4128: expected 2 to 4096");
        assert!(bad(|s| s.link_gb_s = f64::NAN).starts_with("link, GB/s NaN"));
        assert!(bad(|s| s.op_us = -1.0).starts_with("operation"));
        assert!(bad(|s| of_workers(s, |w| w.per_node = 17)).starts_with("workers per node 17: expected 1 to 16"));
        assert!(bad(|s| of_workers(s, |w| w.speed = 0.0)).starts_with("speed"));
        assert!(bad(|s| of_workers(s, |w| w.chunk_bytes = 0)).starts_with("bytes of a chunk"));
    }

    #[test]
    fn each_assumption_changes_one_constant() {
        let settings = Settings { workers: Some(Workers::smart_nic(1)), ..Settings::cluster(16) };
        let mut seen = Vec::new();
        for (name, vary) in ASSUMPTIONS {
            let mut varied = settings.clone();
            vary(&mut varied, 1.25);
            assert!(varied.check().is_ok() && varied != settings && !seen.contains(&varied), "{name}");
            seen.push(varied);
        }
    }
}
