//! How ranks learn each other's endpoints at their start: the schemes, and what they send.
//!
//! The published schemes (Yu, Wu, Panda: EuroPVM/MPI 2004) exchange one *endpoint id* for each ordered pair of ranks, because a queue
//! pair serves one peer: N·(N-1) ids in all. Here an id is a random number that the caller must know besides the job's key when it
//! connects. The schemes of ours exchange one endpoint address per rank, because one listener serves all peers.
//!
//! Each scheme is a state machine in a file of its own: [`original`] and [`dr`] run in mpiexec, [`tree`] in the agents, [`ring`] and
//! [`hypercube`] in the ranks. [`Scheme::Lazy`] needs none: endpoint addresses are asked for on first use.
//! Every message carries a *generation*, the number of MPI programs that the rank has finalized before, so that nothing late counts.

pub mod dr;
pub mod hypercube;
pub mod original;
pub mod ring;
pub mod tree;

use super::codec::wire;
use super::endpoint_address::EndpointAddress;
use base::{Result, WorldRank, ensure};

/// What a caller must know to connect to one rank from one other.
pub type Id = [u8; 16];

/// Most ranks of a job whose launcher sends all ids to everybody: its table is one frame.
pub const ORIGINAL_RANKS_MAX: usize = 1024;

/// A way to exchange endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Scheme {
    /// Nothing is exchanged; an endpoint address is asked for on first use.
    Lazy = 0,
    /// Serial launch, all ids to everybody through mpiexec.
    Original = 1,
    /// Serial launch, mpiexec sends each rank what it needs.
    Dr = 2,
    /// Serial launch, ids go round a ring of ranks.
    Bc = 3,
    /// Parallel launch, ids go round a ring of ranks.
    MpdBc = 4,
    /// Parallel launch, endpoint addresses go up and down the tree of agents.
    Tree = 5,
    /// Parallel launch, ranks double what they know in each round.
    Hypercube = 6,
}

/// What is known of a scheme.
pub struct Described {
    /// Which.
    pub scheme: Scheme,
    /// Its name on the command line.
    pub name: &'static str,
    /// Agents are started one after another, each when the one before is ready.
    pub serial: bool,
    /// There is an id for each pair.
    pub ids: bool,
    /// Ranks exchange among themselves, over their lanes.
    pub in_band: bool,
    /// One line.
    pub doc: &'static str,
}

/// All schemes.
pub const SCHEMES: [Described; 7] = [
    described(Scheme::Original, "original", [true, true, false], "serial launch; all endpoint ids to all ranks"),
    described(Scheme::Dr, "dr", [true, true, false], "serial launch; each rank gets only the ids that it needs"),
    described(Scheme::Bc, "bc", [true, true, true], "serial launch; ids go round a ring of ranks"),
    described(Scheme::MpdBc, "mpd-bc", [false, true, true], "parallel launch; ids go round a ring of ranks"),
    described(
        Scheme::Tree,
        "tree",
        [false, false, false],
        "parallel launch; endpoint addresses go up and down the tree of agents",
    ),
    described(Scheme::Hypercube, "hypercube", [false, false, true], "parallel launch; ranks double what they know"),
    described(
        Scheme::Lazy,
        "lazy",
        [false, false, false],
        "parallel launch; no exchange, endpoint addresses on first use",
    ),
];

const fn described(
    scheme: Scheme,
    name: &'static str,
    [serial, ids, in_band]: [bool; 3],
    doc: &'static str,
) -> Described {
    Described { scheme, name, serial, ids, in_band, doc }
}

impl Scheme {
    /// The scheme of that name.
    pub fn from_name(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|d| d.name == name).map(|d| d.scheme)
    }

    /// The inverse of `as u8`; unknown numbers exchange nothing.
    pub fn from_number(number: u8) -> Scheme {
        SCHEMES.iter().map(|d| d.scheme).find(|s| *s as u8 == number).unwrap_or(Scheme::Lazy)
    }

    /// What is known of it.
    pub fn described(self) -> &'static Described {
        SCHEMES.iter().find(|d| d.scheme == self).unwrap_or(&SCHEMES[SCHEMES.len() - 1])
    }
}

