//! The wait-for graph of a job: which rank waits for which, which are stuck for ever, and for which ranks the others wait.
//!
//! A rank that blocks in MPI waits for all of its operations. Each of them can be completed by one rank, or by any of several if the source is a
//! wildcard. With `MPI_Waitany` one operation is enough. A rank that is not in MPI, or only tests, can go on by
//! itself. Suppose that each rank that can go on does what the others wait for. A rank that can then go on, too, is not stuck. The other ranks are stuck: there is
//! a cycle among them, or they wait for a rank that has ended. Reports are not taken at one instant, so a cycle counts as a deadlock
//! only if nothing has happened in its ranks for [`SETTLED_MS`].

mod graph;
pub mod text;

use graph::{Giver, Graph, Needs};
use protocol::control::report::{Process, Report};
use protocol::control::tree::Phase;
use std::collections::{BTreeMap, BTreeSet};
use text::{ranges, wait_line};

/// How long a rank must have waited for its wait to be called a deadlock. Messages under way arrive much sooner.
const SETTLED_MS: u64 = 100;
/// Ranks of a cycle above which only so many at each end are named.
const LONG: usize = 16;
const ENDS: usize = 6;

/// What is known of one rank.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Host, as given to mpiexec.
    pub host: String,
    /// Its process; none when its agent has not answered.
    pub process: Option<Process>,
    /// What it does in MPI; none when it has not answered, so is not in MPI.
    pub report: Option<Report>,
    /// It has ended.
    pub ended: bool,
}

impl Seen {
    /// It blocks in a call.
    fn blocks(&self) -> Option<&Report> {
        self.report.as_ref().filter(|report| report.blocks && !self.is_gone())
    }

    /// It will do nothing more in MPI.
    fn is_gone(&self) -> bool {
        self.ended || self.process.as_ref().is_some_and(|p| p.pid == 0 || p.phase == Phase::Finalized {})
    }
}

/// The graph and what is known of its ranks.
struct Picture<'a> {
    ranks: &'a [Seen],
    graph: Graph,
}

/// What a rank that blocks needs.
fn needs(report: &Report) -> Needs {
    let awaited = report.waits.iter().filter(|wait| wait.awaited);
    let needs: Needs = awaited
        .map(|wait| match wait.peer {
            Some(peer) => Giver::OneOf(vec![peer]),
            None if wait.candidates.is_empty() => Giver::Anybody,
            None => Giver::OneOf(wait.candidates.clone()),
        })
        .collect();
    if !report.any || needs.is_empty() {
        return needs;
    }
    // One of them is enough.
    let mut union = Vec::new();
    for need in needs {
        match need {
            Giver::Anybody => return vec![Giver::Anybody],
            Giver::OneOf(set) => union.extend(set),
        }
    }
    vec![Giver::OneOf(union)]
}

