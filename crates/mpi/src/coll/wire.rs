//! Transfers of a program over a communicator.

use super::execute::Wire;
use super::team::Via;
use crate::call;
use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::p2p::transfer::{self, Transfer};
use crate::runtime::rt;
use base::Result;
use base::ids::Plane;
use channel::profile::Call;
use protocol::engine::Mode;
use std::rc::Rc;

/// The message tags of one collective.
#[derive(Clone, Copy)]
pub struct Tags {
    plane: Plane,
    /// On the communicator, and on an inter-communicator's local communicator.
    tags: [i32; 2],
    /// The function that the program has called, for profiles.
    call: Call,
}

impl Default for Tags {
    fn default() -> Tags {
        Tags { plane: Plane::Collective, tags: [0; 2], call: None }
    }
}

impl Tags {
    /// The tags of the next collective on `comm`.
    #[inline]
    pub fn next(comm: &Comm, plane: Plane) -> Tags {
        let local = comm.local.as_ref().map_or(0, |local| local.next_collective_tag());
        Tags { plane, tags: [comm.next_collective_tag(), local], call: call::current() }
    }

    /// As the last `next`, which is given back, but for a collective in the background.
    pub fn next_in_background(self, comm: &Comm) -> Tags {
        let next = |comm: &Comm| {
            comm.return_collective_tag();
            comm.next_background_tag()
        };
        Tags { tags: [next(comm), comm.local.as_ref().map_or(0, |local| next(local))], ..self }
    }

    /// This tag on this plane.
    pub fn fixed(plane: Plane, tag: i32) -> Tags {
        Tags { plane, tags: [tag; 2], call: call::current() }
    }
}

/// See the head of this file.
pub struct CommWire<'a> {
    comms: [&'a Comm; 2],
    tags: Tags,
}

impl<'a> CommWire<'a> {
    /// Transfers over `comm` with these tags.
    #[inline]
    pub fn new(comm: &'a Comm, tags: Tags) -> CommWire<'a> {
        CommWire { comms: [comm, comm.local.as_deref().unwrap_or(comm)], tags }
    }

    #[inline]
    fn route(&self, via: Via) -> (&'a Comm, u64, i32) {
        let comm = self.comms[via as usize];
        (comm, comm.context.plane(self.tags.plane), self.tags.tags[via as usize])
    }
}

impl CommWire<'_> {
    /// What is sent next belongs to this collective.
    #[inline]
    fn tell_call(&self) {
        rt().call.set(self.tags.call);
    }
}

impl Wire for CommWire<'_> {
    type Transfer = Transfer;
    const DONE: Transfer = Transfer::Sent;

    #[inline]
    unsafe fn send(&mut self, via: Via, peer: u32, from: *const u8, len: usize) -> Result<Transfer> {
        let (comm, context, tag) = self.route(via);
        self.tell_call();
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_send_bytes(comm.peer(peer as i32), context, comm.rank as u32, tag, from, len) }
    }

    #[inline]
    unsafe fn recv(&mut self, via: Via, peer: u32, into: *mut u8, len: usize) -> Result<Transfer> {
        let (comm, context, tag) = self.route(via);
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_recv_bytes(comm.peer(peer as i32), context, peer, tag, into, len) }
    }

    unsafe fn send_items(
        &mut self,
        via: Via,
        peer: u32,
        from: *const u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) -> Result<Transfer> {
        let (comm, _, tag) = self.route(via);
        let plane = self.tags.plane;
        self.tell_call();
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_send(comm, plane, Mode::Standard, from, count, datatype, peer as i32, tag) }
    }

    unsafe fn recv_items(
        &mut self,
        via: Via,
        peer: u32,
        into: *mut u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) -> Result<Transfer> {
        let (comm, _, tag) = self.route(via);
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_recv(comm, self.tags.plane, into, count, datatype, peer as i32, tag) }
    }

    #[inline]
    fn is_done(transfer: Transfer) -> bool {
        transfer == Transfer::Sent
    }

    #[inline]
    fn test(&mut self, transfer: Transfer) -> Option<Result> {
        transfer::test_with_status(transfer).map(|(result, _)| result)
    }

    #[inline]
    fn wait(&mut self, transfer: Transfer, losses: usize) -> Option<Result> {
        transfer::wait_unless_lost(transfer, losses);
        self.test(transfer)
    }

    #[inline]
    fn losses(&self) -> usize {
        rt().engine.with(|engine| engine.losses())
    }

    fn abandon(&mut self, transfer: Transfer) -> bool {
        transfer::give_up(transfer)
    }

    fn is_broken(&self) -> bool {
        let comm = self.comms[0];
        rt().engine.with(|engine| engine.any_lost(|peer| comm.needs(peer)))
    }
}
