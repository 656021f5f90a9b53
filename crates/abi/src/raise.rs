//! Whose error handler is called (MPI-5.0, 9.3), and what an object says about the other arguments of a call.

use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::ctypes::{CComm, CFile, CSession, CWin};
use crate::lookup;
use base::{Class, Error, Result};
use core::ffi::c_int;
use mpi::cs::{self, Guard, Section};
use mpi::handle::Handle;
use mpi::{io, life, owner, request, rma, session};
use std::rc::Rc;

/// The object whose error handler is called.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// No object: the handler of `MPI_COMM_SELF`.
    Process,
    /// As `Process`, of a function that any thread may call at any time: its errors are never those of a request.
    Anytime,
    /// A communicator.
    Comm(CComm),
    /// A session.
    Session(Handle),
    /// A file. Errors of `MPI_FILE_NULL` and of no file go to the handler that new files begin with.
    File(Handle),
    /// A window.
    Win(CWin),
    /// None: functions of the tool interface only return their code (MPI-5.0, 15.3.9).
    Tool,
}

/// What the checks of other arguments need to know of the object that a call is about.
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
    fn scope(self, cs: &Section) -> Result<Scope>;
}

/// Raises `error` of function `name`; returns the error code if the handler returns.
#[cold]
#[inline(never)]
pub fn fail(on: On, error: Error, name: &'static str, mut inside: Guard) -> c_int {
    // Error handlers and error codes belong to all threads, whatever the level of thread support.
    cs::locked(inside.section(), |cs| raise(cs, on, error, name))
}

fn raise(cs: &mut Section, on: On, error: Error, name: &'static str) -> c_int {
    Chosen::code(match on {
        On::Tool => tool_class(error.class),
        On::Anytime => owner::raise_from(cs, name, None, error),
        On::Comm(c) => match lookup::comm(cs, c) {
            Ok(comm) => owner::raise_from(cs, name, Some(&comm.owner), error),
            Err(_) => raise_on_process(cs, error, name),
        },
        On::Session(handle) => match session::from_handle(cs, handle) {
            Ok(session) => owner::raise_from(cs, name, Some(&session.owner), error),
            Err(_) => raise_on_process(cs, error, name),
        },
        On::File(handle) => {
            let found = io::from_handle(cs, handle).map(|file| Rc::clone(&file.owner));
            let owner = found.unwrap_or_else(|_| io::default_owner(cs));
            owner::raise_from(cs, name, Some(&owner), error)
        }
        On::Win(c) => match rma::from_handle(cs, c.known()) {
            Ok(win) => owner::raise_from(cs, name, Some(&win.owner), error),
            Err(_) => raise_on_process(cs, error, name),
        },
        On::Process => raise_on_process(cs, error, name),
    })
}

/// Errors of requests belong to the request's communicator, others to none.
fn raise_on_process(cs: &mut Section, error: Error, name: &'static str) -> Class {
    let owner = request::take_error_comm(cs);
    owner::raise_from(cs, name, owner.as_deref(), error)
}

/// Functions of the tool interface return classes of their own only; what is wrong with an argument in general is a wrong use of it.
fn tool_class(class: Class) -> Class {
    match (Class::T_ERR_CANNOT_INIT.0..=Class::T_ERR_PVAR_NO_ATOMIC.0).contains(&class.0) {
        true => class,
        false => Class::T_ERR_INVALID,
    }
}

/// Whether a function of the tool interface may be called.
pub fn ensure_tool(cs: &Section, name: &str) -> Result {
    if name == "MPI_T_init_thread" { Ok(()) } else { mpi::tool::ensure_initialized(cs) }
}

/// Whether MPI is initialised and not finalised.
#[inline(always)]
pub fn ensure_running() -> Result {
    life::ensure_running()
}

impl Raise for CComm {
    #[inline(always)]
    fn on(self) -> On {
        On::Comm(self)
    }

    #[inline(always)]
    fn scope(self, cs: &Section) -> Result<Scope> {
        lookup::with_comm(cs, self, |comm| Scope { ranks: comm.peer_size(), inter: comm.is_inter() })
    }
}

impl Raise for CWin {
    fn on(self) -> On {
        On::Win(self)
    }

    fn scope(self, _cs: &Section) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl Raise for CFile {
    fn on(self) -> On {
        On::File(self.known())
    }

    fn scope(self, _cs: &Section) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

impl Raise for CSession {
    fn on(self) -> On {
        On::Session(self.known())
    }

    fn scope(self, _cs: &Section) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}

/// Functions that free an object get its handle's address.
impl<T: Raise> Raise for *mut T {
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the C function's caller vouches for the address")]
    fn on(self) -> On {
        // SAFETY: null, or the program passed the address of a handle.
        unsafe { self.as_ref() }.map_or(On::Process, |handle| handle.on())
    }

    fn scope(self, _cs: &Section) -> Result<Scope> {
        Ok(Scope::NONE)
    }
}
