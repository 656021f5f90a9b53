//! Ways to start N ranks and tell them how to reach each other.
//!
//! Four come from the literature (W. Yu, J. Wu, D. K. Panda, *Fast and scalable startup of MPI programs in InfiniBand clusters*, EuroPVM/MPI
//! 2004), three are Ferrule's. [`simulate`] plays one as messages, [`closed`] is its formula, [`traffic`] counts what it sends, [`model`] fits
//! measured times, [`paper`] holds what the authors measured.

pub mod closed;
pub mod model;
pub mod paper;
pub mod simulate;
pub mod traffic;

use crate::events::Costs;

/// A way to start a job and exchange endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Hosts one after the other; all ids go to the launcher, and all of them from there to every rank.
    Original,
    /// *Data reassembly*: as original, but the launcher sends a rank only the ids that it needs.
    Dr,
    /// *Bootstrap channel*: hosts one after the other; ranks form a ring, in which ids go round.
    Bc,
    /// A tree of agents starts all hosts in parallel; then the ring.
    MpdBc,
    /// A tree of agents; endpoint addresses go up and the table comes down that tree.
    Tree,
    /// A tree of agents, which exchange endpoint addresses by recursive doubling.
    Hypercube,
    /// A tree of agents; no exchange at all: an endpoint address is asked for when it is needed.
    Lazy,
}

impl Scheme {
    /// All, the published ones first.
    pub const ALL: [Scheme; 7] =
        [Scheme::Original, Scheme::Dr, Scheme::Bc, Scheme::MpdBc, Scheme::Tree, Scheme::Hypercube, Scheme::Lazy];

    /// As `mpiexec --startup` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Original => "original",
            Scheme::Dr => "dr",
            Scheme::Bc => "bc",
            Scheme::MpdBc => "mpd-bc",
            Scheme::Tree => "tree",
            Scheme::Hypercube => "hypercube",
            Scheme::Lazy => "lazy",
        }
    }

    /// The scheme of that name.
    pub fn named(name: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Whether hosts are started one after the other.
    pub fn is_serial(self) -> bool {
        matches!(self, Scheme::Original | Scheme::Dr | Scheme::Bc)
    }
}

/// The size of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hosts, at least one.
    pub hosts: usize,
    /// Ranks on each, at least one.
    pub ranks_per_host: usize,
    /// Agents that one agent starts.
    pub tree_width: usize,
}

impl Shape {
    /// All ranks.
    pub fn ranks(&self) -> usize {
        self.hosts * self.ranks_per_host
    }

    /// Levels of agents below the launcher.
    pub fn levels(&self) -> usize {
        let (mut levels, mut room, mut level) = (0, 0, 1);
        while room < self.hosts {
            level *= self.tree_width.max(2);
            room += level;
            levels += 1;
        }
        levels
    }
}

/// What things cost; seconds and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Messages and links.
    pub net: Costs,
    /// Opening a session on another host, waiting without work (ssh's handshake).
    pub session_s: f64,
    /// Processor time to start a process.
    pub fork_s: f64,
    /// Processor time of a rank until it can take part: loading, its own tables.
    pub init_s: f64,
    /// The launcher's work for one rank where it makes up something for each.
    pub compose_s: f64,
    /// An endpoint's id: one for each pair in `original`, `dr` and the rings.
    pub id_bytes: u64,
    /// A rank's endpoint address: all that anybody needs to reach it.
    pub endpoint_bytes: u64,
    /// A listening address, which ring neighbours need.
    pub address_bytes: u64,
    /// What each message has besides.
    pub header_bytes: u64,
}

impl Default for Cost {
    /// A cluster on Gigabit Ethernet with ssh.
    fn default() -> Cost {
        Cost {
            net: Costs {
                message_s: 4e-6,
                latency_s: 50e-6,
                byte_s: 8e-9,
                local_latency_s: 10e-6,
                local_byte_s: 0.5e-9,
            },
            session_s: 0.1,
            fork_s: 0.5e-3,
            init_s: 2e-3,
            compose_s: 2e-6,
            id_bytes: 8,
            endpoint_bytes: 64,
            address_bytes: 16,
            header_bytes: 24,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_agents() {
        let levels = |hosts| Shape { hosts, ranks_per_host: 1, tree_width: 16 }.levels();
        assert_eq!([1, 16, 17, 272, 273].map(levels), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn names() {
        assert!(Scheme::ALL.iter().all(|s| Scheme::named(s.name()) == Some(*s)));
        assert_eq!(Scheme::named("serial"), None);
    }
}
