//! Requests (MPI-5.0, 3.7, 3.9, 3.10, 6.12, 13.2): everything that Wait and Test accept.
//!
//! The table of the runtime holds one [`Request`] per handle; `complete` has the Wait and Test families, `generalized` the
//! requests that the program completes itself.

pub mod complete;
pub mod generalized;

use crate::comm::Comm;
use crate::handle::Handle;
use crate::p2p::persistent::Persistent;
use crate::p2p::transfer::{self, Transfer};
use crate::progress::{self, Active};
use crate::runtime::rt;
use crate::status::Status;
use crate::waits::Awaited;
use base::{Class, Error, Result};
use generalized::Generalized;
use std::rc::Rc;

/// `MPI_REQUEST_NULL`.
pub const REQUEST_NULL: Handle = Handle(0x180);

/// An operation that is more than one transfer: a collective, a send-receive.
pub trait Operation: Active {
    /// Starts (again); the operation is inactive.
    fn start(&self) -> Result;
    /// The outcome once `advance` has returned true; `None` before.
    fn outcome(&self) -> Option<Result<Status>>;
}

/// What a request handle stands for.
pub enum Request {
    /// A send or receive.
    Transfer {
        /// The message.
        transfer: Transfer,
        /// Whose error handler is called.
        comm: Rc<Comm>,
    },
    /// A send that left at once. All of them are this one request, which is never removed: there is nothing to tell them apart by.
    Sent,
    /// A persistent send or receive.
    Persistent(Rc<Persistent>),
    /// A non-blocking collective or the like, started and activated.
    Collective {
        /// The operation.
        operation: Rc<dyn Operation>,
        /// Whose error handler is called.
        comm: Rc<Comm>,
    },
    /// A persistent collective.
    PersistentCollective {
        /// The operation.
        operation: Rc<dyn Operation>,
        /// Whose error handler is called.
        comm: Rc<Comm>,
        /// Whether it has been started and not been waited for.
        active: bool,
    },
    /// A request that the program completes.
    Generalized(Rc<Generalized>),
}

/// How a request ended: an error comes with the status as far as it is known.
pub struct Ended {
    /// Success or why not.
    pub result: Result,
    /// Source, tag, bytes.
    pub status: Status,
    /// Whether the request is gone (else it is persistent and inactive now).
    pub freed: bool,
}

/// Enters a request into the table.
#[inline]
pub fn enter(request: Request) -> Handle {
    rt().requests.insert(request)
}

/// Enters a message that has been started.
#[inline(always)]
pub fn enter_transfer(transfer: Transfer, comm: &Rc<Comm>) -> Handle {
    match transfer {
        Transfer::Sent => sent(),
        transfer => enter(Request::Transfer { transfer, comm: Rc::clone(comm) }),
    }
}

/// The handle of [`Request::Sent`].
#[inline]
pub fn sent() -> Handle {
    let sent = &rt().sent;
    if sent.get() == REQUEST_NULL {
        sent.set(enter(Request::Sent));
    }
    sent.get()
}

/// Enters a non-blocking collective that has been started and activated.
pub fn enter_collective(operation: Rc<dyn Operation>, comm: &Rc<Comm>) -> Handle {
    enter(Request::Collective { operation, comm: Rc::clone(comm) })
}

/// Enters a persistent collective.
pub fn enter_persistent_collective(operation: Rc<dyn Operation>, comm: &Rc<Comm>) -> Handle {
    enter(Request::PersistentCollective { operation, comm: Rc::clone(comm), active: false })
}

/// Remembers whose error handler the error that is about to be returned belongs to.
#[cold]
pub fn blame(comm: Option<Rc<Comm>>) {
    *rt().blamed.borrow_mut() = comm;
}

/// The communicator whose request failed, if the last error came from a request.
pub fn take_blamed() -> Option<Rc<Comm>> {
    rt().blamed.borrow_mut().take()
}

impl Request {
    fn comm(&self) -> Option<Rc<Comm>> {
        match self {
            Request::Transfer { comm, .. }
            | Request::Collective { comm, .. }
            | Request::PersistentCollective { comm, .. } => Some(Rc::clone(comm)),
            Request::Persistent(p) => Some(Rc::clone(&p.comm)),
            Request::Sent | Request::Generalized(_) => None,
        }
    }