impl<'a> Picture<'a> {
    fn new(ranks: &'a [Seen]) -> Picture<'a> {
        let blocked = (0..).zip(ranks).filter_map(|(rank, seen)| Some((rank, needs(seen.blocks()?))));
        Picture { ranks, graph: Graph::new(ranks.iter().map(Seen::is_gone).collect(), blocked.collect()) }
    }

    fn call(&self, rank: u32) -> &str {
        self.ranks[rank as usize].report.as_ref().map_or("MPI", |report| report.call.as_str())
    }

    /// "all in MPI_Send", or each with its own.
    fn calls(&self, cycle: &[u32]) -> String {
        let first = self.call(cycle[0]);
        if cycle.iter().all(|rank| self.call(*rank) == first) {
            return match cycle.len() {
                1 => format!("in {first} with itself"),
                2 => format!("both in {first}"),
                _ => format!("all in {first}"),
            };
        }
        let each: Vec<String> = cycle.iter().take(8).map(|rank| format!("{rank} in {}", self.call(*rank))).collect();
        each.join(", ") + if cycle.len() > 8 { ", …" } else { "" }
    }

    fn cycles(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut named: BTreeSet<u32> = BTreeSet::new();
        for rank in self.graph.stuck() {
            if named.contains(&rank) || self.graph.blockers(rank).iter().any(|r| named.contains(r)) {
                continue;
            }
            let Some(cycle) = self.graph.cycle(rank).filter(|c| !c.iter().any(|rank| named.contains(rank))) else {
                continue;
            };
            let idle_ms = |rank: &u32| self.ranks[*rank as usize].report.as_ref().map_or(0, |report| report.idle_ms);
            let settled = cycle.iter().all(|rank| idle_ms(rank) >= SETTLED_MS);
            let word = if settled { "deadlock" } else { "cycle (younger than 0.1 s, may dissolve)" };
            lines.push(format!("{word}: {} ({})", way(&cycle), self.calls(&cycle)));
            named.extend(cycle);
        }
        let named: Vec<u32> = named.into_iter().collect();
        let stuck: BTreeSet<u32> = self.graph.stuck().collect();
        let behind: Vec<u32> = self.graph.behind(&named).into_iter().filter(|r| stuck.contains(r)).collect();
        if !behind.is_empty() {
            let verb = if behind.len() == 1 { "waits" } else { "wait" };
            lines.push(format!("{} {verb} for ranks of the deadlock", ranges(&behind)));
        }
        lines
    }

    /// Ranks that wait for one that has ended.
    fn orphans(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for rank in self.graph.stuck() {
            let missing: Vec<u32> = self.graph.blockers(rank).into_iter().filter(|r| self.graph.is_gone(*r)).collect();
            if !missing.is_empty() {
                let (verb, which) = (if missing.len() == 1 { "has" } else { "have" }, ranges(&missing));
                lines.push(format!("rank {rank} waits in {} for rank {which}, which {verb} ended", self.call(rank)));
            }
        }
        lines
    }

    /// Ranks that can go on by themselves, and who waits for them.
    fn roots(&self) -> Vec<String> {
        let mut groups: BTreeMap<(Vec<u32>, String), Vec<u32>> = BTreeMap::new();
        for (rank, seen) in (0..).zip(self.ranks) {
            if self.graph.waits(rank) || seen.is_gone() {
                continue;
            }
            groups.entry((self.graph.behind(&[rank]), activity(seen))).or_default().push(rank);
        }
        let line = |((behind, what), roots): ((Vec<u32>, String), Vec<u32>)| {
            let subject = format!("rank{} {}", if roots.len() == 1 { "" } else { "s" }, ranges(&roots));
            let verb = if roots.len() == 1 { "is" } else { "are" };
            let them = if roots.len() == 1 { "it" } else { "them" };
            match behind.len() {
                0 => format!("{subject} {verb} {what}; nobody waits for {them}"),
                1 => format!("{subject} {verb} {what}; {} waits for {them}", ranges(&behind)),
                _ => format!("{subject} {verb} {what}; {} wait for {them}", ranges(&behind)),
            }
        };
        groups.into_iter().map(line).collect()
    }
}

/// `0 → 1 → 0`; of a long cycle the ends.
fn way(cycle: &[u32]) -> String {
    let mut words: Vec<String> = cycle.iter().chain(&cycle[..1]).map(u32::to_string).collect();
    if cycle.len() > LONG {
        let left_out = words.len() - 2 * ENDS;
        words.splice(ENDS..ENDS + left_out, [format!("… {left_out} more …")]);
    }
    words.join(" → ")
}

/// What a rank that can go on by itself does.
fn activity(seen: &Seen) -> String {
    if let Some(report) = &seen.report {
        return match report.blocks {
            true => format!("in {}, which waits for no other rank", report.call),
            false => format!("testing again and again ({})", report.call),
        };
    }
    match &seen.process {
        None => "unknown: no word from the node agent".into(),
        Some(p) if p.phase == Phase::Started {} => "not in MPI: it has not called MPI_Init".into(),
        Some(p) => match p.state {
            b'T' | b't' => "stopped".into(),
            b'R' => "computing (not in MPI, running)".into(),
            b'D' => "not in MPI (waits for a device)".into(),
            _ => "not in MPI (sleeps outside of MPI)".into(),
        },
    }
}

/// Pending operations by rank, then the graph.
pub fn explain(ranks: &[Seen]) -> Vec<String> {
    let mut lines = wait_line(ranks);
    let picture = Picture::new(ranks);
    let mut found = picture.cycles();
    found.extend(picture.orphans());
    let roots = picture.roots();
    if found.is_empty() && picture.graph.is_empty() {
        lines.push("wait-for graph: no rank waits for another".into());
    } else {
        lines.push("wait-for graph:".into());
    }
    lines.extend(found.into_iter().chain(roots).map(|line| format!("  {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::report::{Wait, What};

    fn computing() -> Seen {
        let process =
            Process { rank: 0, pid: 7, phase: Phase::Initialized {}, state: b'R', cpu_ms: 0, resident_kib: 0 };
        Seen { host: "h".into(), process: Some(process), report: None, ended: false }
    }

    /// Blocks in `call` until it hears of all of `peers`; a negative one stands for anybody.
    fn waiting(call: &str, peers: &[i32]) -> Seen {
        let waits = peers.iter().map(|peer| Wait {
            what: What::Receive {},
            peer: u32::try_from(*peer).ok(),
            candidates: Vec::new(),
            tag: Some(1),
            comm: "MPI_COMM_WORLD".into(),
            internal: false,
            bytes: 8,
            stage: "no message yet".into(),
            awaited: true,
        });
        let report = Report {
            call: call.into(),
            blocks: true,
            any: false,
            idle_ms: 1000,
            waits: waits.collect(),
            more: 0,
            unreceived: 0,
            lanes: Vec::new(),
            accesses: Default::default(),
            files: Default::default(),
        };
        Seen { report: Some(report), ..computing() }
    }

    fn graph(ranks: &[Seen]) -> Vec<String> {
        let picture = Picture::new(ranks);
        [picture.cycles(), picture.orphans(), picture.roots()].concat()
    }

    #[test]
    fn the_ends_of_a_long_cycle_are_named() {
        let cycle: Vec<u32> = (0..100).collect();
        assert_eq!(way(&cycle), "0 → 1 → 2 → 3 → 4 → 5 → … 89 more … → 95 → 96 → 97 → 98 → 99 → 0");
        assert_eq!(way(&cycle[..3]), "0 → 1 → 2 → 0");
    }

    #[test]
    fn two_that_send_to_each_other() {
        let ranks = [waiting("MPI_Send", &[1]), waiting("MPI_Send", &[0])];
        assert_eq!(graph(&ranks), ["deadlock: 0 → 1 → 0 (both in MPI_Send)"]);
    }

    #[test]
    fn a_longer_cycle_and_those_behind_it() {
        let ranks = [
            waiting("MPI_Recv", &[1]),
            waiting("MPI_Recv", &[3]),
            waiting("MPI_Recv", &[3]),
            waiting("MPI_Ssend", &[0]),
        ];
        assert_eq!(
            graph(&ranks),
            [
                "deadlock: 0 → 1 → 3 → 0 (0 in MPI_Recv, 1 in MPI_Recv, 3 in MPI_Ssend)",
                "2 waits for ranks of the deadlock"
            ]
        );
    }

    #[test]
    fn everybody_waits_for_one_that_computes() {
        let ranks =
            [waiting("MPI_Barrier", &[1]), waiting("MPI_Barrier", &[3]), waiting("MPI_Barrier", &[0, 3]), computing()];
        assert_eq!(graph(&ranks), ["rank 3 is computing (not in MPI, running); 0-2 wait for it"]);
    }

    #[test]
    fn anybody_may_serve_a_wildcard() {
        let ranks = [waiting("MPI_Recv", &[-1]), waiting("MPI_Recv", &[0]), computing()];
        assert_eq!(graph(&ranks), ["rank 2 is computing (not in MPI, running); 0-1 wait for it"]);
        let ranks = [waiting("MPI_Recv", &[-1]), waiting("MPI_Recv", &[0])];
        assert_eq!(graph(&ranks), ["deadlock: 0 → 1 → 0 (both in MPI_Recv)"]);
    }

    #[test]
    fn one_of_several_is_enough_for_waitany() {
        let mut ranks = [waiting("MPI_Waitany", &[1, 2]), waiting("MPI_Recv", &[0]), computing()];
        assert_eq!(graph(&ranks)[0], "deadlock: 0 → 1 → 0 (0 in MPI_Waitany, 1 in MPI_Recv)");
        ranks[0].report.as_mut().unwrap().any = true;
        assert_eq!(graph(&ranks), ["rank 2 is computing (not in MPI, running); 0-1 wait for it"]);
    }

    #[test]
    fn a_young_cycle_is_no_deadlock_yet_and_the_dead_are_named() {
        let mut ranks = [waiting("MPI_Send", &[1]), waiting("MPI_Send", &[0])];
        ranks[1].report.as_mut().unwrap().idle_ms = 3;
        assert!(graph(&ranks)[0].starts_with("cycle (younger"));
        ranks[1].ended = true;
        assert_eq!(graph(&ranks), ["rank 0 waits in MPI_Send for rank 1, which has ended"]);
        let own = [waiting("MPI_Recv", &[0])];
        assert_eq!(graph(&own), ["deadlock: 0 → 0 (in MPI_Recv with itself)"]);
    }
}
