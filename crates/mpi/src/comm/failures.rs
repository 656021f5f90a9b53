//! Which failures of a communicator's processes the program has been told of and has acknowledged (decision 0053).

use super::Comm;
use crate::cs::Section;
use crate::losses;
use base::Peer;
use std::cell::{Cell, RefCell};

/// See the head of this file.
#[derive(Default)]
pub struct Failures {
    /// Processes that are gone, in the order in which this process has learned of them; it only grows.
    known: RefCell<Vec<Peer>>,
    /// So many of them the program has acknowledged.
    acknowledged: Cell<usize>,
    /// Number of the next agreement of the communicator.
    agreements: Cell<u64>,
}

impl Failures {
    /// Whether the program has acknowledged this failure.
    pub fn has_acknowledged(&self, peer: Peer) -> bool {
        self.acknowledged().contains(&peer)
    }

    /// The failures that the program has acknowledged.
    pub fn acknowledged(&self) -> Vec<Peer> {
        self.known.borrow()[..self.acknowledged.get()].to_vec()
    }

    /// The number of the next agreement; every member calls these in the same order.
    pub fn next_agreement(&self) -> u64 {
        let number = self.agreements.get();
        self.agreements.set(number + 1);
        number
    }

    /// Notes that these processes are gone.
    pub fn learn(&self, gone: impl Iterator<Item = Peer>) {
        let mut known = self.known.borrow_mut();
        for peer in gone {
            if !known.contains(&peer) {
                known.push(peer);
            }
        }
    }

    /// All processes of `comm`, whose failures these are, that are known to be gone.
    pub fn known(&self, cs: &Section, comm: &Comm) -> Vec<Peer> {
        let groups = [Some(&comm.group), comm.remote.as_ref()];
        let members = groups.into_iter().flatten().flat_map(|group| group.peers());
        if losses::count(cs) != 0 {
            self.learn(members.filter(|member| losses::any(cs, |lost| lost == *member)));
        }
        self.known.borrow().clone()
    }

    /// Acknowledges up to `count` of the known ones; how many are acknowledged then.
    pub fn acknowledge(&self, count: usize) -> usize {
        let count = count.min(self.known.borrow().len()).max(self.acknowledged.get());
        self.acknowledged.set(count);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_failures_stays() {
        let failures = Failures::default();
        failures.learn([Peer(4), Peer(2)].into_iter());
        assert_eq!(failures.acknowledge(1), 1);
        failures.learn([Peer(1), Peer(2), Peer(4)].into_iter());
        assert_eq!(failures.acknowledged(), [Peer(4)]);
        assert!(failures.has_acknowledged(Peer(4)) && !failures.has_acknowledged(Peer(2)));
        assert_eq!(failures.acknowledge(0), 1, "nothing is taken back");
        assert_eq!(failures.acknowledge(9), 3);
        assert_eq!(failures.acknowledged(), [Peer(4), Peer(2), Peer(1)]);
    }
}