    /// False for a persistent request that has not been started.
    #[inline]
    fn is_active(&self) -> bool {
        match self {
            Request::Persistent(p) => p.transfer.get().is_some(),
            Request::PersistentCollective { active, .. } => *active,
            _ => true,
        }
    }

    /// Whether [`Request::end`] would answer. Inactive requests are complete.
    #[inline]
    fn is_complete(&self) -> bool {
        match self {
            Request::Transfer { transfer, .. } => transfer::is_complete(*transfer),
            Request::Sent => true,
            Request::Persistent(p) => p.transfer.get().is_none_or(transfer::is_complete),
            Request::Collective { operation, .. } => operation.outcome().is_some(),
            Request::PersistentCollective { operation, active, .. } => !active || operation.outcome().is_some(),
            Request::Generalized(g) => g.is_complete(),
        }
    }
}

fn unknown() -> Error {
    Error::new(Class::ERR_REQUEST, "not the handle of a live request")
}

/// `MPI_Start`. What is started may make progress, which runs callbacks and lets other threads in: nothing of the table is borrowed.
pub fn start(handle: Handle) -> Result {
    enum Startable {
        Message(Rc<Persistent>),
        Operation(Rc<dyn Operation>),
    }
    let found = rt().requests.with(handle, |request| match request {
        Request::Persistent(p) => Ok(Startable::Message(Rc::clone(p))),
        Request::PersistentCollective { active: true, .. } => {
            Err(Error::new(Class::ERR_REQUEST, "the persistent request is active already"))
        }
        Request::PersistentCollective { operation, active, .. } => {
            *active = true;
            Ok(Startable::Operation(Rc::clone(operation)))
        }
        _ => Err(Error::new(Class::ERR_REQUEST, "the request is not persistent")),
    });
    match found.ok_or_else(unknown)?? {
        Startable::Message(message) => message.start(),
        Startable::Operation(operation) => operation.start(),
    }
}

/// `MPI_Cancel`: receives that are not matched yet, and generalized requests.
pub fn cancel(handle: Handle) -> Result {
    let mut generalized = None;
    let found = rt().requests.with(handle, |request| {
        let transfer = match request {
            Request::Transfer { transfer, .. } => *transfer,
            Request::Sent => Transfer::Sent,
            Request::Persistent(p) => match p.transfer.get() {
                Some(transfer) => transfer,
                None => return Err(Error::new(Class::ERR_REQUEST, "the request is inactive")),
            },
            Request::Generalized(g) => {
                generalized = Some(Rc::clone(g));
                return Ok(());
            }
            _ => return Err(Error::new(Class::ERR_REQUEST, "a collective can't be cancelled")),
        };
        if let Transfer::Pending(op) = transfer {
            rt().engine.with(|engine| engine.cancel(op));
        }
        Ok(())
    });
    found.ok_or_else(unknown)??;
    generalized.map_or(Ok(()), |g| g.cancel())
}

/// `MPI_Request_free`: an active operation ends by itself.
pub fn free(handle: Handle) -> Result {
    let generalized = rt().requests.with(handle, |request| match request {
        Request::Generalized(g) => Some(Rc::clone(g)),
        _ => None,
    });
    if let Some(g) = generalized.ok_or_else(unknown)? {
        if !g.give_up() {
            // The program still names the request when it completes it.
            return Ok(());
        }
        rt().requests.remove(handle);
        return g.free();
    }
    if handle == rt().sent.get() {
        return Ok(());
    }
    match rt().requests.remove(handle).ok_or_else(unknown)? {
        Request::Transfer { transfer, .. } => transfer::detach(transfer),
        Request::Persistent(p) => p.transfer.get().into_iter().for_each(transfer::detach),
        // A schedule is among the active ones until it is done.
        Request::Collective { .. } | Request::PersistentCollective { .. } | Request::Generalized(_) | Request::Sent => {
        }
    }
    Ok(())
}

/// Lets requests advance until the first of `handles` is complete; the caller waits for all of them.
fn wait_for_first(handles: &[Handle]) -> Result {
    let Some(&handle) = handles.first() else { return Ok(()) };
    let mut live = true;
    progress::wait_for(Awaited::All(handles), || match rt().requests.with(handle, |r| r.is_complete()) {
        Some(complete) => complete,
        None => {
            live = false;
            true
        }
    });
    if live { Ok(()) } else { Err(unknown()) }
}

