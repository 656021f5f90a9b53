//! What one process has to do in a collective: a list of steps over raw memory, as plain data.
//!
//! A schedule holds numbers and addresses only. It names datatypes by their place in a list, the operation of a reduction as "the operation",
//! and peers by their ranks. The process that builds it keeps the objects behind these numbers in [`Objects`](super::objects::Objects);
//! another process gets them as plain data, too ([`portable`](super::portable)). [`execute`](super::execute) runs it.
//!
//! Invariants: all memory that a step names is valid until the run has ended (temporary memory of the builder, or a buffer of the caller);
//! between two processes, messages are sent in the order in which they are received; messages without bytes are left out on both
//! sides alike ([`Builder::send_empty`](super::builder::Builder::send_empty) excepted).

use super::team::Via;
use base::Error;

/// One step. Transfers are only started; [`Step::Await`] and [`Step::Fence`] wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say; types are indices into the list of types")]
pub enum Step {
    /// Send bytes.
    Send { from: *const u8, len: usize, peer: u32, via: Via },
    /// Receive bytes.
    Recv { into: *mut u8, len: usize, peer: u32, via: Via },
    /// Send items of a datatype.
    SendItems { from: *const u8, count: usize, datatype: u32, peer: u32, via: Via },
    /// Receive items of a datatype.
    RecvItems { into: *mut u8, count: usize, datatype: u32, peer: u32, via: Via },
    /// Copy bytes; the ranges may overlap.
    Move { from: *const u8, into: *mut u8, len: usize },
    /// Copy items into items.
    Convert { from: *const u8, from_count: usize, from_type: u32, into: *mut u8, into_count: usize, into_type: u32 },
    /// Copy items into bytes.
    Pack { from: *const u8, count: usize, datatype: u32, into: *mut u8 },
    /// Copy bytes into items.
    Unpack { from: *const u8, into: *mut u8, count: usize, datatype: u32 },
    /// `inout = input op inout` with the operation of the schedule.
    Reduce { input: *const u8, inout: *mut u8, count: usize },
    /// Wait for one transfer.
    Await(Ticket),
    /// Wait for all transfers so far.
    Fence,
}

/// A transfer of the schedule: the how-manieth it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(pub u32);

impl Ticket {
    /// Stands for a transfer that was left out because it has no bytes.
    pub const NONE: Ticket = Ticket(u32::MAX);
}

/// See the head of this file.
#[derive(Default, Debug)]
pub struct Schedule {
    pub(super) steps: Vec<Step>,
    pub(super) transfers: u32,
    pub(super) defect: Option<Error>,
}

impl Schedule {
    /// Makes it an empty schedule again; memory is kept.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.steps.clear();
        self.transfers = 0;
        self.defect = None;
    }

    /// The steps.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// An error that was found while building but must not keep the other steps from running: peers count on them.
    #[inline]
    pub fn defect(&self) -> Option<Error> {
        self.defect
    }

    /// Number of transfers.
    #[inline]
    pub fn transfers(&self) -> usize {
        self.transfers as usize
    }
}
