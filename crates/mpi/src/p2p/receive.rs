//! Blocking and non-blocking receives (MPI-5.0, 3.2.4, 3.7.2, 3.8.3).

use super::probe::{MESSAGES, Message};
use super::transfer::{self, Transfer, start_recv, start_recv_message};
use crate::cs::Section;
use crate::datatype::Datatype;
use crate::engine;
use crate::handle::Handle;
use crate::losses;
use crate::owner::Owner;
use crate::p2p::space::Space;
use crate::progress::{self, Awaited};
use crate::request::{self, Request};
use crate::status::{PROC_NULL, Place};
use base::ids::Plane;
use base::{Class, Error, Result};
use std::rc::Rc;

/// What every receive says.
#[derive(Clone)]
pub struct Incoming<'a> {
    /// Where the first item goes.
    pub buf: *mut u8,
    /// Room for this many items.
    pub count: usize,
    /// Type of the items.
    pub datatype: &'a Rc<Datatype>,
    /// Rank of the sender, `ANY_SOURCE` or `PROC_NULL`.
    pub source: i32,
    /// Tag or `ANY_TAG`.
    pub tag: i32,
    /// Communicator.
    pub comm: &'a Space,
}

/// Starts a receive.
///
/// # Safety
/// The items must be writable, and nobody else's, until the transfer is complete.
#[inline]
pub unsafe fn start(cs: &Section, m: &Incoming<'_>) -> Result<Transfer> {
    // SAFETY: handed on from the caller.
    unsafe { start_recv(cs, m.comm, Plane::PointToPoint, m.buf, m.count, m.datatype, m.source, m.tag) }
}

/// Finishes a blocking receive; the status is known even when the message was truncated.
#[inline]
fn finish(cs: &mut Section, transfer: Transfer, status: &mut impl Place) -> Result {
    if let Transfer::Pending(op) = transfer {
        progress::wait_for(cs, Awaited::One(op), |cs| engine::with(cs, |engine| engine.is_complete(op)));
    }
    let (result, found) = transfer::test_with_status(cs, transfer).expect("the receive is complete");
    // The error field is only set by calls that return several statuses (3.2.5).
    status.set(&found);
    result
}

/// `MPI_Recv`.
///
/// # Safety
/// The items must be writable and nobody else's.
pub unsafe fn recv(cs: &mut Section, m: &Incoming<'_>, status: &mut impl Place) -> Result {
    // SAFETY: complete, or waited for, when this returns.
    unsafe {
        if m.source != PROC_NULL
            && !losses::is_revoked(cs, m.comm.context.0)
            && let Some(result) =
                transfer::receive_soon(cs, m.comm, m.buf, m.count, m.datatype, m.source, m.tag, status)
        {
            return result;
        }
        finish(cs, start(cs, m)?, status)
    }
}

/// `MPI_Irecv`.
///
/// # Safety
/// The items must be writable, and nobody else's, until the request is complete.
#[inline]
pub unsafe fn irecv(cs: &Section, m: &Incoming<'_>) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    let transfer = unsafe { start(cs, m) }?;
    Ok(request::enter_transfer(cs, transfer, &m.comm.owner))
}

/// The transfer that receives a message found by a matched probe, and its communicator (none for `MPI_MESSAGE_NO_PROC`).
///
/// # Safety
/// As [`start`].
unsafe fn start_message(
    cs: &Section,
    message: Handle,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
) -> Result<(Transfer, Option<Rc<Owner>>)> {
    if message == Handle::MESSAGE_NO_PROC {
        return Ok((Transfer::Null, None));
    }
    let Some(Message { id, owner }) = MESSAGES.get(cs).remove(message) else {
        return Err(Error::new(Class::ERR_REQUEST, "not the handle of a probed message"));
    };
    // SAFETY: handed on from the caller.
    Ok((unsafe { start_recv_message(cs, id, buf, count, datatype) }?, Some(owner)))
}

/// `MPI_Mrecv`.
///
/// # Safety
/// The items must be writable and nobody else's.
pub unsafe fn mrecv(
    cs: &mut Section,
    message: Handle,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
    status: &mut impl Place,
) -> Result {
    // SAFETY: waited for at once.
    let (transfer, owner) = unsafe { start_message(cs, message, buf, count, datatype) }?;
    finish(cs, transfer, status).inspect_err(|_| request::set_error_comm(cs, owner))
}

/// `MPI_Imrecv`.
///
/// # Safety
/// The items must be writable, and nobody else's, until the request is complete.
pub unsafe fn imrecv(
    cs: &Section,
    message: Handle,
    buf: *mut u8,
    count: usize,
    datatype: &Rc<Datatype>,
) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    let (transfer, owner) = unsafe { start_message(cs, message, buf, count, datatype) }?;
    Ok(request::enter(cs, Request::Transfer { transfer, owner }))
}
