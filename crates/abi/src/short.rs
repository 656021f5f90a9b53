//! The commonest functions on their short path ([`mpi::p2p::short`]): arguments that need no more than a look at them.
//!
//! True: the call is done and has succeeded. False: nothing has happened, and the general function follows.

use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::ctypes::{CComm, CRequest, CType};
use crate::kinds::{Width, unless_ignored};
use crate::lookup;
use crate::status::CStatus;
use core::ffi::{c_int, c_void};
use mpi::comm::Comm;
use mpi::cs::Section;
use mpi::p2p::short;
use mpi::request;
use mpi::status::Place;
use std::rc::Rc;

/// The communicator and the length of the buffer, if the arguments are plain.
///
/// # Safety
/// As [`lookup::borrow_comm`].
#[inline(always)]
unsafe fn plain(
    cs: &Section,
    buf: *const c_void,
    count: impl Into<i64>,
    datatype: CType,
    comm: CComm,
) -> Option<(&Rc<Comm>, usize)> {
    let len = short::bytes(Chosen::address(buf.addr()), count.into(), lookup::named_type(datatype)?)?;
    // SAFETY: by the caller.
    Some((unsafe { lookup::borrow_comm(cs, comm) }?, len))
}

/// `MPI_Send`.
#[inline(always)]
pub fn send<W: Width>(
    cs: &Section,
    buf: *const c_void,
    count: W::Int,
    datatype: CType,
    dest: c_int,
    tag: c_int,
    comm: CComm,
) -> bool {
    // SAFETY: nothing but the engine is used meanwhile, and the program passed a buffer of so many items.
    unsafe {
        match plain(cs, buf, count, datatype, comm) {
            Some((comm, len)) => short::send(cs, comm, buf.cast(), len, Chosen::rank(dest), tag),
            None => false,
        }
    }
}

/// `MPI_Isend`.
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
#[inline(always)]
pub fn isend<W: Width>(
    cs: &Section,
    buf: *const c_void,
    count: W::Int,
    datatype: CType,
    dest: c_int,
    tag: c_int,
    comm: CComm,
    request: *mut CRequest,
) -> bool {
    let sent = !request.is_null() && send::<W>(cs, buf, count, datatype, dest, tag, comm);
    if sent {
        // SAFETY: not null, and the program passed it for the result.
        unsafe { *request = CRequest(Chosen::encode(request::sent(cs))) };
    }
    sent
}

/// `MPI_Recv`.
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
#[inline(always)]
pub fn recv<W: Width>(
    cs: &Section,
    buf: *mut c_void,
    count: W::Int,
    datatype: CType,
    source: c_int,
    tag: c_int,
    comm: CComm,
    status: *mut CStatus,
) -> bool {
    // SAFETY: as for `send`; the status is null, or the program passed it for the result.
    unsafe {
        let Some((comm, len)) = plain(cs, buf, count, datatype, comm) else { return false };
        let Some(found) = short::receive(cs, comm, buf.cast(), len, Chosen::rank(source), Chosen::tag(tag)) else {
            return false;
        };
        if let Some(status) = unless_ignored(status).as_mut() {
            status.set(&found);
        }
    }
    true
}

/// `MPI_Irecv`.
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
#[inline(always)]
pub fn irecv<W: Width>(
    cs: &Section,
    buf: *mut c_void,
    count: W::Int,
    datatype: CType,
    source: c_int,
    tag: c_int,
    comm: CComm,
    request: *mut CRequest,
) -> bool {
    if request.is_null() {
        return false;
    }
    // SAFETY: as for `send`, and the program leaves the buffer to the request; its place isn't null.
    unsafe {
        let Some((comm, len)) = plain(cs, buf, count, datatype, comm) else { return false };
        let Some(handle) = short::irecv(cs, comm, buf.cast(), len, Chosen::rank(source), Chosen::tag(tag)) else {
            return false;
        };
        *request = CRequest(Chosen::encode(handle));
    }
    true
}
