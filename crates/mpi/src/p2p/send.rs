//! Blocking and non-blocking sends (MPI-5.0, 3.2.1, 3.4, 3.7.2).

use super::buffered;
use super::transfer::{Transfer, start_send, wait};
use crate::cs::Section;
use crate::datatype::Datatype;
use crate::handle::Handle;
use crate::p2p::space::Space;
use crate::request;
use base::Result;
use base::ids::Plane;
use protocol::engine::Mode;
use std::rc::Rc;

/// The send modes of the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendMode {
    /// `MPI_Send`.
    Standard,
    /// `MPI_Ssend`.
    Synchronous,
    /// `MPI_Rsend`: a matching receive is posted, so the standard mode is right.
    Ready,
    /// `MPI_Bsend`.
    Buffered,
}

/// What every send says.
#[derive(Clone)]
pub struct Outgoing<'a> {
    /// First item.
    pub buf: *const u8,
    /// Number of items.
    pub count: usize,
    /// Type of the items.
    pub datatype: &'a Rc<Datatype>,
    /// Rank of the receiver or `PROC_NULL`.
    pub dest: i32,
    /// Tag.
    pub tag: i32,
    /// Communicator.
    pub comm: &'a Space,
}

/// Starts a send in any mode.
///
/// # Safety
/// The items must be readable until the transfer is complete.
#[inline(always)]
pub unsafe fn start(cs: &mut Section, mode: SendMode, m: &Outgoing<'_>) -> Result<Transfer> {
    let mode = match mode {
        SendMode::Standard | SendMode::Ready => Mode::Standard,
        SendMode::Synchronous => Mode::Synchronous,
        // SAFETY: handed on from the caller.
        SendMode::Buffered => return unsafe { buffered::start(cs, m) },
    };
    // SAFETY: handed on from the caller.
    unsafe { start_send(cs, m.comm, Plane::PointToPoint, mode, m.buf, m.count, m.datatype, m.dest, m.tag) }
}

/// `MPI_Send`, `MPI_Ssend`, `MPI_Rsend`, `MPI_Bsend`.
///
/// # Safety
/// The items must be readable.
#[inline(always)]
pub unsafe fn send(cs: &mut Section, mode: SendMode, m: &Outgoing<'_>) -> Result {
    // SAFETY: waited for below.
    let transfer = unsafe { start(cs, mode, m) }?;
    match transfer {
        Transfer::Sent | Transfer::Null => Ok(()),
        Transfer::Pending(_) => wait(cs, transfer).map(drop),
    }
}

/// `MPI_Isend` and its modes.
///
/// # Safety
/// The items must be readable until the request is complete.
#[inline]
pub unsafe fn isend(cs: &mut Section, mode: SendMode, m: &Outgoing<'_>) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    let transfer = unsafe { start(cs, mode, m) }?;
    Ok(request::enter_transfer(cs, transfer, &m.comm.owner))
}