wire! {
    /// How a rank starts.
    pub struct Startup {
        /// A [`Scheme`].
        pub scheme: u8,
        /// All connections are made in `MPI_Init`.
        pub connect_all: bool,
        /// Ranks say where the time went.
        pub report: bool,
        /// How many MPI programs this rank has finalized before.
        pub generation: u32,
    }
}

impl Default for Startup {
    /// Nothing is exchanged or reported.
    fn default() -> Startup {
        Startup { scheme: Scheme::Lazy as u8, connect_all: false, report: false, generation: 0 }
    }
}

impl Startup {
    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        Scheme::from_number(self.scheme)
    }
}

wire! {
    /// What a rank offers: its endpoint address, and the ids by which each of the others may call it.
    pub struct Offer {
        /// Who.
        pub rank: WorldRank,
        /// Its endpoint address.
        pub address: EndpointAddress,
        /// For the other ranks, ascending; empty if the scheme has none.
        pub ids: Vec<Id>,
    }
}

impl Offer {
    /// The id by which `peer` may call; none if there is none.
    pub fn id_for(&self, peer: WorldRank) -> Option<Id> {
        let before = u32::from(peer > self.rank);
        if peer == self.rank { None } else { self.ids.get(peer.0.checked_sub(before)? as usize).copied() }
    }

    /// Whether it can be one of a job of `size` ranks.
    pub fn is_sound(&self, size: u32) -> bool {
        self.rank.0 < size && (self.ids.is_empty() || self.ids.len() as u32 == size - 1)
    }
}

wire! {
    /// What a rank needs to know of another one.
    pub struct Entry {
        /// Whom.
        pub peer: WorldRank,
        /// Its endpoint address.
        pub address: EndpointAddress,
        /// The id by which the rank may call it.
        pub id: Option<Id>,
    }
}

wire! {
    /// A message of an exchange between ranks.
    pub struct Step {
        /// Of which program.
        pub generation: u32,
        /// Number of the round, from 0.
        pub round: u32,
        /// What the sender passes on.
        pub blocks: Vec<Offer>,
    }
}

/// An exchange in which ranks send steps to each other.
pub trait Exchange {
    /// The next message to send, as soon as what it carries is known.
    fn next_outgoing(&mut self) -> Option<(WorldRank, Step)>;
    /// A message has come. Late ones and duplicates are ignored; an error if the sender breaks the protocol.
    fn on_step(&mut self, from: WorldRank, step: Step) -> Result;
    /// Everything is known and has been passed on.
    fn is_done(&self) -> bool;
    /// What is known: once done, one offer of each rank, in order.
    fn into_offers(self: Box<Self>) -> Vec<Offer>;
}

/// What was collected, by rank.
struct Known {
    offers: Vec<Option<Offer>>,
}

impl Known {
    fn new(size: u32, own: Offer) -> Known {
        let mut offers: Vec<Option<Offer>> = (0..size).map(|_| None).collect();
        let rank = own.rank.0 as usize;
        offers[rank] = Some(own);
        Known { offers }
    }

    fn add(&mut self, block: Offer) -> Result {
        ensure!(
            block.is_sound(self.offers.len() as u32),
            ERR_OTHER,
            "an exchange of endpoints names an impossible rank"
        );
        let place = &mut self.offers[block.rank.0 as usize];
        if place.is_none() {
            *place = Some(block);
        }
        Ok(())
    }

    fn all(&self) -> Vec<Offer> {
        self.offers.iter().flatten().cloned().collect()
    }

