//! The tool interface (MPI-5.0, 15.3; decision 0050): control variables are the settings, performance variables the counters and
//! queues, events are counters that have moved, messages, and collectives that begin and end.
//!
//! It may be used before `MPI_Init` and after `MPI_Finalize`, by any thread: everything runs inside the critical section. Without a session
//! or a registered event it costs nothing: counters are counted anyway, and a service looks at them while somebody wants events. Messages are
//! observed only while somebody wants to know of them, and are slower then ([`messages`]).

pub mod categories;
pub mod cvar;
pub mod enums;
pub mod event;
pub(crate) mod messages;
pub mod pvar;
mod registry;

use crate::cs::Section;
use crate::inside::Inside;
use base::{Result, ensure, fail};
use std::cell::Cell;

/// How often it has been initialised and not been finalised.
static USERS: Inside<Cell<u32>> = Inside::new(Cell::new(0));

/// `MPI_T_init_thread`.
pub fn init(cs: &Section) -> Result {
    let users = USERS.get(cs);
    let Some(more) = users.get().checked_add(1) else {
        fail!(T_ERR_CANNOT_INIT, "the tool interface was initialised too often")
    };
    users.set(more);
    Ok(())
}

/// `MPI_T_finalize`: the last one ends sessions, handles and registrations.
pub fn finalize(cs: &Section) {
    let users = USERS.get(cs);
    users.set(users.get() - 1);
    if users.get() == 0 {
        cvar::clear(cs);
        pvar::clear(cs);
        event::clear(cs);
    }
}

/// Whether it is initialised, as an error.
pub fn ensure_initialized(cs: &Section) -> Result {
    ensure!(USERS.get(cs).get() > 0, T_ERR_NOT_INITIALIZED, "the tool interface is not initialised");
    Ok(())
}

/// The element at an index of the program.
fn at<T>(all: &[T], index: i32) -> Result<&T> {
    match usize::try_from(index).ok().and_then(|index| all.get(index)) {
        Some(found) => Ok(found),
        None => fail!(T_ERR_INVALID_INDEX, "no such index"),
    }
}

/// How a variable or an element of an event lies in the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// `MPI_INT`.
    Int,
    /// `MPI_UNSIGNED_LONG_LONG`.
    Unsigned,
    /// `MPI_DOUBLE`.
    Double,
    /// `MPI_CHAR`, with a terminating null.
    Text,
}

/// What variables can be bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bind {
    /// `MPI_T_BIND_NO_OBJECT`.
    Nothing,
    /// `MPI_T_BIND_MPI_COMM`.
    Comm,
}
