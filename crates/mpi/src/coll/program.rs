//! What one process has to do in a collective, as a list of steps over raw memory.
//!
//! The builders of the algorithms write programs; [`execute`](super::execute) runs them. A program knows ranks, not
//! communicators, so the same builders run under the simulator of the tests.
//!
//! Invariants: all memory named by a step is valid until the program ends (the program's arena, or a buffer of the caller);
//! between two processes, messages are sent in the order in which they are received; messages without bytes are
//! left out on both sides alike ([`Program::signal`] excepted).

use super::arena::Arena;
use super::span::{BYTES, Shape, Span};
use super::team::{Team, Via};
use crate::datatype::Datatype;
use crate::op::Op;
use base::{Class, Error};
use std::rc::Rc;

/// One step. Transfers are only started; [`Step::Await`] and [`Step::Fence`] wait for them.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say; types are indices into the program's list")]
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
    /// `inout = input op inout` with the program's operation.
    Reduce { input: *const u8, inout: *mut u8, count: usize },
    /// Wait for one transfer.
    Await(Ticket),
    /// Wait for all transfers so far.
    Fence,
}

/// A transfer of the program: the how-manieth it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(pub u32);

impl Ticket {
    /// Stands for a transfer that was left out because it has no bytes.
    pub const NONE: Ticket = Ticket(u32::MAX);
}

/// The operation of a reducing collective.
pub struct Reduction {
    /// The operation.
    pub op: Rc<Op>,
    /// Type of the items.
    pub datatype: Rc<Datatype>,
}

/// See the head of this file.
#[derive(Default)]
pub struct Program {
    steps: Vec<Step>,
    types: Vec<Rc<Datatype>>,
    arena: Arena,
    reduction: Option<Reduction>,
    transfers: u32,
    /// Transfers that a fence has waited for.
    fenced: u32,
    defect: Option<Error>,
    /// Memory for builders that keep lists.
    scratch: Vec<(Span, Ticket)>,
}

impl Program {
    /// An empty list whose memory is reused when it is given back.
    #[inline]
    pub fn lend(&mut self) -> Vec<(Span, Ticket)> {
        std::mem::take(&mut self.scratch)
    }

    /// See [`Program::lend`].
    #[inline]
    pub fn give_back(&mut self, mut list: Vec<(Span, Ticket)>) {
        list.clear();
        self.scratch = list;
    }

    /// Makes it an empty program again; memory is kept.
    #[inline]
    pub fn reset(&mut self) {
        self.steps.clear();
        self.types.clear();
        self.arena.reset();
        self.reduction = None;
        self.transfers = 0;
        self.fenced = 0;
        self.defect = None;
    }

    /// The steps.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A datatype named by a step.
    #[inline]
    pub fn datatype(&self, index: u32) -> &Rc<Datatype> {
        &self.types[index as usize]
    }

    /// The operation of the reduce steps.
    #[inline]
    pub fn reduction(&self) -> Option<&Reduction> {
        self.reduction.as_ref()
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

    /// Enters a datatype.
    #[inline]
    pub fn shape(&mut self, datatype: &Rc<Datatype>) -> Shape {
        let (size, extent) = (datatype.size(), datatype.extent());
        // Two items are one run of memory, so any number is.
        if let Some(true_lb) = datatype.dense_offset(2) {
            return Shape { datatype: u32::MAX, contiguous: true, size, extent, true_lb, true_extent: extent };
        }
        if !self.types.last().is_some_and(|last| Rc::ptr_eq(last, datatype)) {
            self.types.push(Rc::clone(datatype));
        }
        Shape {
            datatype: self.types.len() as u32 - 1,
            contiguous: false,
            size,
            extent,
            true_lb: datatype.true_lb(),
            true_extent: datatype.true_extent(),
        }
    }

    /// Enters the operation of the reduce steps.
    #[inline]
    pub fn set_reduction(&mut self, op: &Rc<Op>, datatype: &Rc<Datatype>) {
        self.reduction = Some(Reduction { op: Rc::clone(op), datatype: Rc::clone(datatype) });
    }

    /// Whether operands may be exchanged.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        self.reduction.as_ref().is_none_or(|r| r.op.is_commutative())
    }

    /// Temporary memory for `bytes` bytes.
    #[inline]
    pub fn temp_bytes(&mut self, bytes: usize) -> Span {
        Span { ptr: self.arena.take(bytes), count: bytes, shape: BYTES }
    }

    /// Temporary memory for items like those of `span`, for operations.
    #[inline]
    pub fn temp_like(&mut self, span: Span) -> Span {
        let shape = span.shape;
        if span.count == 0 {
            return span;
        }
        let reach = shape.extent * (span.count as isize - 1);
        let start = self.arena.take(reach.unsigned_abs() + shape.true_extent.max(0) as usize);
        // With a negative extent the last item lies lowest.
        Span { ptr: start.wrapping_offset(-shape.true_lb - reach.min(0)), ..span }
    }

