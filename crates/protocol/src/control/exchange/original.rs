//! `original`: mpiexec gathers what every rank offers and sends all of it to every rank.
//!
//! N·(endpoint address + (N-1) ids) come in and N times that goes out: O(N³) bytes, N messages up and N down, all through one process.

use super::{Entry, Offer};
use base::{Result, WorldRank, ensure};

enum Place {
    Awaited,
    Offered(Box<Offer>),
    /// Has ended; nothing will come.
    Gone,
}

/// What mpiexec has of the ranks of one program.
pub struct Collector {
    places: Vec<Place>,
    awaited: usize,
}

impl Collector {
    /// Of `size` ranks, nothing.
    pub fn new(size: u32) -> Collector {
        Collector { places: (0..size).map(|_| Place::Awaited).collect(), awaited: size as usize }
    }

    /// Notes an offer; one that isn't of this job or comes twice is an error.
    pub fn add(&mut self, offer: Offer) -> Result {
        let size = self.places.len() as u32;
        ensure!(offer.is_sound(size), ERR_OTHER, "a rank's offer of endpoints is wrong");
        let place = &mut self.places[offer.rank.0 as usize];
        ensure!(matches!(place, Place::Awaited), ERR_OTHER, "a rank has offered its endpoints twice");
        *place = Place::Offered(Box::new(offer));
        self.awaited -= 1;
        Ok(())
    }

    /// A rank has ended: the others don't wait for it. What it has offered stays, for those who find out themselves.
    pub fn gone(&mut self, rank: u32) {
        if let Some(place) = self.places.get_mut(rank as usize)
            && matches!(place, Place::Awaited)
        {
            *place = Place::Gone;
            self.awaited -= 1;
        }
    }

    /// Whether nothing is awaited any more.
    pub fn is_complete(&self) -> bool {
        self.awaited == 0
    }

    /// What has been offered, in order of ranks.
    pub fn offers(&self) -> Vec<Offer> {
        let offer = |place: &Place| if let Place::Offered(offer) = place { Some((**offer).clone()) } else { None };
        self.places.iter().filter_map(offer).collect()
    }
}

/// What `me` needs of the whole table.
pub fn pick(me: WorldRank, size: u32, table: Vec<Offer>) -> Result<Vec<Entry>> {
    ensure!(table.iter().all(|o| o.is_sound(size)), ERR_OTHER, "the table of endpoints is wrong");
    let others = table.into_iter().filter(|offer| offer.rank != me);
    Ok(others.map(|offer| Entry { peer: offer.rank, id: offer.id_for(me), address: offer.address }).collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::offer;
    use super::*;
    use crate::control::encode;

    #[test]
    fn every_rank_finds_its_ids_in_the_table() {
        for size in 1..=130 {
            let mut collector = Collector::new(size);
            for rank in (0..size).rev() {
                assert!(!collector.is_complete());
                collector.add(offer(rank, size, true)).unwrap();
            }
            assert!(collector.is_complete());
            for me in [0, size / 2, size - 1] {
                let entries = pick(WorldRank(me), size, collector.offers()).unwrap();
                assert_eq!(entries.len() as u32, size - 1);
                for entry in entries {
                    assert_eq!(entry.id, offer(entry.peer.0, size, true).id_for(WorldRank(me)));
                }
            }
        }
    }

    #[test]
    fn the_table_grows_with_the_square_of_the_ranks() {
        let bytes = |size: u32| encode(&(0..size).map(|r| offer(r, size, true)).collect::<Vec<_>>()).len() as u64;
        let address = bytes(1) - 4;
        for size in [2, 16, 100] {
            let n = u64::from(size);
            assert_eq!(bytes(size), 4 + n * address + 16 * n * (n - 1));
        }
    }

    #[test]
    fn who_is_gone_is_not_waited_for_and_wrong_offers_are_refused() {
        let mut collector = Collector::new(3);
        collector.gone(1);
        collector.gone(1);
        collector.gone(7);
        assert!(collector.add(offer(1, 3, true)).is_err());
        assert!(collector.add(offer(3, 4, true)).is_err());
        assert!(collector.add(offer(0, 9, true)).is_err());
        collector.add(offer(0, 3, true)).unwrap();
        assert!(collector.add(offer(0, 3, true)).is_err());
        collector.add(offer(2, 3, true)).unwrap();
        assert!(collector.is_complete());
        assert_eq!(collector.offers().len(), 2);
        assert!(pick(WorldRank(0), 3, vec![offer(5, 9, true)]).is_err());
    }
}
