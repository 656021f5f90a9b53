//! The wait-for graph of a job: who waits for whom, who is stuck for ever, and on whom the others wait.
//!
//! A rank that blocks in MPI waits for all of several things (its operations), each of which can come from one of several ranks (one,
//! unless the source is a wildcard); with `MPI_Waitany` one of all is enough. A rank that is not in MPI, or only tests, can go on by
//! itself. Who can go on when all that can go on do what they are waited for is not stuck; the others are, and among them is
//! a cycle, or they wait for a rank that has ended. Reports are not taken at one instant, so a cycle counts as a deadlock
//! only if nothing has happened in its ranks for [`SETTLED_MS`].

use crate::waits_text::{ranges, wait_line};
use protocol::control::report::{Process, Report};
use protocol::control::tree::Phase;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long a rank must have waited for its wait to be called a deadlock. Messages under way arrive much sooner.
const SETTLED_MS: u64 = 100;

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

/// What a rank waits for: all of these sets, from each one rank.
type Needs = Vec<Vec<u32>>;

/// The graph.
struct Graph<'a> {
    ranks: &'a [Seen],
    /// Of the ranks that block and say on whom.
    needs: BTreeMap<u32, Needs>,
    /// Those that no other rank can set free.
    stuck: BTreeSet<u32>,
}

/// The needs of rank `me` of `size`.
fn needs(me: u32, size: u32, report: &Report) -> Needs {
    let sets = report.waits.iter().filter(|wait| wait.awaited).map(|wait| match wait.peer {
        Some(peer) => vec![peer],
        None if wait.candidates.is_empty() => (0..size).filter(|r| *r != me).collect(),
        None => wait.candidates.clone(),
    });
    let sets: Needs = sets.map(|set| set.into_iter().filter(|r| *r < size).collect()).collect();
    if report.any && !sets.is_empty() { vec![sets.concat()] } else { sets }
}

impl<'a> Graph<'a> {
    fn new(ranks: &'a [Seen]) -> Graph<'a> {
        let size = ranks.len() as u32;
        let blocked = (0..size).filter_map(|rank| {
            let needs = needs(rank, size, ranks[rank as usize].blocks()?);
            (!needs.is_empty()).then_some((rank, needs))
        });
        let needs: BTreeMap<u32, Needs> = blocked.collect();
        let stuck = stuck(ranks, &needs);
        Graph { ranks, needs, stuck }
    }

    /// The ranks that `rank` waits for, without those that can be left out because another serves as well.
    fn targets(&self, rank: u32) -> BTreeSet<u32> {
        self.needs.get(&rank).into_iter().flatten().flatten().copied().collect()
    }

    /// What holds up a stuck rank: members of the sets of which nobody can come.
    fn blockers(&self, rank: u32) -> BTreeSet<u32> {
        let hopeless =
            |set: &&Vec<u32>| set.iter().all(|r| self.stuck.contains(r) || self.ranks[*r as usize].is_gone());
        self.needs.get(&rank).into_iter().flatten().filter(hopeless).flatten().copied().collect()
    }

    /// The shortest way from `rank` to itself along blockers.
    fn cycle(&self, rank: u32) -> Option<Vec<u32>> {
        let mut before = BTreeMap::new();
        let mut queue = VecDeque::from([rank]);
        while let Some(at) = queue.pop_front() {
            for next in self.blockers(at) {
                if next == rank {
                    let mut path = vec![at];
                    while path[path.len() - 1] != rank {
                        path.push(before[&path[path.len() - 1]]);
                    }
                    path.reverse();
                    return Some(path);
                }
                if self.stuck.contains(&next) && next != rank && !before.contains_key(&next) {
                    before.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Everybody who can't go on before one of `roots` does.
    fn waiting_for(&self, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut found: BTreeSet<u32> = BTreeSet::new();
        loop {
            let more: Vec<u32> = self
                .needs
                .keys()
                .filter(|r| !found.contains(r) && !roots.contains(r))
                .filter(|r| self.targets(**r).iter().any(|t| found.contains(t) || roots.contains(t)))
                .copied()
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
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
        for rank in &self.stuck {
            if named.contains(rank) || self.blockers(*rank).iter().any(|r| named.contains(r)) {
                continue;
            }
            let Some(cycle) = self.cycle(*rank).filter(|c| !c.iter().any(|rank| named.contains(rank))) else {
                continue;
            };
            let idle_ms = |rank: &u32| self.ranks[*rank as usize].report.as_ref().map_or(0, |report| report.idle_ms);
            let settled = cycle.iter().all(|rank| idle_ms(rank) >= SETTLED_MS);
            let way: Vec<String> = cycle.iter().chain(&cycle[..1]).map(u32::to_string).collect();
            let word = if settled { "deadlock" } else { "cycle (younger than 0.1 s, may dissolve)" };
            lines.push(format!("{word}: {} ({})", way.join(" → "), self.calls(&cycle)));
            named.extend(cycle);
        }
        let behind = self.waiting_for(&named);
        let behind: Vec<u32> = behind.intersection(&self.stuck).copied().collect();
        if !behind.is_empty() {
            let verb = if behind.len() == 1 { "waits" } else { "wait" };
            lines.push(format!("{} {verb} for ranks of the deadlock", ranges(&behind)));
        }
        lines
    }

    /// Ranks that wait for one that has ended.
    fn orphans(&self) -> Vec<String> {
        let gone = |rank: &u32| self.ranks[*rank as usize].is_gone();
        let mut lines = Vec::new();
        for rank in &self.stuck {
            let missing: Vec<u32> = self.blockers(*rank).into_iter().filter(gone).collect();
            if !missing.is_empty() {
                let (verb, which) = (if missing.len() == 1 { "has" } else { "have" }, ranges(&missing));
                lines.push(format!("rank {rank} waits in {} for rank {which}, which {verb} ended", self.call(*rank)));
            }
        }
        lines
    }

    /// Ranks that can go on by themselves, and who waits for them.
    fn roots(&self) -> Vec<String> {
        let mut groups: BTreeMap<(Vec<u32>, String), Vec<u32>> = BTreeMap::new();
        for (rank, seen) in (0..).zip(self.ranks) {
            if self.needs.contains_key(&rank) || seen.is_gone() {
                continue;
            }
            let behind: Vec<u32> = self.waiting_for(&BTreeSet::from([rank])).into_iter().collect();
            groups.entry((behind, activity(seen))).or_default().push(rank);
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

/// Ranks that stay blocked when everybody who can go on does.
fn stuck(ranks: &[Seen], needs: &BTreeMap<u32, Needs>) -> BTreeSet<u32> {
    let mut stuck: BTreeSet<u32> = needs.keys().copied().collect();
    loop {
        let can_come = |rank: &u32| !stuck.contains(rank) && !ranks[*rank as usize].is_gone();
        let free: Vec<u32> =
            stuck.iter().filter(|rank| needs[rank].iter().all(|set| set.iter().any(can_come))).copied().collect();
        if free.is_empty() {
            return stuck;
        }
        free.iter().for_each(|rank| {
            stuck.remove(rank);
        });
    }
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
    let graph = Graph::new(ranks);
    let mut found = graph.cycles();
    found.extend(graph.orphans());
    let roots = graph.roots();
    if found.is_empty() && graph.needs.is_empty() {
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
        };
        Seen { report: Some(report), ..computing() }
    }

    fn graph(ranks: &[Seen]) -> Vec<String> {
        let graph = Graph::new(ranks);
        [graph.cycles(), graph.orphans(), graph.roots()].concat()
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
