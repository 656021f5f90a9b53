//! Send-receive (MPI-5.0, 3.10): both halves are started before either is waited for.

use super::receive::{self, Incoming};
use super::send::{self, Outgoing, SendMode};
use super::transfer::{self, Transfer};
use crate::datatype::{self, Datatype};
use crate::handle::Handle;
use crate::p2p::space::Space;
use crate::progress::{self, Active, Awaited};
use crate::request::{self, Operation, Request};
use crate::status::{Place, Status};
use base::Result;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `MPI_Sendrecv`.
///
/// # Safety
/// As for a send and a receive; the buffers do not overlap.
pub unsafe fn sendrecv(out: &Outgoing<'_>, inc: &Incoming<'_>, status: &mut impl Place) -> Result {
    // SAFETY: both are waited for below.
    let (receive, send) = unsafe { (receive::start(inc)?, send::start(SendMode::Standard, out)) };
    let send = match send {
        Ok(send) => send,
        Err(error) => {
            // The buffer is the program's again, so nothing may arrive in it any more.
            if !transfer::cancel(receive) {
                let _ = transfer::wait(receive);
            }
            return Err(error);
        }
    };
    let done = || transfer::is_complete(receive) && transfer::is_complete(send);
    progress::wait_for(Awaited::Both(receive.op(), send.op()), done);
    let sent = transfer::test(send).expect("the send is complete");
    let (received, found) = transfer::test_with_status(receive).expect("the receive is complete");
    status.set(&found);
    received.and(sent.map(drop))
}

/// What send-receive-replace says.
pub struct Replace<'a> {
    /// First item, sent and then replaced.
    pub buf: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Type of the items.
    pub datatype: &'a Rc<Datatype>,
    /// Receiver.
    pub dest: i32,
    /// Tag of the message sent.
    pub sendtag: i32,
    /// Sender.
    pub source: i32,
    /// Tag of the message received.
    pub recvtag: i32,
    /// Communicator.
    pub comm: &'a Space,
}

/// A copy of the items, packed, as a message of bytes.
///
/// # Safety
/// The items must be readable.
unsafe fn packed(m: &Replace<'_>) -> Box<[u8]> {
    let len = m.count * m.datatype.size();
    let mut bytes = vec![0u8; len].into_boxed_slice();
    // SAFETY: the caller's items are readable, `bytes` has room for all of them.
    unsafe { datatype::pack(m.datatype, m.buf, m.count, 0, bytes.as_mut_ptr(), len) };
    bytes
}

fn incoming<'a>(m: &Replace<'a>) -> Incoming<'a> {
    let Replace { buf, count, datatype, source, recvtag, comm, .. } = *m;
    Incoming { buf, count, datatype, source, tag: recvtag, comm }
}

fn outgoing<'a>(m: &Replace<'a>, bytes: &[u8], byte: &'a Rc<Datatype>) -> Outgoing<'a> {
    Outgoing { buf: bytes.as_ptr(), count: bytes.len(), datatype: byte, dest: m.dest, tag: m.sendtag, comm: m.comm }
}

/// `MPI_Sendrecv_replace`.
///
/// # Safety
/// The items must be readable, writable and nobody else's.
pub unsafe fn sendrecv_replace(m: &Replace<'_>, status: &mut impl Place) -> Result {
    // SAFETY: by the caller; `bytes` outlives the call.
    unsafe {
        let bytes = packed(m);
        sendrecv(&outgoing(m, &bytes, datatype::byte()), &incoming(m), status)
    }
}

/// `MPI_Isendrecv` and `MPI_Isendrecv_replace` under way.
struct Pair {
    send: Cell<Option<Transfer>>,
    receive: Cell<Option<Transfer>>,
    outcome: RefCell<Result<Status>>,
    /// The bytes that are sent, for the replacing form.
    _bytes: Option<Box<[u8]>>,
}

impl Active for Pair {
    fn advance(&self) -> bool {
        if let Some(result) = self.send.get().and_then(transfer::test) {
            self.send.set(None);
            if let Err(error) = result {
                *self.outcome.borrow_mut() = Err(error);
            }
        }
        if let Some(result) = self.receive.get().and_then(transfer::test) {
            self.receive.set(None);
            let mut outcome = self.outcome.borrow_mut();
            if outcome.is_ok() || result.is_err() {
                *outcome = result;
            }
        }
        self.send.get().is_none() && self.receive.get().is_none()
    }
}

impl Operation for Pair {
    fn start(&self) -> Result {
        Ok(())
    }
    fn outcome(&self) -> Option<Result<Status>> {
        (self.send.get().is_none() && self.receive.get().is_none()).then(|| *self.outcome.borrow())
    }
}

/// # Safety
/// As for a send and a receive; `bytes` holds what `out` points at, if it isn't the program's.
unsafe fn start_pair(out: &Outgoing<'_>, inc: &Incoming<'_>, bytes: Option<Box<[u8]>>) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    let (receive, send) = unsafe { (receive::start(inc)?, send::start(SendMode::Standard, out)) };
    let (send, outcome) = match send {
        Ok(send) => (Some(send), Ok(Status::EMPTY)),
        Err(error) if transfer::cancel(receive) => return Err(error),
        // A message is on its way into the buffer: the request fails when that is over.
        Err(error) => (None, Err(error)),
    };
    let pair = Rc::new(Pair {
        send: Cell::new(send),
        receive: Cell::new(Some(receive)),
        outcome: RefCell::new(outcome),
        _bytes: bytes,
    });
    progress::activate(Rc::<Pair>::clone(&pair));
    Ok(request::enter(Request::Collective { operation: pair, owner: Some(Rc::clone(&inc.comm.owner)) }))
}

/// `MPI_Isendrecv`.
///
/// # Safety
/// As for a non-blocking send and receive; the buffers do not overlap.
pub unsafe fn isendrecv(out: &Outgoing<'_>, inc: &Incoming<'_>) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    unsafe { start_pair(out, inc, None) }
}

/// `MPI_Isendrecv_replace`.
///
/// # Safety
/// The items must be readable, writable and nobody else's until the request is complete.
pub unsafe fn isendrecv_replace(m: &Replace<'_>) -> Result<Handle> {
    // SAFETY: by the caller; `bytes` moves into the request, its heap block stays where it is.
    unsafe {
        let bytes = packed(m);
        let out = outgoing(m, &bytes, datatype::byte());
        start_pair(&out, &incoming(m), Some(bytes))
    }
}
