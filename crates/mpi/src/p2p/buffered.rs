//! Buffered sends (MPI-5.0, 3.4, 3.6). A send that finds no room in the attached buffer is `MPI_ERR_BUFFER`.

use super::send::Outgoing;
use super::transfer::{self, Transfer, start_send_bytes};
use crate::buffer::{Buffer, Slot};
use crate::cs::Section;
use crate::datatype;
use crate::handle::Handle;
use crate::inside::Inside;
use crate::losses;
use crate::owner::Owner;
use crate::progress::{self, Active};
use crate::request::{self, Operation, Request};
use crate::status::{PROC_NULL, Status};
use base::ids::Plane;
use base::{Result, ensure};
use std::cell::RefCell;
use std::rc::Rc;

/// The buffer of `MPI_Buffer_attach`.
static OF_PROCESS: Inside<Slot> = Inside::new(RefCell::new(None));

/// Where the buffer of a communicator or session is attached, or of the process.
fn slot<'a>(cs: &'a Section, of: Option<&'a Owner>) -> &'a Slot {
    of.map_or_else(|| OF_PROCESS.get(cs), |owner| &owner.buffer)
}

/// Whether every buffered message has left; those that have are forgotten.
fn is_drained(cs: &Section, buffer: &Buffer) -> bool {
    buffer.reap(|message| transfer::test(cs, Transfer::Pending(message)).is_some())
}

/// Attaches `size` bytes at `address` (or `MPI_BUFFER_AUTOMATIC`).
pub fn attach(cs: &Section, of: Option<&Owner>, address: usize, size: usize, overhead: usize) -> Result {
    ensure!(slot(cs, of).borrow().is_none(), ERR_BUFFER, "a buffer is attached already");
    *slot(cs, of).borrow_mut() = Some(Rc::new(Buffer::new(address, size, overhead)));
    Ok(())
}

/// Waits until every buffered message has left, then detaches; the address and size that were attached.
pub fn detach(cs: &mut Section, of: Option<&Owner>) -> Result<(usize, usize)> {
    let Some(buffer) = slot(cs, of).borrow().clone() else { return Ok((0, 0)) };
    progress::wait_until(cs, |cs| is_drained(cs, &buffer));
    slot(cs, of).borrow_mut().take();
    Ok(buffer.attached())
}

/// Waits until every buffered message has left.
pub fn flush(cs: &mut Section, of: Option<&Owner>) -> Result {
    let buffer = slot(cs, of).borrow().clone();
    if let Some(buffer) = buffer {
        progress::wait_until(cs, |cs| is_drained(cs, &buffer));
    }
    Ok(())
}

/// The object to which the buffer is attached goes: what is still in the buffer leaves all the same.
pub fn let_go(cs: &mut Section, of: Option<&Owner>) {
    if let Some(buffer) = slot(cs, of).take() {
        progress::activate(cs, Rc::new(Flush(Some(buffer))));
    }
}

/// A flush as a request.
struct Flush(Option<Rc<Buffer>>);

impl Active for Flush {
    fn advance(&self, cs: &mut Section) -> bool {
        self.is_done(cs)
    }
}

impl Flush {
    fn is_done(&self, cs: &Section) -> bool {
        self.0.as_ref().is_none_or(|buffer| is_drained(cs, buffer))
    }
}

impl Operation for Flush {
    fn start(&self, _cs: &mut Section) -> Result {
        Ok(())
    }
    fn outcome(&self, cs: &Section) -> Option<Result<Status>> {
        self.is_done(cs).then_some(Ok(Status::EMPTY))
    }
}

/// `MPI_Buffer_iflush` and its kin.
pub fn iflush(cs: &mut Section, of: Option<&Owner>) -> Result<Handle> {
    let flush = Rc::new(Flush(slot(cs, of).borrow().clone()));
    progress::activate(cs, Rc::<Flush>::clone(&flush));
    Ok(request::enter(cs, Request::Collective { operation: flush, owner: None }))
}

/// Starts a buffered send: complete when it returns.
///
/// # Safety
/// The items must be readable during the call.
pub unsafe fn start(cs: &mut Section, m: &Outgoing<'_>) -> Result<Transfer> {
    if m.dest == PROC_NULL {
        return Ok(Transfer::Null);
    }
    losses::ensure_valid(cs, m.comm.context.0)?;
    let Some(buffer) = find(cs, m) else { base::fail!(ERR_BUFFER, "no buffer is attached for a buffered send") };
    let len = m.count * m.datatype.size();
    is_drained(cs, &buffer);
    if !buffer.has_room(len) {
        progress::poll_some(cs);
        is_drained(cs, &buffer);
        ensure!(buffer.has_room(len), ERR_BUFFER, "the attached buffer has no room for the message");
    }
    let mut bytes = vec![0u8; len].into_boxed_slice();
    // SAFETY: the caller's items are readable, `bytes` has room for all of them.
    unsafe { datatype::pack(m.datatype, m.buf, m.count, 0, bytes.as_mut_ptr(), len) };
    let (peer, context) = (m.comm.peer(m.dest), m.comm.context.plane(Plane::PointToPoint));
    // SAFETY: `bytes` lives in the buffer until the transfer is complete.
    let transfer = unsafe { start_send_bytes(cs, peer, context, m.comm.rank as u32, m.tag, bytes.as_ptr(), len) }?;
    if let Transfer::Pending(message) = transfer {
        buffer.keep(message, bytes);
    }
    Ok(Transfer::Sent)
}

/// The buffer of a send: the communicator's, else its session's, else the process's.
fn find(cs: &Section, m: &Outgoing<'_>) -> Option<Rc<Buffer>> {
    let attached = m.comm.owner.buffer.borrow().clone();
    let attached = attached.or_else(|| m.comm.session.as_ref().and_then(|s| s.buffer.borrow().clone()));
    attached.or_else(|| OF_PROCESS.get(cs).borrow().clone())
}
