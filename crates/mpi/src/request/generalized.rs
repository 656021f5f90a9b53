//! Generalized requests (MPI-5.0, 13.2): the program completes them and says what their status is.

use super::{REQUESTS, Request, enter, unknown};
use crate::cs::Section;
use crate::handle::Handle;
use crate::sleepers;
use crate::status::Status;
use base::Result;
use std::cell::Cell;
use std::rc::Rc;

/// What the program does for its request.
pub trait Callbacks {
    /// Says what its status is.
    fn query(&self, cs: &mut Section) -> (Result, Status);
    /// Learns that it is gone.
    fn free(&self, cs: &mut Section) -> Result;
    /// Learns that somebody wants to cancel it, and whether it is complete.
    fn cancel(&self, cs: &mut Section, complete: bool) -> Result;
}

/// A request of the program.
pub struct Generalized {
    callbacks: Box<dyn Callbacks>,
    complete: Cell<bool>,
    /// The handle was freed before completion: only `MPI_Grequest_complete` still uses it.
    freed: Cell<bool>,
}

impl Generalized {
    /// Whether the program has completed it.
    pub fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// Asks the program for the status.
    pub fn query(&self, cs: &mut Section) -> (Result, Status) {
        self.callbacks.query(cs)
    }

    /// Tells the program that the request is gone.
    pub fn free(&self, cs: &mut Section) -> Result {
        self.callbacks.free(cs)
    }

    /// The program has freed the handle; true if the request is complete and may go at once.
    pub fn give_up(&self) -> bool {
        self.freed.set(true);
        self.complete.get()
    }

    /// Tells the program that somebody wants to cancel it.
    pub fn cancel(&self, cs: &mut Section) -> Result {
        self.callbacks.cancel(cs, self.complete.get())
    }
}

/// `MPI_Grequest_start`.
pub fn start(cs: &Section, callbacks: Box<dyn Callbacks>) -> Handle {
    let (complete, freed) = (Cell::new(false), Cell::new(false));
    enter(cs, Request::Generalized(Rc::new(Generalized { callbacks, complete, freed })))
}

/// `MPI_Grequest_complete`.
pub fn complete(cs: &mut Section, handle: Handle) -> Result {
    let found = REQUESTS.get(cs).with(handle, |request| match request {
        Request::Generalized(g) => Some(Rc::clone(g)),
        _ => None,
    });
    let Some(Some(g)) = found else { return Err(unknown()) };
    g.complete.set(true);
    sleepers::happened(cs);
    if g.freed.get() {
        REQUESTS.get(cs).remove(handle);
        return g.free(cs);
    }
    Ok(())
}
