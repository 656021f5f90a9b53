//! Requests (MPI-5.0, 3.7, 3.9, 3.10, 6.12, 13.2): everything that Wait and Test accept.
//!
//! The table holds one [`Request`] per handle; `complete` has the Wait and Test families, `generalized` the
//! requests that the program completes itself.

pub mod complete;
pub mod generalized;

use crate::cs::Section;
use crate::engine;
use crate::handle::{Handle, Kind, Table};
use crate::inside::Inside;
use crate::losses;
use crate::owner::Owner;
use crate::progress::{self, Active, Awaited, Requests};
use crate::status::Status;
use crate::transfer::{self, Transfer};
use base::{Class, Error, Result, ensure, fail};
use generalized::Generalized;
use protocol::engine::OpId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An operation that is more than one transfer: a collective, a send-receive.
pub trait Operation: Active {
    /// Starts (again); the operation is inactive.
    fn start(&self, cs: &mut Section) -> Result;
    /// The outcome once `advance` has returned true; `None` before.
    fn outcome(&self, cs: &Section) -> Option<Result<Status>>;
    /// The message that it waits for, if it waits for no more than one at a time.
    fn message(&self, _cs: &Section) -> Option<OpId> {
        None
    }
    /// The program has freed the request: what is under way ends by itself. A schedule is among the active ones until it is done.
    fn let_go(self: Rc<Self>, _cs: &mut Section) {}
    /// The partitions of partitioned communication.
    fn partitions(&self) -> Option<&dyn Partitions> {
        None
    }
}

/// Partitioned communication (MPI-5.0, chapter 4).
pub trait Partitions {
    /// How many partitions this side has.
    fn count(&self) -> usize;
    /// Whether it sends.
    fn is_send(&self) -> bool;
    /// A partition of an active send is ready.
    fn ready(&self, cs: &Section, partition: usize) -> Result;
    /// Whether a partition of an active receive is there.
    fn arrived(&self, cs: &Section, partition: usize) -> Result<bool>;
}

/// What a persistent send or receive starts.
pub trait Message {
    /// Starts it; the request is inactive.
    fn start(&self, cs: &mut Section) -> Result<Transfer>;
}

/// A persistent send or receive.
pub struct Persistent {
    /// What it starts.
    pub message: Rc<dyn Message>,
    /// Whose error handler is called.
    pub owner: Rc<Owner>,
    /// The transfer of the current activation.
    pub transfer: Option<Transfer>,
}

/// Live requests.
static REQUESTS: Inside<Table<Request>> = Inside::new(Table::new(Kind::Request));

/// The handle of [`Request::Sent`], once there is one.
static SENT: Inside<Cell<Handle>> = Inside::new(Cell::new(Handle::NONE));

/// The communicator whose request failed last, until its error handler is called.
static ERROR_COMM: Inside<RefCell<Option<Rc<Owner>>>> = Inside::new(RefCell::new(None));