    #[inline]
    fn ticket(&mut self) -> Ticket {
        self.transfers += 1;
        Ticket(self.transfers - 1)
    }

    /// Sends `from` to member `to` of `team`.
    #[inline]
    pub fn send(&mut self, team: &Team<'_>, to: usize, from: Span) -> Ticket {
        let len = from.bytes();
        if len == 0 {
            return Ticket::NONE;
        }
        let (peer, via) = (team.peer(to), team.via);
        self.steps.push(if from.shape.contiguous {
            Step::Send { from: from.start(), len, peer, via }
        } else {
            Step::SendItems { from: from.ptr, count: from.count, datatype: from.shape.datatype, peer, via }
        });
        self.ticket()
    }

    /// Receives `into` from member `from` of `team`.
    #[inline]
    pub fn recv(&mut self, team: &Team<'_>, from: usize, into: Span) -> Ticket {
        let len = into.bytes();
        if len == 0 {
            return Ticket::NONE;
        }
        let (peer, via) = (team.peer(from), team.via);
        self.steps.push(if into.shape.contiguous {
            Step::Recv { into: into.start(), len, peer, via }
        } else {
            Step::RecvItems { into: into.ptr, count: into.count, datatype: into.shape.datatype, peer, via }
        });
        self.ticket()
    }

    /// Sends a message without bytes, to be received by [`Program::hear`].
    #[inline]
    pub fn signal(&mut self, team: &Team<'_>, to: usize) -> Ticket {
        self.steps.push(Step::Send { from: std::ptr::null(), len: 0, peer: team.peer(to), via: team.via });
        self.ticket()
    }

    /// Receives a message without bytes.
    #[inline]
    pub fn hear(&mut self, team: &Team<'_>, from: usize) -> Ticket {
        self.steps.push(Step::Recv { into: std::ptr::null_mut(), len: 0, peer: team.peer(from), via: team.via });
        self.ticket()
    }

    /// Waits for one transfer.
    #[inline]
    pub fn wait_for(&mut self, ticket: Ticket) {
        if ticket != Ticket::NONE && ticket.0 >= self.fenced {
            self.steps.push(Step::Await(ticket));
        }
    }

    /// Waits for all transfers so far.
    #[inline]
    pub fn fence(&mut self) {
        if self.fenced != self.transfers {
            self.fenced = self.transfers;
            self.steps.push(Step::Fence);
        }
    }

    /// Copies `from` to `into`, which may have another type but must hold as many bytes.
    #[inline]
    pub fn copy(&mut self, from: Span, into: Span) {
        if from.bytes() > into.bytes() {
            self.defect = Some(Error::new(Class::ERR_TRUNCATE, "a process sends itself more than it receives"));
            return;
        }
        if from.bytes() == 0 || (from.ptr == into.ptr && from.shape == into.shape) {
            return;
        }
        let (from_type, into_type) = (from.shape.datatype, into.shape.datatype);
        self.steps.push(match (from.shape.contiguous, into.shape.contiguous) {
            (true, true) => Step::Move { from: from.start(), into: into.start(), len: from.bytes() },
            (false, true) => Step::Pack { from: from.ptr, count: from.count, datatype: from_type, into: into.start() },
            (true, false) if from.bytes() == into.bytes() => {
                Step::Unpack { from: from.start(), into: into.ptr, count: into.count, datatype: into_type }
            }
            // Fewer bytes than the destination has room for.
            (true, false) => {
                let count = from.bytes() / into.shape.size;
                Step::Unpack { from: from.start(), into: into.ptr, count, datatype: into_type }
            }
            (false, false) => Step::Convert {
                from: from.ptr,
                from_count: from.count,
                from_type,
                into: into.ptr,
                into_count: into.count,
                into_type,
            },
        });
    }

    /// `inout = input op inout`, item by item.
    #[inline]
    pub fn reduce(&mut self, input: Span, inout: Span) {
        if inout.count > 0 {
            self.steps.push(Step::Reduce { input: input.ptr, inout: inout.ptr, count: inout.count });
        }
    }

    /// Bytes of temporary memory.
    #[inline]
    pub fn temp_total(&self) -> usize {
        self.arena.total()
    }

    /// The bytes of `span`: itself if it is contiguous, else temporary memory of that size (with undefined contents).
    #[inline]
    pub fn packed(&mut self, span: Span) -> Span {
        if span.shape.contiguous { span.as_bytes() } else { self.temp_bytes(span.bytes()) }
    }
}
