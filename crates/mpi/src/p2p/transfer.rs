//! Typed transfers on one plane of a communicator: what sends, receives and collectives are made of.

use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::status::Status;
use base::ids::Plane;
use base::{Peer, Result};
use protocol::engine::{Mode, OpId};
use std::rc::Rc;

/// A transfer that has been started: it is complete already, or known to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// A send that has left, or any transfer with `MPI_PROC_NULL` (whose status is [`Status::PROC_NULL`]).
    Done,
    /// To be finished by [`test`] or [`wait`] exactly once.
    Pending(OpId),
}

/// Starts a send of `count` items of `datatype` at `buf` to rank `dest` of `comm` (or `PROC_NULL`).
///
/// # Safety
/// The items must be readable until the transfer is complete.
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
    todo!()
}

/// Starts a receive of up to `count` items of `datatype` at `buf` from rank `source` of `comm` (or `ANY_SOURCE`, `PROC_NULL`)
/// with `tag` (or `ANY_TAG`).
///
/// # Safety
/// The items must be writable, and nobody else's, until the transfer is complete.
pub unsafe fn start_recv(
    comm: &Comm,
    plane: Plane,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
    source: i32,
    tag: i32,
) -> Result<Transfer> {
    todo!()
}

/// As [`start_send`] for plain bytes to a process, without a communicator; `context` is a [`base::ContextId::plane`],
/// `source` the sender's rank that the receiver expects.
///
/// # Safety
/// As [`start_send`].
pub unsafe fn start_send_bytes(peer: Peer, context: u64, source: u32, tag: i32, buf: *const u8, len: usize) -> Result<Transfer> {
    todo!()
}

/// As [`start_recv`] for plain bytes from a process.
///
/// # Safety
/// As [`start_recv`].
pub unsafe fn start_recv_bytes(peer: Peer, context: u64, source: u32, tag: i32, buf: *mut u8, len: usize) -> Result<Transfer> {
    todo!()
}

/// `None` while the transfer is under way. Makes no progress by itself. After `Some` the transfer is forgotten.
pub fn test(transfer: Transfer) -> Option<Result<Status>> {
    todo!()
}

/// Polls and sleeps until the transfer is complete.
pub fn wait(transfer: Transfer) -> Result<Status> {
    todo!()
}
