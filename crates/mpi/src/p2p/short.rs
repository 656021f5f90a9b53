//! The short path of small messages: what can be done at once, straight on and in registers (docs/design/0002).
//!
//! A short call does all that the general one would do, or nothing: then the general one follows, with its checks, errors and
//! waiting. It makes no operation for what ends at once, takes no lock (with several threads nothing is short), runs no callback.

use super::transfer::{self, Transfer};
use crate::cs::Section;
use crate::datatype::Datatype;
use crate::engine;
use crate::handle::Handle;
use crate::p2p::space::Space;
use crate::progress;
use crate::request;
use crate::status::{ANY_SOURCE, ANY_TAG, Status};
use base::Peer;
use base::ids::Plane;
use channel::buffer::{RecvBuf, SendBuf};
use protocol::engine::Address;
use protocol::matching::{Envelope, Pattern};

/// Addresses up to this one are `MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_BUFFER_AUTOMATIC`, not buffers.
pub const LAST_SPECIAL: usize = 2;

/// The bytes of `count` items in a buffer at `address`, if their type, a predefined one, is contiguous.
#[inline(always)]
pub fn bytes(address: usize, count: i64, datatype: &Datatype) -> Option<usize> {
    if address <= LAST_SPECIAL || count < 0 || !datatype.is_contiguous() {
        return None;
    }
    // Signed, because that takes fewer instructions.
    count.checked_mul(datatype.size() as i64).map(|bytes| bytes as usize)
}

/// Sends `len` bytes in standard mode. True if they have left.
///
/// # Safety
/// The bytes must be readable.
#[inline(always)]
pub unsafe fn send(cs: &Section, comm: &Space, buf: *const u8, len: usize, dest: i32, tag: i32) -> bool {
    let Some(peer) = comm.direct().get(dest) else { return false };
    let context = comm.context.plane(Plane::PointToPoint);
    let to = Address { peer, envelope: Envelope { context, source: comm.rank as u32, tag } };
    // SAFETY: the bytes by the caller, and nothing is kept; nothing else uses the engine.
    let (source, engine) = unsafe { (SendBuf::contiguous(buf, len), engine::borrow(cs)) };
    tag >= 0 && engine.send_now(&to, &source)
}

/// The process that `source` names; `None` for any. An error for what else isn't a rank, `MPI_PROC_NULL` too, and for a wrong tag.
#[inline(always)]
fn sender(comm: &Space, source: i32, tag: i32) -> Result<Option<Peer>, ()> {
    match comm.direct().get(source) {
        _ if tag < 0 && tag != ANY_TAG => Err(()),
        None if source != ANY_SOURCE || comm.is_revoked() => Err(()),
        peer => Ok(peer),
    }
}

/// Receives up to `len` bytes if the message lies there and is next.
///
/// # Safety
/// The bytes must be writable and nobody else's.
#[inline(always)]
pub unsafe fn receive(cs: &Section, comm: &Space, buf: *mut u8, len: usize, source: i32, tag: i32) -> Option<Status> {
    if progress::has_active(cs) {
        return None;
    }
    sender(comm, source, tag).ok()?;
    let pattern = transfer::pattern_of(comm, Plane::PointToPoint, source, tag);
    // SAFETY: as for `send`.
    let (sink, engine) = unsafe { (RecvBuf::contiguous(buf, len), engine::borrow(cs)) };
    let found = engine.receive_now(&pattern, &sink)?;
    Some(Status::received(found.envelope.source as i32, found.envelope.tag, found.length))
}

/// Starts a receive of up to `len` bytes.
///
/// # Safety
/// The bytes must be writable, and nobody else's, until the request is complete.
#[inline(always)]
pub unsafe fn irecv(cs: &Section, comm: &Space, buf: *mut u8, len: usize, source: i32, tag: i32) -> Option<Handle> {
    if !request::has_room(cs) {
        return None;
    }
    // SAFETY: the bytes by the caller; nothing else uses the engine.
    let (sink, engine) = unsafe { (RecvBuf::contiguous(buf, len), engine::borrow(cs)) };
    let op = match comm.direct().get(source) {
        // Known to have no wildcard, its pattern needs no look at what it has.
        Some(peer) if tag >= 0 => {
            let context = comm.context.plane(Plane::PointToPoint);
            engine.post_recv(Pattern { context, source: Some(source as u32), tag: Some(tag) }, Some(peer), sink)
        }
        _ => {
            let expected = sender(comm, source, tag).ok()?;
            engine.post_recv_with_wildcards(
                transfer::pattern_of(comm, Plane::PointToPoint, source, tag),
                expected,
                sink,
            )
        }
    };
    Some(request::enter_transfer(cs, Transfer::Pending(op), &comm.owner))
}