/// Takes the outcome of a complete request; a request that isn't persistent is gone afterwards.
#[inline(never)]
fn end(handle: Handle) -> Ended {
    end_message(handle).unwrap_or_else(|| end_operation(handle))
}

/// As [`end`], if the request is just a message and complete.
#[inline(always)]
fn end_message(handle: Handle) -> Option<Ended> {
    if handle == rt().sent.get() {
        return Some(Ended { result: Ok(()), status: Status::EMPTY, freed: true });
    }
    let ended = rt().requests.remove_if(handle, |request| match request {
        Request::Transfer { transfer, .. } => transfer::test_with_status(*transfer),
        _ => None,
    });
    let ((result, status), request) = ended?;
    if result.is_err() {
        blame(request.comm());
    }
    Some(Ended { result, status, freed: true })
}

/// [`end`] of whatever isn't just a message.
#[inline(never)]
fn end_operation(handle: Handle) -> Ended {
    enum Outcome {
        Message(Transfer),
        Inactive,
        Operation(Rc<dyn Operation>, bool),
        Generalized(Rc<Generalized>),
    }
    let outcome = rt().requests.with(handle, |request| match request {
        Request::Transfer { .. } | Request::Sent => unreachable!("messages end above when they are complete"),
        Request::Persistent(p) => p.transfer.take().map_or(Outcome::Inactive, Outcome::Message),
        Request::Collective { operation, .. } => Outcome::Operation(Rc::clone(operation), true),
        Request::PersistentCollective { operation, active, .. } => match std::mem::take(active) {
            true => Outcome::Operation(Rc::clone(operation), false),
            false => Outcome::Inactive,
        },
        Request::Generalized(g) => Outcome::Generalized(Rc::clone(g)),
    });
    let ended = match outcome.expect("the caller has looked the request up") {
        Outcome::Inactive => Ended { result: Ok(()), status: Status::EMPTY, freed: false },
        Outcome::Message(transfer) => {
            let (result, status) = transfer::test_with_status(transfer).expect("the transfer is complete");
            Ended { result, status, freed: false }
        }
        Outcome::Operation(operation, freed) => match operation.outcome().expect("the operation is complete") {
            Ok(status) => Ended { result: Ok(()), status, freed },
            Err(error) => Ended { result: Err(error), status: Status { error: error.class.0, ..Status::EMPTY }, freed },
        },
        Outcome::Generalized(g) => {
            let mut status = Status::EMPTY;
            let queried = g.query(&mut status);
            let freed = g.free();
            Ended { result: queried.and(freed), status, freed: true }
        }
    };
    if ended.freed {
        let request = rt().requests.remove(handle);
        if ended.result.is_err() {
            blame(request.and_then(|r| r.comm()));
        }
    } else if ended.result.is_err() {
        blame(rt().requests.with(handle, |r| r.comm()).flatten());
    }
    ended
}

/// The status of a complete request, which stays as it is.
fn peek(handle: Handle) -> Result<Status> {
    enum Outcome {
        Known(Status),
        Operation(Rc<dyn Operation>),
        Generalized(Rc<Generalized>),
    }
    let outcome = rt().requests.with(handle, |request| match request {
        Request::Transfer { transfer, .. } => Outcome::Known(transfer::peek(*transfer)),
        Request::Sent => Outcome::Known(Status::EMPTY),
        Request::Persistent(p) => Outcome::Known(p.transfer.get().map_or(Status::EMPTY, transfer::peek)),
        Request::PersistentCollective { active: false, .. } => Outcome::Known(Status::EMPTY),
        Request::Collective { operation, .. } | Request::PersistentCollective { operation, .. } => {
            Outcome::Operation(Rc::clone(operation))
        }
        Request::Generalized(g) => Outcome::Generalized(Rc::clone(g)),
    });
    match outcome.ok_or_else(unknown)? {
        Outcome::Known(status) => Ok(status),
        Outcome::Operation(operation) => Ok(operation.outcome().and_then(Result::ok).unwrap_or(Status::EMPTY)),
        Outcome::Generalized(g) => {
            let mut status = Status::EMPTY;
            g.query(&mut status).map(|()| status)
        }
    }
}
