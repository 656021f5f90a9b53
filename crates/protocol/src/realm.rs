//! Realms: processes that make communicators with each other, and the numbers by which all of them know each other.
//!
//! A context id begins with the number of the process that proposes it, so it is unique as long as no process meets one number of two processes. The
//! own job is the first realm of a process: there the numbers are the ranks. When groups of several jobs connect, they make a realm
//! of all members of these groups. Its numbers begin above all that any of them has met, which the groups tell each other beforehand. All
//! communicators that are made from those of a realm belong to it.
//!
//! Why contexts don't collide: take two contexts that a process sees in communicators of its own. If they are of one realm, they have been
//! proposed by one process with different counters, or by processes with different numbers. If they are of two realms, the process
//! belonged to one of them first, and the numbers of the other one begin above its numbers.

use base::ids::{JobId, ProcId, Proposer, WorldRank};
use base::{ContextId, Result, ensure};
use std::collections::HashMap;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Realm(Members);

#[derive(Clone, Debug)]
enum Members {
    /// The processes of a job.
    Job(JobId, u32),
    /// Processes of several jobs, their first number, and the first one that none of them has.
    Numbered(HashMap<ProcId, Proposer>, u32, u32),
}

impl Realm {
    /// The realm of a job of `size` processes.
    pub fn of_job(job: JobId, size: u32) -> Realm {
        Realm(Members::Job(job, size))
    }

    /// The realm of processes that connect, in an order on which they agree. `end` is the highest [`Realm::end`] of all realms of each of them.
    pub fn connect(processes: impl IntoIterator<Item = ProcId>, end: u32) -> Result<Realm> {
        let mut numbers = HashMap::new();
        let mut next = end;
        for id in processes {
            ensure!(
                next < Proposer::NOBODY.0,
                ERR_OTHER,
                "the processes have connected too often: no numbers are left"
            );
            ensure!(numbers.insert(id, Proposer(next)).is_none(), ERR_INTERN, "a process connects with itself");
            next += 1;
        }
        Ok(Realm(Members::Numbered(numbers, end, next)))
    }

    /// The number of a process; none if it is not in the realm.
    pub fn proposer(&self, id: ProcId) -> Option<Proposer> {
        match &self.0 {
            Members::Job(job, size) => (id.job == *job && id.rank < WorldRank(*size)).then_some(Proposer(id.rank.0)),
            Members::Numbered(numbers, ..) => numbers.get(&id).copied(),
        }
    }

    /// All numbers are below this.
    pub fn end(&self) -> u32 {
        match &self.0 {
            Members::Job(_, size) => *size,
            Members::Numbered(_, _, end) => *end,
        }
    }

    /// Whether contexts that begin with this number are of this realm, for its members.
    fn has(&self, number: u32) -> bool {
        let begin = if let Members::Numbered(_, begin, _) = &self.0 { *begin } else { 0 };
        (begin..self.end()).contains(&number)
    }
}

/// The realms of one process. Their numbers don't overlap, so a context tells its realm.
#[derive(Debug)]
pub struct Realms(Vec<Realm>);

impl Realms {
    /// Those of a process that has not connected: its job.
    pub fn of_job(job: JobId, size: u32) -> Realms {
        Realms(vec![Realm::of_job(job, size)])
    }

    /// The realm to which a context belongs; none if this process is in no realm with such numbers.
    pub fn of_context(&self, context: ContextId) -> Option<&Realm> {
        let number = (context.0 >> 32) as u32;
        self.0.iter().find(|realm| realm.has(number))
    }

    /// The number of a process in the realm of a context.
    pub fn proposer(&self, context: ContextId, id: ProcId) -> Option<Proposer> {
        self.of_context(context)?.proposer(id)
    }

    /// All numbers that this process has met are below this.
    pub fn end(&self) -> u32 {
        self.0.iter().map(Realm::end).max().unwrap_or(0)
    }

