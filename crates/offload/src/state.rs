//! The memory of ranks as the interpreter of schedules sees it: each access is checked against what its operation has announced, and what is done is noted with the operation.

use crate::rank::{Rank, UNREACHABLE};
use crate::reach;
use base::{Class, Error, Result, log};
use mpi::coll::portable::regions::Access;
use mpi::coll::portable::remote::{End, Memory, Position, RunId};
use mpi::coll::portable::{Identity, Portable};
use mpi::losses::LOST;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An operation that the worker runs.
pub struct Operation {
    /// Whose.
    pub rank: u64,
    /// Where it is posted.
    pub slot: u32,
    /// Which one of that slot.
    pub sequence: u64,
    /// What is done.
    pub schedule: Rc<Portable>,
    /// Whose it is, and what tells its messages from others.
    pub identity: Identity,
}

/// The ranks, and what the worker does for them.
#[derive(Default)]
pub struct State {
    /// By number.
    pub ranks: BTreeMap<u64, Rank>,
    /// By the number of the run.
    pub operations: Vec<Option<Operation>>,
    /// The ranks of the job, each on its node, and the own node.
    places: (Vec<u32>, u32),
}

/// What is written may be read, too.
const READABLE: [Access; 2] = [Access::Read, Access::Write];
const OUTSIDE: Error = Error::new(Class::ERR_INTERN, "an operation leaves the memory that it has announced");

/// A position as one word.
pub fn word_of(position: Position) -> u64 {
    u64::from(position.step) << 32 | u64::from(position.part)
}

/// The position that [`word_of`] has written.
pub fn position_of(word: u64) -> Position {
    Position { step: (word >> 32) as u32, part: word as u32 }
}

impl State {
    /// That of a worker of node `me`; `node_of` has the node of each rank.
    pub fn new(node_of: Vec<u32>, me: u32) -> State {
        State { places: (node_of, me), ..State::default() }
    }

    fn of(&self, run: RunId) -> Result<(&Operation, &Rank)> {
        let operation = self.operations.get(run).and_then(Option::as_ref).ok_or(OUTSIDE)?;
        // A rank that has gone takes its operations with it.
        self.ranks.get(&operation.rank).map(|rank| (operation, rank)).ok_or(LOST)
    }

    fn access(
        &self,
        run: RunId,
        pieces: &[(u64, usize)],
        accesses: &[Access],
        go: impl FnOnce(&reach::Way) -> std::io::Result<()>,
    ) -> Result {
        let (operation, rank) = self.of(run)?;
        let announced =
            |access: &Access, (address, len): (u64, usize)| operation.schedule.announces(*access, address, len);
        if !pieces.iter().all(|piece| accesses.iter().any(|access| announced(access, *piece))) {
            return Err(OUTSIDE);
        }
        go(rank.way.as_ref().ok_or(UNREACHABLE)?).map_err(|error| {
            if reach::is_gone(&error) {
                return LOST;
            }
            log!(Error, "memory of rank {} can't be accessed: {error}", operation.rank);
            UNREACHABLE
        })
    }
}

impl Memory for State {
    fn get(&mut self, run: RunId, address: u64, into: &mut [u8]) -> Result {
        self.access(run, &[(address, into.len())], &READABLE, |way| way.read(address, into))
    }

    fn put(&mut self, run: RunId, address: u64, from: &[u8]) -> Result {
        self.access(run, &[(address, from.len())], &[Access::Write], |way| way.write(address, from))
    }

    fn get_pieces(&mut self, run: RunId, pieces: &[(u64, usize)], into: &mut [u8]) -> Result {
        self.access(run, pieces, &READABLE, |way| way.read_pieces(pieces, into))
    }

    fn put_pieces(&mut self, run: RunId, pieces: &[(u64, usize)], from: &[u8]) -> Result {
        self.access(run, pieces, &[Access::Write], |way| way.write_pieces(pieces, from))
    }

    fn put_once(&mut self, run: RunId, position: Position, address: u64, from: &[u8]) -> Result {
        let (operation, rank) = self.of(run)?;
        let slot = operation.slot;
        rank.served.write_journal((slot, operation.sequence), word_of(position), address, from);
        self.put(run, address, from)?;
        let (_, rank) = self.of(run)?;
        rank.served.set_position(slot, word_of(Position { part: position.part.wrapping_add(1), ..position }));
        rank.served.clear_journal();
        Ok(())
    }

    fn came_to(&mut self, run: RunId, position: Position) {
        if let Ok((operation, rank)) = self.of(run) {
            rank.served.set_position(operation.slot, word_of(position));
        }
    }

    fn is_here(&self, process: u64) -> bool {
        let (node_of, me) = &self.places;
        // Nobody sends to a process that isn't there.
        usize::try_from(process).ok().and_then(|process| node_of.get(process)).is_none_or(|node| node == me)
    }

    fn counted(&mut self, (run, endpoint): End, sends: bool, count: u64) {
        if let Ok((operation, rank)) = self.of(run) {
            rank.served.set_count(operation.slot, endpoint as usize, sends, count);
        }
    }
}
