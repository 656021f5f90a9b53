//! Typed transfers on one plane of a communicator: what sends, receives and collectives are made of.

use crate::comm::Comm;
use crate::datatype::{self, Datatype};
use crate::progress;
use crate::runtime::rt;
use crate::status::{ANY_SOURCE, ANY_TAG, PROC_NULL, Status};
use crate::waits::Awaited;
use base::ids::Plane;
use base::{Peer, Result};
use channel::buffer::{Layout, RecvBuf, SendBuf};
use protocol::engine::{Address, Completion, Mode, OpId};
use protocol::matching::{Envelope, Pattern};
use std::rc::Rc;

/// A transfer that has been started: it is complete already, or known to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// A send that has left; its status is [`Status::EMPTY`].
    Sent,
    /// Any transfer with `MPI_PROC_NULL`; its status is [`Status::PROC_NULL`].
    Null,
    /// To be finished by [`test`] or [`wait`] exactly once.
    Pending(OpId),
}

/// Where the items of a message lie, for the channels.
#[derive(Debug)]
struct Items {
    datatype: Rc<Datatype>,
    count: usize,
}

// SAFETY: `datatype::pack` and `unpack` touch only the items that the callers of `source` and `sink` vouch for.
unsafe impl Layout for Items {
    unsafe fn pack(&self, base: *const u8, from: usize, to: *mut u8, len: usize) {
        // SAFETY: handed on from the caller.
        unsafe { datatype::pack(&self.datatype, base, self.count, from, to, len) }
    }

    unsafe fn unpack(&self, base: *mut u8, at: usize, from: *const u8, len: usize) {
        // SAFETY: handed on from the caller.
        unsafe { datatype::unpack(&self.datatype, base, self.count, at, from, len) }
    }
}

/// # Safety
/// The items must be readable until the channels are done with the buffer.
#[inline(always)]
unsafe fn source(buf: *const u8, count: usize, datatype: &Rc<Datatype>) -> SendBuf {
    let len = count * datatype.size();
    if datatype.is_contiguous() || len == 0 {
        // SAFETY: `len` bytes at `buf`, by the caller.
        return unsafe { SendBuf::contiguous(buf, len) };
    }
    let items = Rc::new(Items { datatype: Rc::clone(datatype), count });
    // SAFETY: the layout reads only the items, by the caller.
    unsafe { SendBuf::spread(buf, len, items) }
}

/// # Safety
/// The items must be writable, and nobody else's, until the channels are done with the buffer.
#[inline(always)]
unsafe fn sink(buf: *mut u8, count: usize, datatype: &Rc<Datatype>) -> RecvBuf {
    let len = count * datatype.size();
    if datatype.is_contiguous() || len == 0 {
        // SAFETY: `len` bytes at `buf`, by the caller.
        return unsafe { RecvBuf::contiguous(buf, len) };
    }
    let items = Rc::new(Items { datatype: Rc::clone(datatype), count });
    // SAFETY: the layout writes only the items, by the caller.
    unsafe { RecvBuf::spread(buf, len, items) }
}

#[inline(always)]
fn post_send(peer: Peer, envelope: Envelope, mode: Mode, source: SendBuf) -> Result<Transfer> {
    let to = Address { peer, envelope };
    rt().engine.with(|engine| {
        if mode == Mode::Standard && engine.send_now(&to, &source) {
            return Ok(Transfer::Sent);
        }
        let bytes = source.len();
        let started = engine.post_send(to, mode, source)?;
        rt().profile.borrow().count(envelope.context, rt().call.get(), peer, bytes);
        Ok(started.map_or(Transfer::Sent, Transfer::Pending))
    })
}

/// Starts a send of `count` items of `datatype` at `buf` to rank `dest` of `comm` (or `PROC_NULL`).
///
/// # Safety
/// The items must be readable until the transfer is complete.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
pub unsafe fn start_send(
    comm: &Comm,
    plane: Plane,
    mode: Mode,
    buf: *const u8,
    count: usize,
    datatype: &Rc<Datatype>,
    dest: i32,
    tag: i32,
) -> Result<Transfer> {
    if dest == PROC_NULL {
        return Ok(Transfer::Null);
    }
    let envelope = Envelope { context: comm.context.plane(plane), source: comm.rank as u32, tag };
    // SAFETY: handed on from the caller.
    post_send(comm.peer(dest), envelope, mode, unsafe { source(buf, count, datatype) })
}

