//! The graph itself: ranks by number, what each needs, which are stuck. It knows no texts and no reports.
//!
//! All methods cost at most O(ranks + needs), a need for anybody counting as one for each rank.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// From whom one thing can come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Giver {
    /// From one of these.
    OneOf(Vec<u32>),
    /// From any other rank.
    Anybody,
}

/// What a rank needs before it goes on: all of these.
pub type Needs = Vec<Giver>;

/// The graph of a job.
pub struct Graph {
    /// Of the ranks that wait for others.
    needs: BTreeMap<u32, Needs>,
    /// They do nothing any more.
    gone: Vec<bool>,
    /// No rank can set them free.
    stuck: Vec<bool>,
    /// Who needs something that this rank could give, by rank.
    served: Vec<Vec<u32>>,
    /// Who needs something from anybody.
    takers: Vec<u32>,
}

impl Graph {
    /// The graph of ranks of which `gone` are no more, and what the waiting ones need. Ranks that don't exist are ignored.
    pub fn new(gone: Vec<bool>, mut needs: BTreeMap<u32, Needs>) -> Graph {
        let size = gone.len();
        needs.retain(|rank, needs| (*rank as usize) < size && !needs.is_empty());
        let (mut served, mut takers) = (vec![Vec::new(); size], Vec::new());
        for (rank, needs) in &mut needs {
            for need in needs.iter_mut() {
                match need {
                    Giver::OneOf(set) => {
                        set.retain(|giver| (*giver as usize) < size);
                        set.iter().for_each(|giver| served[*giver as usize].push(*rank));
                    }
                    Giver::Anybody => takers.push(*rank),
                }
            }
        }
        takers.dedup();
        let mut graph = Graph { needs, gone, stuck: vec![false; size], served, takers };
        graph.find_stuck();
        graph
    }

    /// Removes, again and again, each rank that can go on once the removed ones do what others wait for.
    fn find_stuck(&mut self) {
        self.needs.keys().for_each(|rank| self.stuck[*rank as usize] = true);
        let mut able = (0..self.gone.len()).filter(|rank| !self.stuck[*rank] && !self.gone[*rank]).count();
        let mut again: BTreeSet<u32> = self.needs.keys().copied().collect();
        while let Some(rank) = again.pop_first() {
            if !self.stuck[rank as usize] || !self.is_free(rank, able) {
                continue;
            }
            self.stuck[rank as usize] = false;
            able += 1;
            again.extend(self.served[rank as usize].iter().filter(|r| self.stuck[**r as usize]));
            if able == 1 {
                again.extend(self.takers.iter().filter(|r| self.stuck[**r as usize]));
            }
        }
    }

    /// Whether each need of `rank`, which is stuck so far, can be met; `able` ranks can go on.
    fn is_free(&self, rank: u32, able: usize) -> bool {
        let can_come = |giver: &u32| !self.stuck[*giver as usize] && !self.gone[*giver as usize];
        self.needs.get(&rank).is_none_or(|needs| {
            needs.iter().all(|need| match need {
                Giver::OneOf(set) => set.iter().any(can_come),
                Giver::Anybody => able > 0,
            })
        })
    }

    /// Whether this rank waits for others.
    pub fn waits(&self, rank: u32) -> bool {
        self.needs.contains_key(&rank)
    }

    /// Whether any rank waits for another.
    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    /// Whether this rank has ended.
    pub fn is_gone(&self, rank: u32) -> bool {
        self.gone[rank as usize]
    }

