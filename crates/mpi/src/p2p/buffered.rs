//! Buffered sends (MPI-5.0, 3.4, 3.6): buffers attached to a communicator, to a session or to the process, or automatic.
//!
//! The program's buffer is an allowance: each message uses its size plus `MPI_BSEND_OVERHEAD` of it until it has left,
//! while the bytes wait in memory of our own. A send that finds no room in the attached buffer is `MPI_ERR_BUFFER`.

use super::send::Outgoing;
use super::transfer::{self, Transfer, start_send_bytes};
use crate::datatype;
use crate::handle::Handle;
use crate::progress::{self, Active};
use crate::request::{self, Operation, Request};
use crate::runtime::rt;
use crate::status::{PROC_NULL, Status};
use base::ids::Plane;
use base::{Result, ensure};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `MPI_BSEND_OVERHEAD`.
pub const OVERHEAD: usize = 512;

/// `MPI_BUFFER_AUTOMATIC`.
pub const AUTOMATIC: usize = 2;

/// An attached buffer.
pub struct Buffer {
    address: usize,
    size: usize,
    used: Cell<usize>,
    leaving: RefCell<Vec<(Transfer, Box<[u8]>)>>,
}

/// Where a buffer is attached: to a communicator, a session or the process.
pub type Slot = RefCell<Option<Rc<Buffer>>>;

impl Buffer {
    fn is_automatic(&self) -> bool {
        self.address == AUTOMATIC
    }

    /// Forgets the messages that have left.
    fn reap(&self) {
        let mut freed = 0;
        self.leaving.borrow_mut().retain(|(transfer, bytes)| {
            let left = transfer::test(*transfer).is_some();
            freed += if left { bytes.len() + OVERHEAD } else { 0 };
            !left
        });
        self.used.set(self.used.get() - freed);
    }

    fn is_drained(&self) -> bool {
        self.reap();
        self.leaving.borrow().is_empty()
    }

    fn keep(&self, transfer: Transfer, bytes: Box<[u8]>) {
        if let Transfer::Pending(_) = transfer {
            self.used.set(self.used.get() + bytes.len() + OVERHEAD);
            self.leaving.borrow_mut().push((transfer, bytes));
        }
    }
}

/// Attaches `size` bytes at `address` (or `MPI_BUFFER_AUTOMATIC`).
pub fn attach(slot: &Slot, address: usize, size: usize) -> Result {
    ensure!(slot.borrow().is_none(), ERR_BUFFER, "a buffer is attached already");
    let buffer = Buffer { address, size, used: Cell::new(0), leaving: RefCell::default() };
    *slot.borrow_mut() = Some(Rc::new(buffer));
    Ok(())
}

/// Waits until every buffered message has left, then detaches; the address and size that were attached.
pub fn detach(slot: &Slot) -> Result<(usize, usize)> {
    let Some(buffer) = slot.borrow().clone() else { return Ok((0, 0)) };
    progress::wait_until(|| buffer.is_drained());
    slot.borrow_mut().take();
    Ok((buffer.address, if buffer.is_automatic() { 0 } else { buffer.size }))
}

/// Waits until every buffered message has left.
pub fn flush(slot: &Slot) -> Result {
    if let Some(buffer) = slot.borrow().clone() {
        progress::wait_until(|| buffer.is_drained());
    }
    Ok(())
}

/// A flush as a request.
struct Flush(Option<Rc<Buffer>>);

impl Active for Flush {
    fn advance(&self) -> bool {
        self.0.as_ref().is_none_or(|buffer| buffer.is_drained())
    }
}

impl Operation for Flush {
    fn start(&self) -> Result {
        Ok(())
    }
    fn outcome(&self) -> Option<Result<Status>> {
        self.advance().then_some(Ok(Status::EMPTY))
    }
}

/// `MPI_Buffer_iflush` and its kin.
pub fn iflush(slot: &Slot) -> Result<Handle> {
    let flush = Rc::new(Flush(slot.borrow().clone()));
    progress::activate(Rc::<Flush>::clone(&flush));
    Ok(request::enter(Request::Collective { operation: flush, comm: Rc::clone(rt().self_comm()) }))
}

/// Starts a buffered send: complete when it returns.
///
/// # Safety
/// The items must be readable during the call.
pub unsafe fn start(m: &Outgoing<'_>) -> Result<Transfer> {
    if m.dest == PROC_NULL {
        return Ok(Transfer::Null);
    }
    let Some(buffer) = find(m) else { base::fail!(ERR_BUFFER, "no buffer is attached for a buffered send") };
    let len = m.count * m.datatype.size();
    buffer.reap();
    let room = buffer.is_automatic() || buffer.used.get() + len + OVERHEAD <= buffer.size;
    if !room {
        progress::poll_some();
        buffer.reap();
        let room = buffer.used.get() + len + OVERHEAD <= buffer.size;
        ensure!(room, ERR_BUFFER, "the attached buffer has no room for the message");
    }
    let mut bytes = vec![0u8; len].into_boxed_slice();
    // SAFETY: the caller's items are readable, `bytes` has room for all of them.
    unsafe { datatype::pack(m.datatype, m.buf, m.count, 0, bytes.as_mut_ptr(), len) };
    let (peer, context) = (m.comm.peer(m.dest), m.comm.context.plane(Plane::PointToPoint));
    // SAFETY: `bytes` lives in the buffer until the transfer is complete.
    let transfer = unsafe { start_send_bytes(peer, context, m.comm.rank as u32, m.tag, bytes.as_ptr(), len) }?;
    buffer.keep(transfer, bytes);
    Ok(Transfer::Sent)
}

/// The buffer of a send: the communicator's, else its session's, else the process's.
fn find(m: &Outgoing<'_>) -> Option<Rc<Buffer>> {
    let attached = m.comm.buffer.borrow().clone();
    let attached = attached.or_else(|| m.comm.session.as_ref().and_then(|s| s.buffer.borrow().clone()));
    attached.or_else(|| rt().buffer.borrow().clone())
}