/// What a receive from `source` with `tag` on `plane` of `comm` accepts.
#[inline(always)]
pub(super) fn pattern_of(comm: &Comm, plane: Plane, source: i32, tag: i32) -> Pattern {
    Pattern {
        context: comm.context.plane(plane),
        source: (source != ANY_SOURCE).then_some(source as u32),
        tag: (tag != ANY_TAG).then_some(tag),
    }
}

/// As [`pattern_of`], and the process that `source` names.
#[inline]
pub fn pattern(comm: &Comm, plane: Plane, source: i32, tag: i32) -> (Pattern, Option<Peer>) {
    (pattern_of(comm, plane, source, tag), (source != ANY_SOURCE).then(|| comm.peer(source)))
}

/// Starts a receive of up to `count` items of `datatype` at `buf` from rank `source` of `comm` (or `ANY_SOURCE`,
/// `PROC_NULL`) with `tag` (or `ANY_TAG`).
///
/// # Safety
/// The items must be writable, and nobody else's, until the transfer is complete.
#[inline]
pub unsafe fn start_recv(
    comm: &Comm,
    plane: Plane,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
    source: i32,
    tag: i32,
) -> Result<Transfer> {
    if source == PROC_NULL {
        return Ok(Transfer::Null);
    }
    let (pattern, expected) = pattern(comm, plane, source, tag);
    // SAFETY: handed on from the caller.
    let sink = unsafe { sink(buf, count, datatype) };
    Ok(Transfer::Pending(rt().engine.with(|engine| engine.post_recv(pattern, expected, sink))))
}

/// Polls of a blocking receive before it is posted: long enough for an answer that is on its way.
const DIRECT_POLLS: u32 = 256;

/// A blocking receive of a message of the program that comes soon: no operation is made for it. `None`: it has to be posted.
///
/// # Safety
/// The items must be writable and nobody else's.
pub unsafe fn receive_soon(
    comm: &Comm,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
    source: i32,
    tag: i32,
    status: &mut Status,
) -> Option<Result> {
    if rt().has_active() || !datatype.is_contiguous() {
        return None;
    }
    let pattern = pattern_of(comm, Plane::PointToPoint, source, tag);
    // SAFETY: `count` items of a contiguous type, by the caller.
    let sink = unsafe { RecvBuf::contiguous(buf, count * datatype.size()) };
    let polls = if rt().waiting(|waiting| waiting.waiter.yields_early()) { 1 } else { DIRECT_POLLS };
    let completion = rt().engine.with(|engine| engine.receive_soon(&pattern, &sink, polls))?;
    let e = &completion.envelope;
    // The error field is only set by calls that return several statuses (3.2.5).
    *status = Status { error: status.error, ..Status::received(e.source as i32, e.tag, completion.length) };
    Some(completion.error.map_or(Ok(()), Err))
}

/// As [`start_send`] for plain bytes to a process, without a communicator; `context` is a [`base::ContextId::plane`],
/// `source` the sender's rank that the receiver expects.
///
/// # Safety
/// As [`start_send`].
pub unsafe fn start_send_bytes(
    peer: Peer,
    context: u64,
    source: u32,
    tag: i32,
    buf: *const u8,
    len: usize,
) -> Result<Transfer> {
    // SAFETY: handed on from the caller.
    let bytes = unsafe { SendBuf::contiguous(buf, len) };
    post_send(peer, Envelope { context, source, tag }, Mode::Standard, bytes)
}

/// As [`start_recv`] for plain bytes from a process.
///
/// # Safety
/// As [`start_recv`].
pub unsafe fn start_recv_bytes(
    peer: Peer,
    context: u64,
    source: u32,
    tag: i32,
    buf: *mut u8,
    len: usize,
) -> Result<Transfer> {
    let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
    // SAFETY: handed on from the caller.
    let sink = unsafe { RecvBuf::contiguous(buf, len) };
    Ok(Transfer::Pending(rt().engine.with(|engine| engine.post_recv(pattern, Some(peer), sink))))
}

/// Starts the receive of a message that a matched probe took out.
///
/// # Safety
/// As [`start_recv`].
pub unsafe fn start_recv_message(
    message: protocol::engine::MessageId,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
) -> Result<Transfer> {
    // SAFETY: handed on from the caller.
    let sink = unsafe { sink(buf, count, datatype) };
    rt().engine.with(|engine| engine.post_recv_message(message, sink)).map(Transfer::Pending)
}

