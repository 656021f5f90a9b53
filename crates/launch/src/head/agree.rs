//! Agreements after failures (`MPIX_Comm_agree`, `MPIX_Comm_shrink`; decision 0053): mpiexec counts votes, because it outlives all ranks and knows which
//! ones are dead.
//!
//! An agreement begins with its first vote and is over when every member has voted or is gone. All who have voted and live are told the same. Who
//! votes twice, or says other members than the first, is refused.

use super::Head;
use base::{Class, log};
use protocol::control::encode;
use protocol::control::spawn::{Answer, Verdict, Vote, ranks_of, runs};
use protocol::control::tree::{ALL, Message};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Agreements at a time.
const AGREEMENTS_MAX: usize = 1 << 16;
/// Communicators that are known to be revoked. Another one is told again each time that a rank revokes it, which does no harm.
const REVOKED_MAX: usize = 1 << 20;

/// See the head of this file.
#[derive(Default)]
pub struct Agreements {
    open: HashMap<(u64, u64), Agreement>,
    revoked: HashSet<u64>,
}

/// One that is not over.
struct Agreement {
    members: BTreeSet<u32>,
    /// The number of its request, by rank that has voted.
    voters: HashMap<u32, u64>,
    flag: u32,
    /// Members whose failure all who have voted have acknowledged.
    acknowledged: Option<BTreeSet<u32>>,
    /// What the lowest rank has proposed that could.
    contexts: Option<(u32, Vec<u64>)>,
}

impl Agreement {
    fn new(members: BTreeSet<u32>) -> Agreement {
        Agreement { members, voters: HashMap::new(), flag: u32::MAX, acknowledged: None, contexts: None }
    }

    /// Counts a vote; false if it can't be counted.
    fn count(&mut self, rank: u32, number: u64, vote: Vote, end: u32) -> bool {
        let members: BTreeSet<u32> = ranks_of(&vote.members, end).collect();
        if members != self.members || !members.contains(&rank) || self.voters.insert(rank, number).is_some() {
            return false;
        }
        self.flag &= vote.flag;
        let acknowledged: BTreeSet<u32> = ranks_of(&vote.acknowledged, end).collect();
        self.acknowledged = Some(match self.acknowledged.take() {
            Some(known) => known.intersection(&acknowledged).copied().collect(),
            None => acknowledged,
        });
        if !vote.contexts.is_empty() && self.contexts.as_ref().is_none_or(|(proposer, _)| rank < *proposer) {
            self.contexts = Some((rank, vote.contexts));
        }
        true
    }

    /// The verdict, if it is there.
    fn verdict(&self, is_gone: impl Fn(u32) -> bool) -> Option<Verdict> {
        if !self.members.iter().all(|rank| self.voters.contains_key(rank) || is_gone(*rank)) {
            return None;
        }
        let dead = || self.members.iter().copied().filter(|rank| is_gone(*rank));
        let acknowledged = dead().all(|rank| self.acknowledged.as_ref().is_some_and(|known| known.contains(&rank)));
        let contexts = self.contexts.as_ref().map_or(Vec::new(), |(_, contexts)| contexts.clone());
        Some(Verdict { flag: self.flag, dead: runs(dead()), acknowledged, contexts })
    }
}

impl Head {
    /// A rank votes.
    pub(super) fn on_vote(&mut self, rank: u32, number: u64, vote: Vote) {
        let end = self.ranks.len() as u32;
        let key = (vote.context, vote.number);
        let open = &mut self.agreements.open;
        if open.len() >= AGREEMENTS_MAX && !open.contains_key(&key) {
            let why = "too many agreements are under way";
            return self.answer_rank(rank, number, Answer::failed(Class::ERR_OTHER, why));
        }
        let agreement = open.entry(key).or_insert_with(|| Agreement::new(ranks_of(&vote.members, end).collect()));
        if !agreement.count(rank, number, vote, end) {
            log!(Warn, "rank {rank} votes for what others don't agree on");
            let why = "the members of an agreement have called different functions";
            return self.answer_rank(rank, number, Answer::failed(Class::ERR_ARG, why));
        }
        self.close(key);
    }

    /// A rank is gone: nobody waits for its vote.
    pub(super) fn agreements_without(&mut self, rank: u32) {
        let waiting =
            |agreement: &Agreement| agreement.members.contains(&rank) && !agreement.voters.contains_key(&rank);
        let concerned = self.agreements.open.iter().filter(|(_, agreement)| waiting(agreement));
        let keys: Vec<(u64, u64)> = concerned.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.close(key));
    }

    /// Ends an agreement that waits for nobody.
    fn close(&mut self, key: (u64, u64)) {
        let ranks = &self.ranks;
        let is_gone = |rank: u32| ranks.get(rank as usize).is_none_or(|rank| rank.ended);
        let Some(verdict) = self.agreements.open.get(&key).and_then(|agreement| agreement.verdict(is_gone)) else {
            return;
        };
        let Some(over) = self.agreements.open.remove(&key) else { return };
        let bytes = encode(&verdict);
        for (rank, number) in over.voters {
            self.answer_rank(rank, number, Answer::done(&bytes));
        }
    }

    /// All ranks are told that a communicator is revoked, once.
    pub(super) fn revoke(&mut self, context: u64) {
        let revoked = &mut self.agreements.revoked;
        let is_known = if revoked.len() < REVOKED_MAX { !revoked.insert(context) } else { revoked.contains(&context) };
        if !is_known {
            self.send(ALL, Message::Revoked { context });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(flag: u32, acknowledged: &[u32], contexts: &[u64]) -> Vote {
        let acknowledged = runs(acknowledged.iter().copied());
        Vote { context: 8, number: 1, members: vec![(0, 4)], flag, acknowledged, contexts: contexts.to_vec() }
    }

    #[test]
    fn the_verdict_waits_for_all_who_live() {
        let mut agreement = Agreement::new((0..4).collect());
        assert!(agreement.count(2, 7, vote(6, &[1], &[20]), 4));
        assert!(agreement.verdict(|rank| rank == 1).is_none());
        assert!(agreement.count(0, 9, vote(3, &[1, 3], &[]), 4));
        let verdict = agreement.verdict(|rank| rank == 1 || rank == 3).unwrap();
        assert_eq!((verdict.flag, verdict.acknowledged), (2, false), "rank 2 has not acknowledged rank 3");
        assert_eq!(verdict.dead, [(1, 1), (3, 1)]);
        assert_eq!(verdict.contexts, [20], "rank 0 has proposed none");
        assert!(agreement.count(3, 1, vote(7, &[1], &[30]), 4));
        let verdict = agreement.verdict(|rank| rank == 1).unwrap();
        assert!(verdict.acknowledged);
        assert_eq!((verdict.dead, verdict.contexts), (vec![(1, 1)], vec![20]));
    }

    #[test]
    fn who_votes_for_something_else_is_refused() {
        let mut agreement = Agreement::new((0..4).collect());
        assert!(agreement.count(1, 1, vote(1, &[], &[]), 4));
        assert!(!agreement.count(1, 2, vote(1, &[], &[]), 4), "twice");
        assert!(!agreement.count(7, 1, vote(1, &[], &[]), 4), "no member");
        assert!(!agreement.count(2, 1, Vote { members: vec![(0, 3)], ..vote(1, &[], &[]) }, 4), "other members");
    }
}
