//! Transfers under way: sends and receives that have been started, until their outcome is taken.

use crate::cs::Section;
use crate::engine;
use crate::progress::{self, Awaited};
use crate::status::Status;
use base::Result;
use protocol::engine::{Completion, OpId};
use std::rc::Rc;

/// A transfer that has been started: it is complete already, or known to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// A send that has left; its status is [`Status::EMPTY`].
    Sent,
    /// Any transfer with `MPI_PROC_NULL`; its status is [`Status::PROC_NULL`].
    Null,
    /// To be finished by [`test`] or [`wait`] exactly once.
    Pending(OpId),
}

impl Transfer {
    /// The engine's operation, if it needs one.
    #[inline]
    pub fn op(self) -> Option<OpId> {
        match self {
            Transfer::Pending(op) => Some(op),
            Transfer::Sent | Transfer::Null => None,
        }
    }
}

#[inline(always)]
fn status_of(op: OpId, completion: &Completion) -> Result<Status> {
    if let Some(error) = completion.error {
        return Err(error);
    }
    if op.is_send() {
        return Ok(Status { cancelled: completion.cancelled, ..Status::EMPTY });
    }
    Ok(Status { cancelled: completion.cancelled, ..status_of_message(completion) })
}

/// The message that was received; of a failed receive the bytes that did arrive.
#[inline(always)]
fn status_of_message(completion: &Completion) -> Status {
    let e = &completion.envelope;
    Status::received(e.source as i32, e.tag, completion.length)
}

/// Whether [`test`] would answer. Makes no progress.
#[inline]
pub fn is_complete(cs: &Section, transfer: Transfer) -> bool {
    match transfer {
        Transfer::Sent | Transfer::Null => true,
        Transfer::Pending(op) => engine::with(cs, |engine| engine.is_complete(op)),
    }
}

/// `None` while the transfer is under way. Makes no progress by itself. After `Some` the transfer is forgotten.
#[inline]
pub fn test(cs: &Section, transfer: Transfer) -> Option<Result<Status>> {
    match transfer {
        Transfer::Sent => Some(Ok(Status::EMPTY)),
        Transfer::Null => Some(Ok(Status::PROC_NULL)),
        Transfer::Pending(op) => {
            let completion = engine::with(cs, |engine| engine.take(op))?;
            Some(status_of(op, &completion))
        }
    }
}

/// As [`test`], but a failure comes with the status as far as it is known (`MPI_ERR_TRUNCATE` tells source and tag).
#[inline(always)]
pub fn test_with_status(cs: &Section, transfer: Transfer) -> Option<(Result, Status)> {
    match transfer {
        Transfer::Sent => Some((Ok(()), Status::EMPTY)),
        Transfer::Null => Some((Ok(()), Status::PROC_NULL)),
        Transfer::Pending(op) => {
            let completion = engine::with(cs, |engine| engine.take(op))?;
            Some(match status_of(op, &completion) {
                Ok(status) => (Ok(()), status),
                Err(error) => (Err(error), status_of_message(&completion)),
            })
        }
    }
}

/// Whether a receive from any source may wait for a process that is gone, and goes on unless its outcome is taken.
#[inline]
pub fn is_interrupted(cs: &Section, transfer: Transfer) -> bool {
    transfer.op().is_some_and(|op| engine::with(cs, |engine| engine.losses() != 0 && engine.is_interrupted(op)))
}

/// The status of a complete transfer, which is not forgotten.
pub fn peek(cs: &Section, transfer: Transfer) -> Status {
    match transfer {
        Transfer::Sent => Status::EMPTY,
        Transfer::Null => Status::PROC_NULL,
        Transfer::Pending(op) => match engine::with(cs, |engine| engine.outcome(op)) {
            Some(completion) => status_of(op, &completion).unwrap_or_else(|_| status_of_message(&completion)),
            None => Status::EMPTY,
        },
    }
}

/// Polls and sleeps until the transfer is complete.
#[inline]
pub fn wait(cs: &mut Section, transfer: Transfer) -> Result<Status> {
    if let Transfer::Pending(op) = transfer {
        progress::wait_for(cs, Awaited::One(op), |cs| engine::with(cs, |engine| engine.is_complete(op)));
    }
    test(cs, transfer).expect("a transfer that was waited for is complete")
}

/// As [`wait`], but returns early when more processes than `losses` are lost; the outcome is not taken.
#[inline]
pub fn wait_unless_lost(cs: &mut Section, transfer: Transfer, losses: usize) {
    if let Transfer::Pending(op) = transfer {
        progress::wait_for(cs, Awaited::One(op), |cs| {
            engine::with(cs, |engine| engine.is_complete(op) || engine.losses() != losses)
        });
    }
}

/// Cancels a receive that no message has matched, and forgets it. False if that can't be done any more.
pub fn cancel(cs: &Section, transfer: Transfer) -> bool {
    let Transfer::Pending(op) = transfer else { return false };
    engine::with(cs, |engine| engine.cancel(op) && engine.take(op).is_some())
}

/// Gives a transfer up, because a process on which it may depend is lost. True if it needs no more waiting; a large message that is
/// sent must be waited for until its receiver has agreed.
pub fn give_up(cs: &Section, transfer: Transfer) -> bool {
    let Transfer::Pending(op) = transfer else { return false };
    if op.is_send() {
        engine::with(cs, |engine| {
            engine.withdraw(op);
            engine.take(op).is_some()
        })
    } else {
        cancel(cs, transfer)
    }
}

/// Lets a transfer end by itself: its request was freed.
pub fn detach(cs: &mut Section, transfer: Transfer) {
    struct Detached(OpId);
    impl progress::Active for Detached {
        fn advance(&self, cs: &mut Section) -> bool {
            engine::with(cs, |engine| engine.take(self.0)).is_some()
        }
    }
    if let Transfer::Pending(op) = transfer {
        progress::activate(cs, Rc::new(Detached(op)));
    }
}
