//! Schedules that another process can run: the plain data of one, in memory or as bytes for shared memory.
//!
//! A [`Portable`] schedule holds what the objects of its owner mean: datatypes as flat layouts, a predefined operation by its number, peers as
//! processes, and what tells its messages from others. Addresses are the owner's. The ranges that the schedule reads and writes are
//! listed, so that whoever runs it can register them first, and every step stays inside of them. A function of the program only exists in its
//! owner: such a schedule says so, and nobody else runs its reductions.
//!
//! [`codec`] writes and reads bytes, [`remote`] runs the schedules of several processes by `get` and `put` on their memory.

pub mod codec;
pub mod operation;
pub mod regions;
pub mod remote;

use super::objects::Objects;
use super::schedule::{Schedule, Step};
use super::team::Via;
use crate::datatype::flat::FlatType;
use base::{Class, Error, Result};
use operation::Operation;
use regions::{Access, Region};

/// What tells the messages of a schedule from others, for each [`Via`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Channel {
    /// Message space.
    pub context: u64,
    /// Tag of all messages.
    pub tag: i32,
}

/// Whose schedule it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Number of the process.
    pub process: u64,
    /// By [`Via`].
    pub channels: [Channel; 2],
    /// Which round of a persistent collective it is: all rounds have one tag.
    pub round: u64,
}

/// A process that the schedule talks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Number of the process.
    pub process: u64,
    /// Through which of the channels.
    pub via: Via,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Portable {
    identity: Identity,
    /// Peers of steps are places in this list.
    endpoints: Vec<Endpoint>,
    types: Vec<FlatType>,
    operation: Operation,
    schedule: Schedule,
    /// What is read, and what is written: sorted, apart from each other.
    regions: [Vec<Region>; 2],
}

impl PartialEq for Portable {
    fn eq(&self, other: &Portable) -> bool {
        let plain = |p: &Portable| (p.identity, p.operation, p.schedule.transfers);
        plain(self) == plain(other)
            && self.endpoints == other.endpoints
            && self.types == other.types
            && self.schedule.steps == other.schedule.steps
            && self.regions == other.regions
    }
}

const INVALID: Error = Error::new(Class::ERR_INTERN, "a schedule of another process is not valid");

impl Portable {
    /// The schedule of the process `identity` as plain data; `process_of` says which process a peer is. `ERR_TYPE` if a datatype
    /// has too many parts that differ.
    pub fn new(
        schedule: &Schedule,
        objects: &Objects,
        identity: Identity,
        process_of: impl Fn(Via, u32) -> u64,
    ) -> Result<Portable> {
        let types = objects.datatypes().iter().map(|datatype| FlatType::of(datatype)).collect::<Result<_>>()?;
        let mut endpoints: Vec<Endpoint> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let mut steps = schedule.steps.clone();
        for step in &mut steps {
            if let Some((peer, via)) = peer_of(step) {
                let place = *places.entry((*peer, via as u8)).or_insert_with(|| {
                    endpoints.push(Endpoint { process: process_of(via, *peer), via });
                    endpoints.len() as u32 - 1
                });
                *peer = place;
            }
        }
        let operation = objects.reduction().map_or(Operation::None, Operation::of);
        // A defect is the owner's own affair.
        let schedule = Schedule { steps, transfers: schedule.transfers, defect: None };
        let mut portable = Portable { identity, endpoints, types, operation, schedule, regions: Default::default() };
        portable.regions = regions::of(&portable)?;
        portable.check()
    }

    /// Whose it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The memory that is only read, and that is written, in the owner's addresses.
    pub fn regions(&self, access: Access) -> &[Region] {
        &self.regions[access as usize]
    }

    /// The processes that it talks to, each through one channel.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Number of them.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// Whether all of these bytes lie in the memory that is listed for `access`.
    pub fn announces(&self, access: Access, address: u64, len: usize) -> bool {
        let range = Region { from: address, to: address.saturating_add(len as u64) };
        let list = self.regions(access);
        let after = list.partition_point(|region| region.from <= address);
        len == 0 || (after > 0 && list[after - 1].contains(&range))
    }

    /// Whether another process can run it: false if it calls a function of the program.
    pub fn runs_anywhere(&self) -> bool {
        self.operation != Operation::OnlyInOwner
    }

    /// The schedule if all that its steps name exists, in order, and inside of the regions.
    fn check(self) -> Result<Portable> {
        let mut transfers = 0;
        for step in &self.schedule.steps {
            let mut step = *step;
            if let Step::Await(ticket) = step
                && ticket.0 >= transfers
            {
                return Err(INVALID);
            }
            if let Some((peer, via)) = peer_of(&mut step) {
                let known = self.endpoints.get(*peer as usize).is_some_and(|endpoint| endpoint.via == via);
                transfers += 1;
                if !known {
                    return Err(INVALID);
                }
            }
            regions::check(&self, &step)?;
        }
        let whole = transfers == self.schedule.transfers && regions::are_sorted(&self.regions);
        if whole { Ok(self) } else { Err(INVALID) }
    }
}

/// The peer that a step names.
fn peer_of(step: &mut Step) -> Option<(&mut u32, Via)> {
    match step {
        Step::Send { peer, via, .. }
        | Step::Recv { peer, via, .. }
        | Step::SendItems { peer, via, .. }
        | Step::RecvItems { peer, via, .. } => Some((peer, *via)),
        _ => None,
    }
}