    fn is_complete(&self) -> bool {
        self.offers.iter().all(Option::is_some)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Offers that can be told apart, and a network that delays, repeats and loses.
    use super::*;

    pub fn offer(rank: u32, size: u32, with_ids: bool) -> Offer {
        let address = EndpointAddress { rank_id: u128::from(rank) + 1000, pid: rank, ..EndpointAddress::default() };
        let id = |peer: u32| {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&rank.to_le_bytes());
            id[4..8].copy_from_slice(&peer.to_le_bytes());
            id
        };
        let ids = (0..size).filter(|p| with_ids && *p != rank).map(id).collect();
        Offer { rank: WorldRank(rank), address, ids }
    }

    pub struct Random(pub u64);

    impl Random {
        pub fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) as usize) % n.max(1)
        }
    }

    /// Runs all ranks over a network that delivers in random order, some messages twice and some of an earlier program; `lost` of
    /// a thousand messages vanish. The ranks and the number of messages.
    pub fn run(mut ranks: Vec<Box<dyn Exchange>>, lost: usize, seed: u64) -> (Vec<Box<dyn Exchange>>, usize) {
        let mut random = Random(seed);
        let mut flying: Vec<(u32, u32, Step)> = Vec::new();
        let mut sent = 0;
        loop {
            for (from, rank) in ranks.iter_mut().enumerate() {
                while let Some((to, step)) = rank.next_outgoing() {
                    sent += 1;
                    let late = Step { generation: step.generation - 1, blocks: Vec::new(), ..step.clone() };
                    if random.below(10) == 0 {
                        flying.push((from as u32, to.0, late));
                    }
                    if random.below(10) == 0 {
                        flying.push((from as u32, to.0, step.clone()));
                    }
                    if random.below(1000) >= lost {
                        flying.push((from as u32, to.0, step));
                    }
                }
            }
            if flying.is_empty() {
                return (ranks, sent);
            }
            let (from, to, step) = flying.swap_remove(random.below(flying.len()));
            ranks[to as usize].on_step(WorldRank(from), step).unwrap();
        }
    }

    /// Every number of ranks, in order and out of order, and with losses; `messages` says how many a job of that size may need.
    pub fn check(make: impl Fn(Offer, u32) -> Box<dyn Exchange>, with_ids: bool, messages: impl Fn(u32) -> usize) {
        for size in 1..=130u32 {
            let job = || (0..size).map(|r| make(offer(r, size, with_ids), size)).collect::<Vec<_>>();
            let (ranks, sent) = run(job(), 0, u64::from(size));
            assert_eq!(sent, messages(size), "{size} ranks");
            for rank in ranks {
                assert!(rank.is_done());
                let want: Vec<Offer> = (0..size).map(|r| offer(r, size, with_ids)).collect();
                assert_eq!(rank.into_offers(), want);
            }
            if size > 1 && size % 7 == 0 {
                let (ranks, _) = run(job(), 300, u64::from(size) + 1);
                // Whoever is done knows everything, whatever was lost; and not everybody can be.
                for rank in ranks.into_iter().filter(|r| r.is_done()) {
                    assert_eq!(rank.into_offers().len(), size as usize);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_schemes() {
        for described in &SCHEMES {
            assert_eq!(Scheme::from_name(described.name), Some(described.scheme));
            assert_eq!(Scheme::from_number(described.scheme as u8), described.scheme);
            assert_eq!(described.scheme.described().name, described.name);
        }
        assert_eq!(Scheme::from_name("fast"), None);
        assert_eq!(Scheme::from_number(99), Scheme::Lazy);
    }

    #[test]
    fn each_pair_has_an_id_of_its_own() {
        let offers: Vec<Offer> = (0..5).map(|r| testing::offer(r, 5, true)).collect();
        let mut seen = std::collections::BTreeSet::new();
        for offer in &offers {
            assert_eq!(offer.id_for(offer.rank), None);
            assert_eq!(offer.id_for(WorldRank(5)), None);
            for peer in (0..5).map(WorldRank).filter(|p| *p != offer.rank) {
                let id = offer.id_for(peer).unwrap();
                assert_eq!(id[4], peer.0 as u8);
                assert!(seen.insert(id));
            }
        }
    }
}