    /// Ranks that nobody can set free, in order.
    pub fn stuck(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.stuck).filter(|(_, stuck)| **stuck).map(|(rank, _)| rank)
    }

    /// What holds up a stuck rank: those from whom one of its needs could have come, if it can come from none of them.
    pub fn blockers(&self, rank: u32) -> Vec<u32> {
        let lost = |giver: &u32| self.stuck[*giver as usize] || self.gone[*giver as usize];
        let mut all = Vec::new();
        for need in self.needs.get(&rank).into_iter().flatten() {
            match need {
                Giver::OneOf(set) if set.iter().all(lost) => all.extend(set),
                Giver::OneOf(_) => {}
                Giver::Anybody => all.extend((0..self.gone.len() as u32).filter(|r| *r != rank)),
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The shortest way from a stuck rank to itself along blockers: it and the others on the way.
    pub fn cycle(&self, rank: u32) -> Option<Vec<u32>> {
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
                if self.stuck[next as usize] && !before.contains_key(&next) {
                    before.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Everybody who waits for one of `roots`, or for somebody who does, in order.
    pub fn behind(&self, roots: &[u32]) -> Vec<u32> {
        let mut seen = vec![false; self.gone.len()];
        let mut queue: VecDeque<u32> = roots.iter().copied().collect();
        roots.iter().for_each(|rank| seen[*rank as usize] = true);
        let mut takers: &[u32] = if roots.is_empty() { &[] } else { &self.takers };
        let mut found = Vec::new();
        while let Some(at) = queue.pop_front() {
            let next = self.served[at as usize].iter().chain(std::mem::take(&mut takers));
            for rank in next {
                if !std::mem::replace(&mut seen[*rank as usize], true) {
                    found.push(*rank);
                    queue.push_back(*rank);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of being stuck, by repeated looks at everybody.
    fn stuck_by_definition(gone: &[bool], needs: &BTreeMap<u32, Needs>) -> Vec<u32> {
        let mut stuck: BTreeSet<u32> = needs.keys().copied().collect();
        loop {
            let can_come = |giver: u32| !stuck.contains(&giver) && !gone[giver as usize];
            let met = |rank: u32, need: &Giver| match need {
                Giver::OneOf(set) => set.iter().any(|giver| can_come(*giver)),
                Giver::Anybody => (0..gone.len() as u32).any(|giver| giver != rank && can_come(giver)),
            };
            let free = stuck.iter().copied().find(|rank| needs[rank].iter().all(|need| met(*rank, need)));
            match free {
                Some(rank) => stuck.remove(&rank),
                None => return stuck.into_iter().collect(),
            };
        }
    }

    #[test]
    fn random_graphs_agree_with_the_definition_and_every_stuck_rank_has_a_reason() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..3000 {
            let size = 1 + next(9) as u32;
            let gone: Vec<bool> = (0..size).map(|_| next(8) == 0).collect();
            let mut needs = BTreeMap::new();
            for rank in (0..size).filter(|r| !gone[*r as usize]) {
                let need = |kind: u64, a: u64, b: u64| match kind {
                    0 => Giver::Anybody,
                    1 => Giver::OneOf(vec![a as u32, b as u32]),
                    _ => Giver::OneOf(vec![a as u32]),
                };
                let count = next(3);
                let mine: Needs =
                    (0..count).map(|_| need(next(6), next(u64::from(size)), next(u64::from(size)))).collect();
                if !mine.is_empty() {
                    needs.insert(rank, mine);
                }
            }
            let graph = Graph::new(gone.clone(), needs.clone());
            assert_eq!(graph.stuck().collect::<Vec<_>>(), stuck_by_definition(&gone, &needs), "{gone:?} {needs:?}");
            let in_cycles: Vec<u32> = graph.stuck().filter(|r| graph.cycle(*r).is_some()).collect();
            let mut reasons: Vec<u32> = (0..size).filter(|r| gone[*r as usize]).chain(in_cycles.clone()).collect();
            // A need of nobody at all, and one of anybody in a job of one.
            reasons.extend(graph.stuck().filter(|r| graph.blockers(*r).is_empty()));
            let behind = graph.behind(&reasons);
            assert!(graph.stuck().all(|r| reasons.contains(&r) || behind.contains(&r)), "{gone:?} {needs:?}");
        }
    }

    #[test]
    fn many_ranks_that_wait_for_anybody_take_no_time() {
        let size = 4096;
        let needs: BTreeMap<u32, Needs> = (0..size).map(|rank| (rank, vec![Giver::Anybody])).collect();
        let graph = Graph::new(vec![false; size as usize], needs);
        assert_eq!(graph.stuck().count(), 4096);
        assert_eq!(graph.cycle(7), Some(vec![7, 0]));
        assert_eq!(graph.behind(&[0]).len(), 4095);
    }
}
