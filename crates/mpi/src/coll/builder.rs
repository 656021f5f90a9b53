//! Writes the [`Schedule`] of one process: what the algorithms call.
//!
//! A builder knows ranks, not communicators, so the same algorithms run under the simulator of the tests. It owns what the schedule
//! names: temporary memory and objects.

use super::arena::Arena;
use super::objects::Objects;
use super::schedule::{Schedule, Step, Ticket};
use super::span::{BYTES, Shape, Span};
use super::team::Team;
use crate::datatype::Datatype;
use crate::op::Op;
use base::{Class, Error};
use std::rc::Rc;

/// See the head of this file.
#[derive(Default)]
pub struct Builder {
    schedule: Schedule,
    objects: Objects,
    arena: Arena,
    /// Transfers that a fence has waited for.
    fenced: u32,
    /// Memory for algorithms that keep lists.
    scratch: Vec<(Span, Ticket)>,
}

impl Builder {
    /// An empty list whose memory is reused when it is given back.
    #[inline]
    pub fn lend(&mut self) -> Vec<(Span, Ticket)> {
        std::mem::take(&mut self.scratch)
    }

    /// See [`Builder::lend`].
    #[inline]
    pub fn give_back(&mut self, mut list: Vec<(Span, Ticket)>) {
        list.clear();
        self.scratch = list;
    }

    /// Back to an empty schedule; memory is kept.
    #[inline]
    pub fn reset(&mut self) {
        self.schedule.reset();
        self.objects.clear();
        self.arena.reset();
        self.fenced = 0;
    }

    /// What has been written so far.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The objects that the schedule names.
    #[inline]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Enters a datatype.
    #[inline]
    pub fn shape(&mut self, datatype: &Rc<Datatype>) -> Shape {
        let (size, extent) = (datatype.size(), datatype.extent());
        // Two items are one run of memory, so any number is.
        if let Some(true_lb) = datatype.dense_offset(2) {
            return Shape { datatype: u32::MAX, contiguous: true, size, extent, true_lb, true_extent: extent };
        }
        Shape {
            datatype: self.objects.enter(datatype),
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
        self.objects.set_reduction(op, datatype);
    }

    /// Whether operands may be exchanged.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        self.objects.reduction().is_none_or(|r| r.op.is_commutative())
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
        self.schedule.transfers += 1;
        Ticket(self.schedule.transfers - 1)
    }

    /// Sends `from` to member `to` of `team`.
    #[inline]
    pub fn send(&mut self, team: &Team<'_>, to: usize, from: Span) -> Ticket {
        let len = from.bytes();
        if len == 0 {
            return Ticket::NONE;
        }
        let (peer, via) = (team.peer(to), team.via);
        self.schedule.steps.push(if from.shape.contiguous {
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
        self.schedule.steps.push(if into.shape.contiguous {
            Step::Recv { into: into.start(), len, peer, via }
        } else {
            Step::RecvItems { into: into.ptr, count: into.count, datatype: into.shape.datatype, peer, via }
        });
        self.ticket()
    }

    /// Sends a message without bytes, to be received by [`Builder::recv_empty`].
    #[inline]
    pub fn send_empty(&mut self, team: &Team<'_>, to: usize) -> Ticket {
        self.schedule.steps.push(Step::Send { from: std::ptr::null(), len: 0, peer: team.peer(to), via: team.via });
        self.ticket()
    }

    /// Receives a message without bytes.
    #[inline]
    pub fn recv_empty(&mut self, team: &Team<'_>, from: usize) -> Ticket {
        self.schedule.steps.push(Step::Recv {
            into: std::ptr::null_mut(),
            len: 0,
            peer: team.peer(from),
            via: team.via,
        });
        self.ticket()
    }

    /// Waits for one transfer.
    #[inline]
    pub fn wait_for(&mut self, ticket: Ticket) {
        if ticket != Ticket::NONE && ticket.0 >= self.fenced {
            self.schedule.steps.push(Step::Await(ticket));
        }
    }

    /// Waits for all transfers so far.
    #[inline]
    pub fn fence(&mut self) {
        if self.fenced != self.schedule.transfers {
            self.fenced = self.schedule.transfers;
            self.schedule.steps.push(Step::Fence);
        }
    }

    /// Copies `from` to `into`, which may have another type but must hold as many bytes.
    #[inline]
    pub fn copy(&mut self, from: Span, into: Span) {
        if from.bytes() > into.bytes() {
            self.schedule.defect =
                Some(Error::new(Class::ERR_TRUNCATE, "a process sends itself more than it receives"));
            return;
        }
        if from.bytes() == 0 || (from.ptr == into.ptr && from.shape == into.shape) {
            return;
        }
        let (from_type, into_type) = (from.shape.datatype, into.shape.datatype);
        self.schedule.steps.push(match (from.shape.contiguous, into.shape.contiguous) {
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
            self.schedule.steps.push(Step::Reduce { input: input.ptr, inout: inout.ptr, count: inout.count });
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
