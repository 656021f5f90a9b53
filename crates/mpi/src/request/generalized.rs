//! Generalized requests (MPI-5.0, 13.2): the program completes them and says what their status is.

use super::{REQUESTS, Request, enter, unknown};
use crate::handle::Handle;
use crate::status::Status;
use base::{Class, Error, Result};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// `MPI_Grequest_query_function`.
pub type QueryFn = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
/// `MPI_Grequest_free_function`.
pub type FreeFn = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type CancelFn = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// A request of the program.
pub struct Generalized {
    query: Option<QueryFn>,
    free: Option<FreeFn>,
    cancel: Option<CancelFn>,
    state: *mut c_void,
    complete: Cell<bool>,
    /// The handle was freed before completion: only `MPI_Grequest_complete` still uses it.
    freed: Cell<bool>,
}

fn check(code: c_int) -> Result {
    if code == 0 { Ok(()) } else { Err(Error::new(Class(code), "a generalized request's callback failed")) }
}

impl Generalized {
    /// Whether the program has completed it.
    pub fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// Asks the program for the status.
    pub fn query(&self, status: &mut Status) -> Result {
        // SAFETY: the program promised at `MPI_Grequest_start` that the function may be called with its state.
        self.query.map_or(Ok(()), |f| check(unsafe { f(self.state, status) }))
    }

    /// Tells the program that the request is gone.
    pub fn free(&self) -> Result {
        // SAFETY: as in `query`.
        self.free.map_or(Ok(()), |f| check(unsafe { f(self.state) }))
    }

    /// The program has freed the handle; true if the request is complete and may go at once.
    pub fn give_up(&self) -> bool {
        self.freed.set(true);
        self.complete.get()
    }

    /// Tells the program that somebody wants to cancel it.
    pub fn cancel(&self) -> Result {
        // SAFETY: as in `query`.
        self.cancel.map_or(Ok(()), |f| check(unsafe { f(self.state, c_int::from(self.complete.get())) }))
    }
}

/// `MPI_Grequest_start`.
///
/// # Safety
/// The functions must accept `state` as long as the request lives.
pub unsafe fn start(
    query: Option<QueryFn>,
    free: Option<FreeFn>,
    cancel: Option<CancelFn>,
    state: *mut c_void,
) -> Handle {
    let complete = Cell::new(false);
    enter(Request::Generalized(Rc::new(Generalized { query, free, cancel, state, complete, freed: Cell::new(false) })))
}

/// `MPI_Grequest_complete`.
pub fn complete(handle: Handle) -> Result {
    let found = REQUESTS.with(handle, |request| match request {
        Request::Generalized(g) => Some(Rc::clone(g)),
        _ => None,
    });
    let Some(Some(g)) = found else { return Err(unknown()) };
    g.complete.set(true);
    if g.freed.get() {
        REQUESTS.remove(handle);
        return g.free();
    }
    Ok(())
}