#[inline(always)]
fn status_of(op: OpId, completion: &Completion) -> Result<Status> {
    if let Some(error) = completion.error {
        return Err(error);
    }
    if op.is_send() {
        let mut status = Status::EMPTY;
        status.set_cancelled(completion.cancelled);
        return Ok(status);
    }
    let e = &completion.envelope;
    let mut status = Status::received(e.source as i32, e.tag, completion.length);
    if completion.cancelled {
        status.set_cancelled(true);
    }
    Ok(status)
}

/// The status that goes with a failed receive: the bytes that did arrive.
fn status_of_failure(completion: &Completion) -> Status {
    let e = &completion.envelope;
    let mut status = Status::received(e.source as i32, e.tag, completion.length);
    status.error = completion.error.map_or(0, |e| e.class.0);
    status
}

/// Whether [`test`] would answer. Makes no progress.
#[inline]
pub fn is_complete(transfer: Transfer) -> bool {
    match transfer {
        Transfer::Sent | Transfer::Null => true,
        Transfer::Pending(op) => rt().engine.with(|engine| engine.is_complete(op)),
    }
}

/// `None` while the transfer is under way. Makes no progress by itself. After `Some` the transfer is forgotten.
#[inline]
pub fn test(transfer: Transfer) -> Option<Result<Status>> {
    match transfer {
        Transfer::Sent => Some(Ok(Status::EMPTY)),
        Transfer::Null => Some(Ok(Status::PROC_NULL)),
        Transfer::Pending(op) => {
            let completion = rt().engine.with(|engine| engine.take(op))?;
            Some(status_of(op, &completion))
        }
    }
}

/// As [`test`], but a failure comes with the status as far as it is known (`MPI_ERR_TRUNCATE` tells source and tag).
#[inline(always)]
pub fn test_with_status(transfer: Transfer) -> Option<(Result, Status)> {
    match transfer {
        Transfer::Sent => Some((Ok(()), Status::EMPTY)),
        Transfer::Null => Some((Ok(()), Status::PROC_NULL)),
        Transfer::Pending(op) => {
            let completion = rt().engine.with(|engine| engine.take(op))?;
            Some(match status_of(op, &completion) {
                Ok(status) => (Ok(()), status),
                Err(error) => (Err(error), status_of_failure(&completion)),
            })
        }
    }
}

/// The status of a complete transfer, which is not forgotten.
pub fn peek(transfer: Transfer) -> Status {
    match transfer {
        Transfer::Sent => Status::EMPTY,
        Transfer::Null => Status::PROC_NULL,
        Transfer::Pending(op) => match rt().engine.with(|engine| engine.outcome(op)) {
            Some(completion) => status_of(op, &completion).unwrap_or_else(|_| status_of_failure(&completion)),
            None => Status::EMPTY,
        },
    }
}

/// Polls and sleeps until the transfer is complete.
#[inline]
pub fn wait(transfer: Transfer) -> Result<Status> {
    if let Transfer::Pending(op) = transfer {
        progress::wait_for(Awaited::One(transfer), || rt().engine.with(|engine| engine.is_complete(op)));
    }
    test(transfer).expect("a transfer that was waited for is complete")
}

/// As [`wait`], but returns early when more processes than `losses` are lost; the outcome is not taken.
#[inline]
pub fn wait_unless_lost(transfer: Transfer, losses: usize) {
    if let Transfer::Pending(op) = transfer {
        progress::wait_for(Awaited::One(transfer), || {
            rt().engine.with(|engine| engine.is_complete(op) || engine.losses() != losses)
        });
    }
}

/// Cancels a receive that no message has matched, and forgets it. False if that can't be done any more.
pub fn cancel(transfer: Transfer) -> bool {
    let Transfer::Pending(op) = transfer else { return false };
    rt().engine.with(|engine| engine.cancel(op) && engine.take(op).is_some())
}

/// Gives a transfer up, because a process on which it may depend is lost. True if it needs no more waiting; a large message that is
/// sent must be waited for until its receiver has agreed.
pub fn give_up(transfer: Transfer) -> bool {
    let Transfer::Pending(op) = transfer else { return false };
    if op.is_send() {
        rt().engine.with(|engine| {
            engine.withdraw(op);
            engine.take(op).is_some()
        })
    } else {
        cancel(transfer)
    }
}

/// Lets a transfer end by itself: its request was freed.
pub fn detach(transfer: Transfer) {
    struct Detached(OpId);
    impl progress::Active for Detached {
        fn advance(&self) -> bool {
            rt().engine.with(|engine| engine.take(self.0)).is_some()
        }
    }
    if let Transfer::Pending(op) = transfer {
        progress::activate(Rc::new(Detached(op)));
    }
}
