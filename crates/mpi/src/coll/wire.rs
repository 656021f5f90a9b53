//! Transfers of a schedule over a communicator.

use super::execute::Wire;
use super::objects::{Objects, Reduction};
use super::portable::Channel;
use super::schedule::Step;
use super::team::Via;
use crate::call;
use crate::comm::Comm;
use crate::cs::Section;
use crate::losses;
use crate::p2p::transfer::{self, Transfer};
use crate::profile;
use base::Result;
use base::ids::Plane;
use channel::profile::Call;
use protocol::engine::Mode;

/// What distinguishes the messages of a plan from those of others.
#[derive(Clone, Copy)]
pub enum Numbering {
    /// The communicator's next number on this plane, taken when the plan starts (a persistent one's when it is made).
    InOrder(Plane),
    /// This tag on this plane.
    Fixed(Plane, i32),
}

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
    /// The tags of a collective on `comm` that starts now; `next` is how a communicator gives the next one.
    #[inline]
    fn take(comm: &Comm, numbering: Numbering, next: impl Fn(&Comm) -> i32) -> Tags {
        let (plane, tags) = match numbering {
            Numbering::InOrder(plane) => (plane, [next(comm), comm.local.as_deref().map_or(0, next)]),
            Numbering::Fixed(plane, tag) => (plane, [tag; 2]),
        };
        Tags { plane, tags, call: call::current() }
    }

    /// The tags of a blocking collective.
    #[inline]
    pub fn blocking(comm: &Comm, numbering: Numbering) -> Tags {
        Tags::take(comm, numbering, Comm::next_collective_tag)
    }

    /// The function that the program has called.
    pub fn call(&self) -> Call {
        self.call
    }

    /// Context and tag of the messages on `comm`, and on its local communicator.
    pub fn channels(&self, comm: &Comm) -> [Channel; 2] {
        let comms = [comm, comm.local.as_deref().unwrap_or(comm)];
        [0, 1].map(|i| Channel { context: comms[i].context.plane(self.plane), tag: self.tags[i] })
    }

    /// The tags of a non-blocking or persistent collective.
    pub fn nonblocking(comm: &Comm, numbering: Numbering) -> Tags {
        Tags::take(comm, numbering, Comm::next_nonblocking_tag)
    }
}

/// See the head of this file.
pub struct CommWire<'a> {
    comms: [&'a Comm; 2],
    tags: Tags,
    objects: &'a Objects,
    cs: &'a mut Section,
}

impl<'a> CommWire<'a> {
    /// Transfers over `comm` with these tags, of a schedule that names these objects.
    #[inline]
    pub fn new(cs: &'a mut Section, comm: &'a Comm, tags: Tags, objects: &'a Objects) -> CommWire<'a> {
        CommWire { comms: [comm, comm.local.as_deref().unwrap_or(comm)], tags, objects, cs }
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
        profile::of_call(self.cs, self.tags.call);
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
        unsafe {
            transfer::start_send_bytes(self.cs, comm.peer(peer as i32), context, comm.rank as u32, tag, from, len)
        }
    }

    #[inline]
    unsafe fn recv(&mut self, via: Via, peer: u32, into: *mut u8, len: usize) -> Result<Transfer> {
        let (comm, context, tag) = self.route(via);
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_recv_bytes(self.cs, comm.peer(peer as i32), context, peer, tag, into, len) }
    }

    unsafe fn send_items(
        &mut self,
        via: Via,
        peer: u32,
        from: *const u8,
        count: usize,
        datatype: u32,
    ) -> Result<Transfer> {
        let (comm, _, tag) = self.route(via);
        let plane = self.tags.plane;
        let datatype = self.objects.datatype(datatype);
        self.tell_call();
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_send(self.cs, comm, plane, Mode::Standard, from, count, datatype, peer as i32, tag) }
    }

    unsafe fn recv_items(
        &mut self,
        via: Via,
        peer: u32,
        into: *mut u8,
        count: usize,
        datatype: u32,
    ) -> Result<Transfer> {
        let (comm, _, tag) = self.route(via);
        let datatype = self.objects.datatype(datatype);
        // SAFETY: handed on from the caller.
        unsafe { transfer::start_recv(self.cs, comm, self.tags.plane, into, count, datatype, peer as i32, tag) }
    }

    #[inline]
    unsafe fn perform(&mut self, step: &Step) -> Result {
        // SAFETY: handed on from the caller; a schedule runs with its own objects.
        unsafe {
            self.objects.perform(step, |reduction, input, inout, count| reduce(self.cs, reduction, input, inout, count))
        };
        Ok(())
    }

    #[inline]
    fn is_done(transfer: Transfer) -> bool {
        transfer == Transfer::Sent
    }

    #[inline]
    fn test(&mut self, transfer: Transfer) -> Option<Result> {
        transfer::test_with_status(self.cs, transfer).map(|(result, _)| result)
    }

    #[inline]
    fn wait(&mut self, transfer: Transfer, losses: usize) -> Option<Result> {
        transfer::wait_unless_lost(self.cs, transfer, losses);
        self.test(transfer)
    }

    #[inline]
    fn losses(&self) -> usize {
        losses::count(self.cs)
    }

    fn abandon(&mut self, transfer: Transfer) -> bool {
        transfer::give_up(self.cs, transfer)
    }

    fn is_broken(&self) -> bool {
        let comm = self.comms[0];
        losses::any(self.cs, |peer| comm.needs(peer))
    }
}

/// # Safety
/// Both buffers hold `count` items and don't overlap.
#[inline]
unsafe fn reduce(
    cs: &mut Section,
    Reduction { op, datatype }: &Reduction,
    input: *const u8,
    inout: *mut u8,
    count: usize,
) {
    // SAFETY: handed on from the caller.
    unsafe { op.apply(cs, input, inout, count, datatype) }
}
