//! Whose error handler is called (MPI-5.0, 9.3), and what an object says about the other arguments of a call.

use crate::kinds::{CComm, CFile, CSession, CWin};
use base::{Error, Result};
use core::ffi::c_int;
use mpi::cs::Guard;
use mpi::handle::Handle;

/// The object whose error handler is called.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// No object: the handler of `MPI_COMM_SELF`.
    Process,
    /// A communicator.
    Comm(Handle),
    /// A window.
    Win(Handle),
    /// A file.
    File(Handle),
    /// A session.
    Session(Handle),
}

/// What the checks of other arguments need to know of the object a call is about.
pub struct Scope {
    /// Number of ranks that messages can go to.
    pub ranks: i32,
    /// Whether these are in another group than this process.
    pub inter: bool,
}

impl Scope {
    /// A call without a communicator.
    pub const NONE: Scope = Scope { ranks: 0, inter: false };
}

/// Objects with an error handler.
pub trait Raise: Copy {
    /// The object, for [`fail`].
    fn on(self) -> On;
    /// Checks the handle.
    fn scope(self) -> Result<Scope>;
}

/// Raises `error` of function `name`; returns the error code if the handler returns.
#[cold]
#[inline(never)]
pub fn fail(on: On, error: Error, name: &'static str, inside: Guard) -> c_int {
    base::log!(Debug, "{name}: {:?} ({}) on {on:?}", error.class, error.origin);
    drop(inside);
    error.class.0
}

/// Whether MPI is initialised and not finalised.
#[inline(always)]
pub fn ensure_running() -> Result {
    Ok(())
}

impl Raise for CComm {
    #[inline(always)]
    fn on(self) -> On {
        On::Comm(self.0)
    }
    #[inline(always)]
    fn scope(self) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl Raise for CWin {
    fn on(self) -> On {
        On::Win(self.0)
    }
    fn scope(self) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl Raise for CFile {
    fn on(self) -> On {
        On::File(self.0)
    }
    fn scope(self) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl Raise for CSession {
    fn on(self) -> On {
        On::Session(self.0)
    }
    fn scope(self) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl<T: Raise> Raise for *mut T
where
    *mut T: Copy,
{
    fn on(self) -> On {
        // SAFETY: null, or the program passed the address of a handle.
        unsafe { self.as_ref() }.map_or(On::Process, |handle| handle.on())
    }
    fn scope(self) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}
