//! Starts typed transfers on one plane of a message space: what sends, receives and collectives are made of.

use crate::cs::Section;
use crate::datatype::{self, Datatype};
use crate::engine;
use crate::losses;
use crate::p2p::space::Space;
use crate::profile;
use crate::progress;
use crate::sleepers;
use crate::status::{ANY_SOURCE, ANY_TAG, PROC_NULL, Place, Status};
use base::ids::Plane;
use base::{Peer, Result};
use channel::buffer::{Layout, RecvBuf, SendBuf};
use protocol::engine::{Address, Mode};
use protocol::matching::{Envelope, Pattern};
use std::rc::Rc;

pub use crate::transfer::*;

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

/// The items as the channels see them.
///
/// # Safety
/// The items must be readable until the channels are done with the buffer.
#[inline(always)]
pub(crate) unsafe fn source(buf: *const u8, count: usize, datatype: &Rc<Datatype>) -> SendBuf {
    let len = count * datatype.size();
    if datatype.is_contiguous() || len == 0 {
        // SAFETY: `len` bytes at `buf`, by the caller.
        return unsafe { SendBuf::contiguous(buf, len) };
    }
    if let Some(offset) = datatype.dense_offset(count) {
        // SAFETY: the items are the `len` bytes there, by the caller.
        return unsafe { SendBuf::contiguous(buf.wrapping_offset(offset), len) };
    }
    let items = Rc::new(Items { datatype: Rc::clone(datatype), count });
    // SAFETY: the layout reads only the items, by the caller.
    unsafe { SendBuf::spread(buf, len, items) }
}

/// Room for the items as the channels see it.
///
/// # Safety
/// The items must be writable, and nobody else's, until the channels are done with the buffer.
#[inline(always)]
pub(crate) unsafe fn sink(buf: *mut u8, count: usize, datatype: &Rc<Datatype>) -> RecvBuf {
    let len = count * datatype.size();
    if datatype.is_contiguous() || len == 0 {
        // SAFETY: `len` bytes at `buf`, by the caller.
        return unsafe { RecvBuf::contiguous(buf, len) };
    }
    if let Some(offset) = datatype.dense_offset(count) {
        // SAFETY: the items are the `len` bytes there, by the caller.
        return unsafe { RecvBuf::contiguous(buf.wrapping_offset(offset), len) };
    }
    let items = Rc::new(Items { datatype: Rc::clone(datatype), count });
    // SAFETY: the layout writes only the items, by the caller.
    unsafe { RecvBuf::spread(buf, len, items) }
}

