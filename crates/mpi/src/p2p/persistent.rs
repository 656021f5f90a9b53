//! Persistent sends and receives (MPI-5.0, 3.9).

use super::receive::{self, Incoming};
use super::send::{self, Outgoing, SendMode};
use super::transfer::Transfer;
use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::handle::Handle;
use crate::request::{self, Request};
use base::{Result, ensure};
use std::cell::Cell;
use std::rc::Rc;

#[derive(Clone, Copy)]
enum Direction {
    Send(SendMode),
    Receive,
}

/// The arguments of a persistent operation, and its transfer while it is active.
pub struct Persistent {
    direction: Direction,
    buf: *mut u8,
    count: usize,
    datatype: Rc<Datatype>,
    /// Destination or source.
    rank: i32,
    tag: i32,
    /// Communicator.
    pub comm: Rc<Comm>,
    /// The transfer of the current activation.
    pub transfer: Cell<Option<Transfer>>,
}

impl Persistent {
    /// `MPI_Start`. A buffered send may make progress and let other threads in, so no table is borrowed meanwhile.
    pub fn start(&self) -> Result {
        ensure!(self.transfer.get().is_none(), ERR_REQUEST, "the persistent request is active already");
        let Persistent { buf, count, rank, tag, ref datatype, ref comm, .. } = *self;
        // SAFETY: the program promised, when it made the request, that the buffer stays valid while the request is active.
        let transfer = unsafe {
            match self.direction {
                Direction::Send(mode) => send::start(mode, &Outgoing { buf, count, datatype, dest: rank, tag, comm })?,
                Direction::Receive => receive::start(&Incoming { buf, count, datatype, source: rank, tag, comm })?,
            }
        };
        self.transfer.set(Some(transfer));
        Ok(())
    }
}

/// `MPI_Send_init` and its modes.
///
/// # Safety
/// The items must be readable whenever the request is active.
pub unsafe fn send_init(mode: SendMode, m: &Outgoing<'_>) -> Result<Handle> {
    let direction = Direction::Send(mode);
    let (buf, datatype, comm) = (m.buf.cast_mut(), Rc::clone(m.datatype), Rc::clone(m.comm));
    let persistent = Persistent {
        direction,
        buf,
        count: m.count,
        datatype,
        rank: m.dest,
        tag: m.tag,
        comm,
        transfer: Cell::new(None),
    };
    Ok(request::enter(Request::Persistent(Rc::new(persistent))))
}

/// `MPI_Recv_init`.
///
/// # Safety
/// The items must be writable, and nobody else's, whenever the request is active.
pub unsafe fn recv_init(m: &Incoming<'_>) -> Result<Handle> {
    let (datatype, comm) = (Rc::clone(m.datatype), Rc::clone(m.comm));
    let (buf, count, rank, tag) = (m.buf, m.count, m.source, m.tag);
    let persistent =
        Persistent { direction: Direction::Receive, buf, count, datatype, rank, tag, comm, transfer: Cell::new(None) };
    Ok(request::enter(Request::Persistent(Rc::new(persistent))))
}
