//! Which algorithm runs: rules are data ([`rules`]), the first that fits wins; a setting can force one per collective.
//!
//! All processes of a collective must come to the same answer, so a [`Situation`] holds only what all of them know.

pub mod rules;

use channel::bootstrap::JobInfo;
use rules::COLL_OVERSUBSCRIBED;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Processes that take part.
    pub ranks: usize,
    /// Bytes of the vector (bcast, reductions), or of one block (gather, scatter, all-to-all).
    pub bytes: usize,
    /// Whether a node has more ranks than allowed CPUs.
    pub oversubscribed: bool,
    /// Nodes on which they are.
    pub nodes: usize,
    /// Largest number of processes on one node.
    pub ranks_per_node: usize,
    /// Whether operands may be exchanged; true for collectives without an operation.
    pub commutative: bool,
    /// Whether all blocks have the same size and follow each other.
    pub even: bool,
    /// Whether the data is in the receive buffer (`MPI_IN_PLACE`).
    pub in_place: bool,
}

impl Situation {
    /// `ranks` processes on one node with CPUs enough.
    pub fn new(ranks: usize, bytes: usize) -> Situation {
        Situation {
            ranks,
            bytes,
            oversubscribed: false,
            nodes: 1,
            ranks_per_node: ranks,
            commutative: true,
            even: true,
            in_place: false,
        }
    }
}

/// What an algorithm needs to give right results.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// It exchanges operands.
    pub commutative: bool,
    /// It needs a power of two of processes.
    pub power_of_two: bool,
    /// It needs blocks of one size.
    pub even: bool,
    /// It can't work in place.
    pub not_in_place: bool,
    /// It can only work in place.
    pub in_place: bool,
    /// It needs several nodes.
    pub nodes: bool,
}

impl Needs {
    /// Nothing.
    pub const ANY: Needs = Needs {
        commutative: false,
        power_of_two: false,
        even: false,
        not_in_place: false,
        in_place: false,
        nodes: false,
    };

    /// Whether an algorithm with these needs may run.
    #[inline]
    pub fn are_met(&self, s: &Situation) -> bool {
        (!self.commutative || s.commutative)
            && (!self.power_of_two || s.ranks.is_power_of_two())
            && (!self.even || s.even)
            && (!self.not_in_place || !s.in_place)
            && (!self.in_place || s.in_place)
            && (!self.nodes || (s.nodes > 1 && s.nodes < s.ranks))
    }
}

/// The algorithms of one collective.
pub trait Algorithm: Copy + PartialEq + std::fmt::Debug + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// Name for the setting.
    fn name(self) -> &'static str;
    /// Restrictions.
    fn needs(self) -> Needs;
    /// Rules in the order in which they are tried; the last fits always.
    fn rules() -> &'static [Rule<Self>];
    /// What the setting says; read once.
    fn forced() -> Option<Self>;
}

/// One line of a table of rules.
pub struct Rule<A> {
    /// Smallest and largest number of processes.
    pub ranks: (usize, usize),
    /// Smallest and largest number of bytes.
    pub bytes: (usize, usize),
    /// Whether it is for shared cores (`Some(true)`), own cores (`Some(false)`) or both.
    pub oversubscribed: Option<bool>,
    /// The choice.
    pub algorithm: A,
}

/// The algorithm for `s`.
#[inline]
pub fn choose<A: Algorithm>(s: &Situation) -> A {
    if let Some(forced) = A::forced()
        && forced.needs().are_met(s)
    {
        return forced;
    }
    let fits = |rule: &&Rule<A>| {
        rule.ranks.0 <= s.ranks
            && s.ranks <= rule.ranks.1
            && rule.bytes.0 <= s.bytes
            && s.bytes <= rule.bytes.1
            && rule.oversubscribed.is_none_or(|o| o == s.oversubscribed)
            && rule.algorithm.needs().are_met(s)
    };
    let rules = A::rules();
    rules.iter().find(fits).unwrap_or(&rules[rules.len() - 1]).algorithm
}

/// Reads a setting; `auto` and unknown names are `None`, the latter with a warning.
pub fn parse<A: Algorithm>(setting: &base::config::Text, cell: &'static OnceLock<Option<A>>) -> Option<A> {
    *cell.get_or_init(|| {
        let name = setting.value().trim();
        let found = A::ALL.iter().copied().find(|a| a.name() == name);
        if found.is_none() && name != "auto" {
            let known: Vec<_> = A::ALL.iter().map(|a| a.name()).collect();
            base::log!(Warn, "no collective algorithm is called {name}: there are {}", known.join(", "));
        }
        found
    })
}

static OVERSUBSCRIBED: AtomicBool = AtomicBool::new(false);

/// Learns from the job whether its ranks share cores. Only jobs under one kernel say so: all of their ranks are told the same.
pub fn set_up(job: &JobInfo) {
    let one_node = job.local_ranks.len() == job.size as usize;
    let oversubscribed = match COLL_OVERSUBSCRIBED.value() {
        "yes" => true,
        "no" => false,
        _ => one_node && job.node_cpus > 0 && job.size > job.node_cpus,
    };
    OVERSUBSCRIBED.store(oversubscribed, Ordering::Relaxed);
}

/// Whether a node has more ranks than processors.
#[inline]
pub fn is_oversubscribed() -> bool {
    OVERSUBSCRIBED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::rules::*;
    use super::*;

    fn always_answers<A: Algorithm>() {
        for ranks in 1..40 {
            for bytes in [0, 8, 1000, 4096, 70_000, 1 << 20, 1 << 26] {
                for bits in 0..16 {
                    let bit = |i: i32| bits & (1 << i) != 0;
                    let s = Situation {
                        oversubscribed: bit(0),
                        commutative: bit(1),
                        even: bit(2),
                        in_place: bit(3),
                        ..Situation::new(ranks, bytes)
                    };
                    let choice = choose::<A>(&s);
                    assert!(choice.needs().are_met(&s), "{choice:?} for {s:?}");
                }
            }
        }
    }

    #[test]
    fn every_situation_has_an_algorithm() {
        always_answers::<Barrier>();
        always_answers::<Bcast>();
        always_answers::<Reduce>();
        always_answers::<Allreduce>();
        always_answers::<Gather>();
        always_answers::<Scatter>();
        always_answers::<Allgather>();
        always_answers::<Alltoall>();
        always_answers::<ReduceScatter>();
        always_answers::<Scan>();
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<_> = Bcast::ALL.iter().map(|a| a.name()).collect();
        names.dedup();
        assert_eq!(names.len(), Bcast::ALL.len());
    }
}
