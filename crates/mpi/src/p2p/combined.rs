//! Send-receive (MPI-5.0, 3.10): both halves are started before either is waited for.

use super::receive::{self, Incoming};
use super::send::{self, Outgoing, SendMode};
use super::transfer::{self, Transfer};
use crate::cs::Section;
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
pub unsafe fn sendrecv(cs: &mut Section, out: &Outgoing<'_>, inc: &Incoming<'_>, status: &mut impl Place) -> Result {
    // SAFETY: both are waited for below.
    let (receive, send) = unsafe { (receive::start(cs, inc)?, send::start(cs, SendMode::Standard, out)) };
    let send = match send {
        Ok(send) => send,
        Err(error) => {
            // The buffer is the program's again, so nothing may arrive in it any more.
            if !transfer::cancel(cs, receive) {
                let _ = transfer::wait(cs, receive);
            }
            return Err(error);
        }
    };
    let done = |cs: &mut Section| transfer::is_complete(cs, receive) && transfer::is_complete(cs, send);
    progress::wait_for(cs, Awaited::Both(receive.op(), send.op()), done);
    let sent = transfer::test(cs, send).expect("the send is complete");
    let (received, found) = transfer::test_with_status(cs, receive).expect("the receive is complete");
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
pub unsafe fn sendrecv_replace(cs: &mut Section, m: &Replace<'_>, status: &mut impl Place) -> Result {
    // SAFETY: by the caller; `bytes` outlives the call.
    unsafe {
        let bytes = packed(m);
        sendrecv(cs, &outgoing(m, &bytes, datatype::byte()), &incoming(m), status)
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
    fn advance(&self, cs: &mut Section) -> bool {
        if let Some(result) = self.send.get().and_then(|transfer| transfer::test(cs, transfer)) {
            self.send.set(None);
            if let Err(error) = result {
                *self.outcome.borrow_mut() = Err(error);
            }
        }
        if let Some(result) = self.receive.get().and_then(|transfer| transfer::test(cs, transfer)) {
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
    fn start(&self, _cs: &mut Section) -> Result {
        Ok(())
    }
    fn outcome(&self, _cs: &Section) -> Option<Result<Status>> {
        (self.send.get().is_none() && self.receive.get().is_none()).then(|| *self.outcome.borrow())
    }
}

/// # Safety
/// As for a send and a receive; `bytes` holds what `out` points at, if it isn't the program's.
unsafe fn start_pair(
    cs: &mut Section,
    out: &Outgoing<'_>,
    inc: &Incoming<'_>,
    bytes: Option<Box<[u8]>>,
) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    let (receive, send) = unsafe { (receive::start(cs, inc)?, send::start(cs, SendMode::Standard, out)) };
    let (send, outcome) = match send {
        Ok(send) => (Some(send), Ok(Status::EMPTY)),
        Err(error) if transfer::cancel(cs, receive) => return Err(error),
        // A message is on its way into the buffer: the request fails when that is over.
        Err(error) => (None, Err(error)),
    };
    let pair = Rc::new(Pair {
        send: Cell::new(send),
        receive: Cell::new(Some(receive)),
        outcome: RefCell::new(outcome),
        _bytes: bytes,
    });
    progress::activate(cs, Rc::<Pair>::clone(&pair));
    Ok(request::enter(cs, Request::Collective { operation: pair, owner: Some(Rc::clone(&inc.comm.owner)) }))
}

/// `MPI_Isendrecv`.
///
/// # Safety
/// As for a non-blocking send and receive; the buffers do not overlap.
pub unsafe fn isendrecv(cs: &mut Section, out: &Outgoing<'_>, inc: &Incoming<'_>) -> Result<Handle> {
    // SAFETY: handed on from the caller.
    unsafe { start_pair(cs, out, inc, None) }
}

/// `MPI_Isendrecv_replace`.
///
/// # Safety
/// The items must be readable, writable and nobody else's until the request is complete.
pub unsafe fn isendrecv_replace(cs: &mut Section, m: &Replace<'_>) -> Result<Handle> {
    // SAFETY: by the caller; `bytes` moves into the request, its heap block stays where it is.
    unsafe {
        let bytes = packed(m);
        let out = outgoing(m, &bytes, datatype::byte());
        start_pair(cs, &out, &incoming(m), Some(bytes))
    }
}
