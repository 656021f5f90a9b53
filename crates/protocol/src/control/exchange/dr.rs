//! `dr`, data reassembly: mpiexec gathers as in [`super::original`], but sends each rank only the N-1 ids that it needs: O(N²) bytes.

use super::{Entry, Offer};
use base::WorldRank;

/// What rank `me` is sent.
pub fn entries_for(me: WorldRank, offers: &[Offer]) -> Vec<Entry> {
    let others = offers.iter().filter(|offer| offer.rank != me);
    others.map(|offer| Entry { peer: offer.rank, address: offer.address.clone(), id: offer.id_for(me) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{original, testing::offer};
    use super::*;
    use crate::control::encode;

    #[test]
    fn ranks_get_what_they_would_pick_from_the_table() {
        for size in 1..=130 {
            let offers: Vec<Offer> = (0..size).map(|r| offer(r, size, true)).collect();
            for me in [0, size / 3, size - 1].map(WorldRank) {
                assert_eq!(entries_for(me, &offers), original::pick(me, size, offers.clone()).unwrap());
            }
        }
    }

    #[test]
    fn what_a_rank_gets_grows_with_the_ranks() {
        let bytes = |size: u32| {
            let offers: Vec<Offer> = (0..size).map(|r| offer(r, size, true)).collect();
            encode(&entries_for(WorldRank(0), &offers)).len()
        };
        let one = bytes(2) - 4;
        assert_eq!(bytes(100), 4 + 99 * one);
    }
}