    /// The process has become a member of another one, whose numbers begin at or above [`Realms::end`].
    pub fn add(&mut self, realm: Realm) -> Result {
        let begin = if let Members::Numbered(_, begin, _) = &realm.0 { *begin } else { 0 };
        ensure!(begin >= self.end(), ERR_INTERN, "a connection uses numbers that this process has met");
        self.0.push(realm);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ContextId;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn id(job: u64, rank: u32) -> ProcId {
        ProcId { job: JobId(job), rank: WorldRank(rank) }
    }

    /// What a process remembers.
    struct Process {
        end: u32,
        counter: u32,
        seen: HashSet<ContextId>,
    }

    /// One communicator by each member of a realm, over all members: nobody may have seen its context.
    fn use_realm(realm: &Realm, members: &[ProcId], processes: &mut HashMap<ProcId, Process>) {
        for proposer in members {
            let number = realm.proposer(*proposer).unwrap();
            let counter = processes[proposer].counter;
            processes.get_mut(proposer).unwrap().counter += 1;
            for member in members {
                let is_new = processes.get_mut(member).unwrap().seen.insert(ContextId::new(number, counter));
                assert!(is_new, "{member} sees {proposer}'s context {counter} in two communicators");
            }
        }
    }

    proptest! {
        #[test]
        fn no_process_sees_a_context_twice(
            sizes in proptest::collection::vec(1u32..5, 2..4),
            connections in proptest::collection::vec((proptest::collection::btree_set((0u64..4, 0u32..5), 2..7), any::<prop::sample::Index>()), 0..12),
        ) {
            let mut realms: Vec<(Realm, Vec<ProcId>)> = Vec::new();
            let mut processes = HashMap::new();
            for (job, size) in (0..).zip(&sizes) {
                let members: Vec<ProcId> = (0..*size).map(|rank| id(job, rank)).collect();
                // All count from the same number: only the proposers tell contexts apart.
                processes.extend(members.iter().map(|m| (*m, Process { end: *size, counter: 16, seen: HashSet::new() })));
                realms.push((Realm::of_job(JobId(job), *size), members));
            }
            for (members, again) in connections {
                let members: Vec<ProcId> = members.into_iter().map(|(job, rank)| id(job, rank)).filter(|m| processes.contains_key(m)).collect();
                let end = members.iter().map(|m| processes[m].end).max().unwrap_or(0);
                let realm = Realm::connect(members.iter().copied(), end).unwrap();
                for member in &members {
                    let process = processes.get_mut(member).unwrap();
                    process.end = process.end.max(realm.end());
                }
                realms.push((realm, members));
                // Older realms go on.
                for at in [realms.len() - 1, again.index(realms.len())] {
                    let (realm, members) = &realms[at];
                    use_realm(realm, members, &mut processes);
                }
            }
        }
    }

    #[test]
    fn numbers_end_with_an_error() {
        let last = Realm::connect([id(1, 0)], Proposer::NOBODY.0 - 1).unwrap();
        assert_eq!(last.proposer(id(1, 0)), Some(Proposer(Proposer::NOBODY.0 - 1)));
        assert!(Realm::connect([id(1, 0), id(2, 0)], Proposer::NOBODY.0 - 1).is_err());
        assert!(Realm::connect([id(1, 0), id(1, 0)], 4).is_err());
        assert_eq!(last.proposer(id(2, 0)), None);
        assert_eq!(Realm::of_job(JobId(1), 2).proposer(id(1, 2)), None);
    }

    #[test]
    fn a_context_tells_its_realm() {
        let mut realms = Realms::of_job(JobId(1), 3);
        assert!(realms.add(Realm::connect([id(1, 0), id(2, 0)], 2).unwrap()).is_err(), "number 2 is rank 2");
        realms.add(Realm::connect([id(1, 0), id(2, 0)], 5).unwrap()).unwrap();
        let proposer = |number, id| realms.proposer(ContextId::new(Proposer(number), 16), id);
        assert_eq!(proposer(2, id(1, 0)), Some(Proposer(0)));
        assert_eq!(proposer(5, id(1, 0)), Some(Proposer(5)));
        assert_eq!(proposer(6, id(2, 0)), Some(Proposer(6)));
        assert_eq!((proposer(2, id(2, 0)), proposer(4, id(1, 0)), proposer(7, id(1, 0))), (None, None, None));
        assert_eq!(realms.end(), 7);
    }
}