/// What a request handle stands for.
pub enum Request {
    /// A send or receive.
    Transfer {
        /// The message.
        transfer: Transfer,
        /// Whose error handler is called.
        owner: Option<Rc<Owner>>,
    },
    /// A send that left at once. All of them are this one request, which is never removed: there is nothing to tell them apart by.
    Sent,
    /// A persistent send or receive.
    Persistent(Box<Persistent>),
    /// A non-blocking collective or the like, started and activated.
    Collective {
        /// The operation.
        operation: Rc<dyn Operation>,
        /// Whose error handler is called.
        owner: Option<Rc<Owner>>,
    },
    /// A persistent collective.
    PersistentCollective {
        /// The operation.
        operation: Rc<dyn Operation>,
        /// Whose error handler is called.
        owner: Option<Rc<Owner>>,
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

/// Whether one more request has room.
#[inline]
pub fn has_room(cs: &Section) -> bool {
    REQUESTS.get(cs).has_room()
}

/// As [`has_room`], as an error.
#[inline]
pub fn ensure_room(cs: &Section) -> Result {
    REQUESTS.get(cs).ensure_room()
}

/// Enters a request into the table.
#[inline]
pub fn enter(cs: &Section, request: Request) -> Handle {
    REQUESTS.get(cs).insert(request)
}

/// Enters a message that has been started.
#[inline(always)]
pub fn enter_transfer(cs: &Section, transfer: Transfer, owner: &Rc<Owner>) -> Handle {
    match transfer {
        Transfer::Sent => sent(cs),
        transfer => enter(cs, Request::Transfer { transfer, owner: Some(Rc::clone(owner)) }),
    }
}

/// The handle of [`Request::Sent`].
#[inline]
pub fn sent(cs: &Section) -> Handle {
    if SENT.get(cs).get() == Handle::NONE {
        SENT.get(cs).set(enter(cs, Request::Sent));
    }
    SENT.get(cs).get()
}

/// Enters a non-blocking collective that has been started and activated.
pub fn enter_collective(cs: &Section, operation: Rc<dyn Operation>, owner: &Rc<Owner>) -> Handle {
    enter(cs, Request::Collective { operation, owner: Some(Rc::clone(owner)) })
}

/// Enters a persistent collective.
pub fn enter_persistent_collective(cs: &Section, operation: Rc<dyn Operation>, owner: &Rc<Owner>) -> Handle {
    enter(cs, Request::PersistentCollective { operation, owner: Some(Rc::clone(owner)), active: false })
}

/// Remembers to which communicator the error that is about to be returned belongs.
#[cold]
pub fn set_error_comm(cs: &Section, owner: Option<Rc<Owner>>) {
    *ERROR_COMM.get(cs).borrow_mut() = owner;
}

/// The communicator whose request failed, if the last error came from a request.
pub fn take_error_comm(cs: &Section) -> Option<Rc<Owner>> {
    ERROR_COMM.get(cs).borrow_mut().take()
}

/// What a wait for a request needs.
pub enum UnderWay {
    /// It is complete, or only the program can complete it.
    Nothing,
    /// One message.
    Message(OpId),
    /// A collective of this communicator, or a non-blocking send-receive.
    Operation(Rc<Owner>),
}

/// For the diagnosis of a wait.
pub(crate) fn under_way(cs: &Section, handle: Handle) -> UnderWay {
    let message =
        |transfer: Option<Transfer>| transfer.and_then(Transfer::op).map_or(UnderWay::Nothing, UnderWay::Message);
    let found = REQUESTS.get(cs).with(handle, |request| match request {
        Request::Transfer { transfer, .. } => message(Some(*transfer)),
        Request::Persistent(p) => message(p.transfer),
        Request::Collective { operation, owner: Some(owner) }
        | Request::PersistentCollective { operation, owner: Some(owner), active: true }
            if operation.outcome(cs).is_none() =>
        {
            operation.message(cs).map_or_else(|| UnderWay::Operation(Rc::clone(owner)), UnderWay::Message)
        }
        _ => UnderWay::Nothing,
    });
    found.unwrap_or(UnderWay::Nothing)
}

impl Request {
    fn owner(&self) -> Option<Rc<Owner>> {
        match self {
            Request::Transfer { owner, .. }
            | Request::Collective { owner, .. }
            | Request::PersistentCollective { owner, .. } => owner.clone(),
            Request::Persistent(p) => Some(Rc::clone(&p.owner)),
            Request::Sent | Request::Generalized(_) => None,
        }
    }

    /// False for a persistent request that has not been started.
    #[inline]
    fn is_active(&self) -> bool {
        match self {
            Request::Persistent(p) => p.transfer.is_some(),
            Request::PersistentCollective { active, .. } => *active,
            _ => true,
        }
    }

    /// Whether [`Request::end`] would answer. Inactive requests are complete.
    #[inline]
    fn is_complete(&self, cs: &Section) -> bool {
        match self {
            Request::Transfer { transfer, .. } => transfer::is_complete(cs, *transfer),
            Request::Sent => true,
            Request::Persistent(p) => p.transfer.is_none_or(|transfer| transfer::is_complete(cs, transfer)),
            Request::Collective { operation, .. } => operation.outcome(cs).is_some(),
            Request::PersistentCollective { operation, active, .. } => !active || operation.outcome(cs).is_some(),
            Request::Generalized(g) => g.is_complete(),
        }
    }
}

fn unknown() -> Error {
    Error::new(Class::ERR_REQUEST, "not the handle of a live request")
}

/// `MPI_Start`. The operation starts without a borrow of the table: it may let other threads in.
pub fn start(cs: &mut Section, handle: Handle) -> Result {
    enum Todo {
        Refuse(&'static str),
        Message(Rc<dyn Message>),
        Operation(Rc<dyn Operation>),
    }
    const ACTIVE: Todo = Todo::Refuse("the persistent request is active already");
    let todo = REQUESTS.get(cs).with(handle, |request| match request {
        Request::Persistent(p) if p.transfer.is_some() => ACTIVE,
        Request::Persistent(p) => Todo::Message(Rc::clone(&p.message)),
        Request::PersistentCollective { active: true, .. } => ACTIVE,
        Request::PersistentCollective { operation, active, .. } => {
            *active = true;
            Todo::Operation(Rc::clone(operation))
        }
        _ => Todo::Refuse("the request is not persistent"),
    });
    match todo.ok_or_else(unknown)? {
        Todo::Refuse(why) => Err(Error::new(Class::ERR_REQUEST, why)),
        Todo::Message(message) => {
            let transfer = message.start(cs)?;
            let kept = REQUESTS.get(cs).with(handle, |request| match request {
                Request::Persistent(p) => p.transfer.replace(transfer),
                _ => Some(transfer),
            });
            // The program has freed the request, or started it twice, from another thread meanwhile.
            kept.unwrap_or(Some(transfer)).into_iter().for_each(|transfer| transfer::detach(cs, transfer));
            Ok(())
        }
        Todo::Operation(operation) => operation.start(cs),
    }
}

/// The partitioned operation of a handle; `sends`: one that sends and is active.
pub(crate) fn partitions(cs: &Section, handle: Handle, sends: bool) -> Result<Rc<dyn Operation>> {
    let found = REQUESTS.get(cs).with(handle, |request| match request {
        Request::PersistentCollective { operation, active, .. }
            if operation.partitions().is_some_and(|p| p.is_send() == sends) =>
        {
            ensure!(*active || !sends, ERR_REQUEST, "the partitioned send has not been started");
            Ok(Rc::clone(operation))
        }
        _ if sends => fail!(ERR_REQUEST, "not a partitioned send"),
        _ => fail!(ERR_REQUEST, "not a partitioned receive"),
    });
    found.ok_or_else(unknown)?
}

/// Whether a request is active.
pub(crate) fn is_started(cs: &Section, handle: Handle) -> bool {
    REQUESTS.get(cs).with(handle, |request| request.is_active()).unwrap_or(false)
}

/// `MPI_Cancel`: sends and receives that are not matched yet, and generalized requests.
pub fn cancel(cs: &mut Section, handle: Handle) -> Result {
    let mut generalized = None;
    let found = REQUESTS.get(cs).with(handle, |request| {
        let transfer = match request {
            Request::Transfer { transfer, .. } => *transfer,
            Request::Sent => Transfer::Sent,
            Request::Persistent(p) => match p.transfer {
                Some(transfer) => transfer,
                None => return Err(Error::new(Class::ERR_REQUEST, "the request is inactive")),
            },
            Request::Generalized(g) => {
                generalized = Some(Rc::clone(g));
                return Ok(());
            }
            _ => {
                return Err(Error::new(Class::ERR_REQUEST, "a collective or partitioned operation can't be cancelled"));
            }
        };
        if let Transfer::Pending(op) = transfer {
            engine::with(cs, |engine| engine.cancel(op));
        }
        Ok(())
    });
    found.ok_or_else(unknown)??;
    generalized.map_or(Ok(()), |g| g.cancel(cs))
}

/// `MPI_Request_free`: an active operation ends by itself.
pub fn free(cs: &mut Section, handle: Handle) -> Result {
    let generalized = REQUESTS.get(cs).with(handle, |request| match request {
        Request::Generalized(g) => Some(Rc::clone(g)),
        _ => None,
    });
    if let Some(g) = generalized.ok_or_else(unknown)? {
        if !g.give_up() {
            // The program still names the request when it completes it.
            return Ok(());
        }
        REQUESTS.get(cs).remove(handle);
        return g.free(cs);
    }
    if handle == SENT.get(cs).get() {
        return Ok(());
    }
    match REQUESTS.get(cs).remove(handle).ok_or_else(unknown)? {
        Request::Transfer { transfer, .. } => transfer::detach(cs, transfer),
        Request::Persistent(p) => p.transfer.into_iter().for_each(|transfer| transfer::detach(cs, transfer)),
        Request::Collective { operation, .. } | Request::PersistentCollective { operation, .. } => {
            operation.let_go(cs);
        }
        Request::Generalized(_) | Request::Sent => {}
    }
    Ok(())
}

/// Lets requests advance until `handle`, the first of `all`, is complete; the caller waits for all of them.
fn wait_for_first(cs: &mut Section, handle: Handle, all: &dyn Requests) -> Result {
    let mut live = true;
    progress::wait_for(cs, Awaited::All(all), |cs| match REQUESTS.get(cs).with(handle, |r| r.is_complete(cs)) {
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
fn end(cs: &mut Section, handle: Handle) -> Ended {
    match end_short(cs, handle) {
        Some(status) => Ended { result: Ok(()), status, freed: true },
        None => end_message(cs, handle).unwrap_or_else(|| end_operation(cs, handle)),
    }
}

/// The status of a request that is just a send that left at once, or a receive that has succeeded, and which is gone afterwards:
/// the shortest way.
#[inline(always)]
fn end_short(cs: &Section, handle: Handle) -> Option<Status> {
    if handle == SENT.get(cs).get() {
        return Some(Status::EMPTY);
    }
    let found = REQUESTS.get(cs).forget_if(handle, |request| match request {
        Request::Transfer { transfer: Transfer::Pending(op), owner } => {
            let found = engine::with(cs, |engine| engine.take_received(*op))?;
            // All that there is to drop.
            *owner = None;
            Some(found)
        }
        _ => None,
    })?;
    Some(Status::received(found.envelope.source as i32, found.envelope.tag, found.length))
}

/// As [`end`], if the request is just a message and complete.
#[inline]
fn end_message(cs: &Section, handle: Handle) -> Option<Ended> {
    if losses::count(cs) != 0
        && let Some(ended) = interruption(cs, handle)
    {
        return Some(ended);
    }
    let ended = REQUESTS.get(cs).remove_if(handle, |request| match request {
        Request::Transfer { transfer, .. } => transfer::test_with_status(cs, *transfer),
        _ => None,
    });
    let ((result, status), request) = ended?;
    if result.is_err() {
        set_error_comm(cs, request.owner());
    }
    Some(Ended { result, status, freed: true })
}

/// What the program is told of a receive from any source that may wait for a process that is gone: the request stays active.
#[cold]
fn interruption(cs: &Section, handle: Handle) -> Option<Ended> {
    let owner = REQUESTS.get(cs).with(handle, |request| {
        let transfer = match request {
            Request::Transfer { transfer, .. } => Some(*transfer),
            Request::Persistent(p) => p.transfer,
            _ => None,
        };
        transfer.is_some_and(|transfer| transfer::is_interrupted(cs, transfer)).then(|| request.owner())
    });
    set_error_comm(cs, owner.flatten()?);
    Some(Ended { result: Err(losses::PENDING), status: Status::EMPTY, freed: false })
}

/// [`end`] of whatever isn't just a message.
#[inline(never)]
fn end_operation(cs: &mut Section, handle: Handle) -> Ended {
    enum Outcome {
        Message(Transfer),
        Inactive,
        Operation(Rc<dyn Operation>, bool),
        Generalized(Rc<Generalized>),
    }
    let outcome = REQUESTS.get(cs).with(handle, |request| match request {
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
            let (result, status) = transfer::test_with_status(cs, transfer).expect("the transfer is complete");
            Ended { result, status, freed: false }
        }
        Outcome::Operation(operation, freed) => match operation.outcome(cs).expect("the operation is complete") {
            Ok(status) => Ended { result: Ok(()), status, freed },
            Err(error) => Ended { result: Err(error), status: Status::EMPTY, freed },
        },
        Outcome::Generalized(g) => {
            let (queried, status) = g.query(cs);
            let freed = g.free(cs);
            Ended { result: queried.and(freed), status, freed: true }
        }
    };
    if ended.freed {
        let request = REQUESTS.get(cs).remove(handle);
        if ended.result.is_err() {
            set_error_comm(cs, request.and_then(|r| r.owner()));
        }
    } else if ended.result.is_err() {
        set_error_comm(cs, REQUESTS.get(cs).with(handle, |r| r.owner()).flatten());
    }
    ended
}

/// The status of a complete request, which stays as it is.
fn peek(cs: &mut Section, handle: Handle) -> Result<Status> {
    enum Outcome {
        Known(Status),
        Operation(Rc<dyn Operation>),
        Generalized(Rc<Generalized>),
    }
    let outcome = REQUESTS.get(cs).with(handle, |request| match request {
        Request::Transfer { transfer, .. } => Outcome::Known(transfer::peek(cs, *transfer)),
        Request::Sent => Outcome::Known(Status::EMPTY),
        Request::Persistent(p) => {
            Outcome::Known(p.transfer.map_or(Status::EMPTY, |transfer| transfer::peek(cs, transfer)))
        }
        Request::PersistentCollective { active: false, .. } => Outcome::Known(Status::EMPTY),
        Request::Collective { operation, .. } | Request::PersistentCollective { operation, .. } => {
            Outcome::Operation(Rc::clone(operation))
        }
        Request::Generalized(g) => Outcome::Generalized(Rc::clone(g)),
    });
    match outcome.ok_or_else(unknown)? {
        Outcome::Known(status) => Ok(status),
        Outcome::Operation(operation) => Ok(operation.outcome(cs).and_then(Result::ok).unwrap_or(Status::EMPTY)),
        Outcome::Generalized(g) => {
            let (queried, status) = g.query(cs);
            queried.map(|()| status)
        }
    }
}