#[inline(always)]
fn post_send(cs: &Section, peer: Peer, envelope: Envelope, mode: Mode, source: SendBuf) -> Result<Transfer> {
    let to = Address { peer, envelope };
    engine::with(cs, |engine| {
        if mode == Mode::Standard && engine.send_now(&to, &source) {
            return Ok(Transfer::Sent);
        }
        let bytes = source.len();
        let started = engine.post_send(to, mode, source)?;
        profile::count(cs, envelope.context, peer, bytes);
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
    cs: &Section,
    comm: &Space,
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
    losses::ensure_valid(cs, envelope.context)?;
    // SAFETY: handed on from the caller.
    post_send(cs, comm.peer(dest), envelope, mode, unsafe { source(buf, count, datatype) })
}

/// What a receive from `source` with `tag` on `plane` of `comm` accepts.
#[inline(always)]
pub(super) fn pattern_of(comm: &Space, plane: Plane, source: i32, tag: i32) -> Pattern {
    Pattern {
        context: comm.context.plane(plane),
        source: (source != ANY_SOURCE).then_some(source as u32),
        tag: (tag != ANY_TAG).then_some(tag),
    }
}

/// As [`pattern_of`], and the process that `source` names.
#[inline]
pub fn pattern(comm: &Space, plane: Plane, source: i32, tag: i32) -> (Pattern, Option<Peer>) {
    (pattern_of(comm, plane, source, tag), (source != ANY_SOURCE).then(|| comm.peer(source)))
}

/// Starts a receive of up to `count` items of `datatype` at `buf` from rank `source` of `comm` (or `ANY_SOURCE`,
/// `PROC_NULL`) with `tag` (or `ANY_TAG`).
///
/// # Safety
/// The items must be writable, and nobody else's, until the transfer is complete.
#[inline]
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
pub unsafe fn start_recv(
    cs: &Section,
    comm: &Space,
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
    losses::ensure_valid(cs, pattern.context)?;
    // SAFETY: handed on from the caller.
    let sink = unsafe { sink(buf, count, datatype) };
    Ok(Transfer::Pending(engine::with(cs, |engine| engine.post_recv(pattern, expected, sink))))
}

/// Polls of a blocking receive before it is posted: long enough for an answer that is on its way.
const DIRECT_POLLS: u32 = 256;

/// A blocking receive of a message of the program that comes soon: no operation is made for it. `None`: it has to be posted.
///
/// # Safety
/// The items must be writable and nobody else's.
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
pub unsafe fn receive_soon(
    cs: &Section,
    comm: &Space,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
    source: i32,
    tag: i32,
    status: &mut impl Place,
) -> Option<Result> {
    if progress::has_active(cs) || !datatype.is_contiguous() {
        return None;
    }
    let pattern = pattern_of(comm, Plane::PointToPoint, source, tag);
    // SAFETY: `count` items of a contiguous type, by the caller.
    let sink = unsafe { RecvBuf::contiguous(buf, count * datatype.size()) };
    let polls = if progress::waiting(cs, |waiting| waiting.waiter.oversubscribed()) { 1 } else { DIRECT_POLLS };
    sleepers::happened(cs);
    let completion = engine::with(cs, |engine| engine.receive_soon(&pattern, &sink, polls))?;
    let e = &completion.envelope;
    // The error field is only set by calls that return several statuses (3.2.5).
    status.set(&Status::received(e.source as i32, e.tag, completion.length));
    Some(completion.error.map_or(Ok(()), Err))
}

/// As [`start_send`] for plain bytes to a process, without a communicator; `context` is a [`base::ContextId::plane`],
/// `source` the sender's rank that the receiver expects.
///
/// # Safety
/// As [`start_send`].
pub unsafe fn start_send_bytes(
    cs: &Section,
    peer: Peer,
    context: u64,
    source: u32,
    tag: i32,
    buf: *const u8,
    len: usize,
) -> Result<Transfer> {
    // SAFETY: handed on from the caller.
    let bytes = unsafe { SendBuf::contiguous(buf, len) };
    post_send(cs, peer, Envelope { context, source, tag }, Mode::Standard, bytes)
}

/// As [`start_recv`] for plain bytes from a process.
///
/// # Safety
/// As [`start_recv`].
pub unsafe fn start_recv_bytes(
    cs: &Section,
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
    Ok(Transfer::Pending(engine::with(cs, |engine| engine.post_recv(pattern, Some(peer), sink))))
}

/// Starts the receive of a message that a matched probe took out.
///
/// # Safety
/// As [`start_recv`].
pub unsafe fn start_recv_message(
    cs: &Section,
    message: protocol::engine::MessageId,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
) -> Result<Transfer> {
    // SAFETY: handed on from the caller.
    let sink = unsafe { sink(buf, count, datatype) };
    engine::with(cs, |engine| engine.post_recv_message(message, sink)).map(Transfer::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datatype::Form;

    #[test]
    fn items_that_are_one_run_of_memory_need_no_layout() {
        let place = [0u8; 64].as_ptr();
        let byte = datatype::byte();
        let block = datatype::hindexed(Form::Int, &[8], &[16], byte).expect("valid");
        let sparse = datatype::resized(Form::Int, 0, 32, &block).expect("valid");
        let tight = datatype::resized(Form::Int, 0, 8, &block).expect("valid");
        // SAFETY: only addresses are looked at.
        let begins = |datatype: &Rc<Datatype>, count| unsafe {
            let sent = source(place, count, datatype).as_contiguous(0);
            let received = sink(place.cast_mut(), count, datatype).as_contiguous(0).map(|p| p.cast_const());
            assert_eq!(sent, received);
            sent.map(|p| p as usize - place as usize)
        };
        assert_eq!(begins(byte, 3), Some(0));
        assert_eq!(begins(&block, 1), Some(16));
        assert_eq!(begins(&sparse, 2), None);
        assert_eq!(begins(&tight, 3), Some(16));
    }
}
