//! Error handlers (MPI-5.0, 9.3). Which one an error goes to, [`crate::owner`] says.

use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use base::{Result, ensure, fail, log};
use std::cell::Cell;
use std::rc::Rc;

base::config! {
    /// Error handler until the program sets another one: mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return.
    INITIAL_ERRHANDLER: text = "mpi_errors_are_fatal";
}

/// `MPI_ERRHANDLER_NULL`.
pub const ERRHANDLER_NULL: Handle = Handle(0x140);
/// `MPI_ERRORS_ARE_FATAL`.
pub const ERRORS_ARE_FATAL: Handle = Handle(0x141);
/// `MPI_ERRORS_ABORT`.
pub const ERRORS_ABORT: Handle = Handle(0x142);
/// `MPI_ERRORS_RETURN`.
pub const ERRORS_RETURN: Handle = Handle(0x143);

/// `MPI_{Comm,Win,File,Session}_errhandler_function`: object, error code, nothing more.
pub type HandlerFunction = unsafe extern "C" fn(*mut Handle, *mut i32, ...);

/// What kind of object a handler was made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Target {
    Comm,
    Window,
    File,
    Session,
}

/// A handler that the program has made.
pub struct UserHandler {
    handle: Cell<Handle>,
    target: Target,
    function: HandlerFunction,
}

impl Named for UserHandler {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl UserHandler {
    /// Calls the program's function for an error of the object `handle`.
    pub fn call(&self, mut handle: Handle, mut code: i32) {
        // SAFETY: the program gave a function of this type; nothing is borrowed meanwhile.
        unsafe { (self.function)(&mut handle, &mut code) };
    }
}

/// An error handler.
#[derive(Clone)]
pub enum Errhandler {
    /// `MPI_ERRORS_ARE_FATAL`: ends the job.
    Fatal,
    /// `MPI_ERRORS_ABORT`: ends the processes of the communicator, as `MPI_Abort` does.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A handler of the program.
    User(Rc<UserHandler>),
}

static HANDLERS: Inside<Table<Rc<UserHandler>>> = Inside::new(Table::new(Kind::Errhandler));

/// `MPI_*_create_errhandler`.
pub fn create(target: Target, function: Option<HandlerFunction>) -> Result<Handle> {
    match function {
        Some(function) => Ok(HANDLERS.enter(Rc::new(UserHandler { handle: Cell::default(), target, function }))),
        None => fail!(ERR_ARG, "the error handler function is null"),
    }
}

/// The handler of a live handle.
pub fn from_handle(handle: Handle) -> Result<Errhandler> {
    Ok(match handle {
        ERRORS_ARE_FATAL => Errhandler::Fatal,
        ERRORS_ABORT => Errhandler::Abort,
        ERRORS_RETURN => Errhandler::Return,
        _ => match HANDLERS.get(handle) {
            Some(user) => Errhandler::User(user),
            None => fail!(ERR_ERRHANDLER, "no such error handler"),
        },
    })
}

/// As [`from_handle`], for an object of kind `target`.
pub fn for_target(handle: Handle, target: Target) -> Result<Errhandler> {
    let handler = from_handle(handle)?;
    if let Errhandler::User(user) = &handler {
        ensure!(user.target == target, ERR_ERRHANDLER, "the error handler is for another kind of object");
    }
    Ok(handler)
}

/// `MPI_*_get_errhandler`: a handle that the program owns once more.
pub fn share(handler: &Errhandler) -> Handle {
    match handler {
        Errhandler::Fatal => ERRORS_ARE_FATAL,
        Errhandler::Abort => ERRORS_ABORT,
        Errhandler::Return => ERRORS_RETURN,
        Errhandler::User(user) => HANDLERS.share(user),
    }
}

/// `MPI_Errhandler_free`. Objects that use the handler keep it. Freeing what `MPI_*_get_errhandler` returned is allowed
/// for predefined handlers too.
pub fn free(handle: Handle) -> Result {
    if let Errhandler::User(_) = from_handle(handle)? {
        HANDLERS.release(handle);
    }
    Ok(())
}

/// The value of the info key `mpi_initial_errhandler`.
pub fn named(name: &str) -> Option<Errhandler> {
    match name {
        "mpi_errors_are_fatal" => Some(Errhandler::Fatal),
        "mpi_errors_abort" => Some(Errhandler::Abort),
        "mpi_errors_return" => Some(Errhandler::Return),
        _ => None,
    }
}

/// The initial error handler (9.1.1).
pub fn initial() -> Errhandler {
    let name = INITIAL_ERRHANDLER.value();
    named(name).unwrap_or_else(|| {
        log!(Warn, "FERRULE_INITIAL_ERRHANDLER={name} is not an error handler; using mpi_errors_are_fatal");
        Errhandler::Fatal
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;
    use std::cell::RefCell;

    thread_local! {
        static CALLS: RefCell<Vec<(usize, i32)>> = const { RefCell::new(Vec::new()) };
    }

    unsafe extern "C" fn note(handle: *mut Handle, code: *mut i32) {
        // SAFETY: `call` passes valid places.
        let call = unsafe { ((*handle).0, *code) };
        CALLS.with(|c| c.borrow_mut().push(call));
    }

    fn note_handler() -> HandlerFunction {
        // SAFETY: the C calling convention passes these two arguments alike with and without the ellipsis.
        unsafe { std::mem::transmute::<usize, HandlerFunction>(note as *const () as usize) }
    }

    #[test]
    fn handlers_live_as_long_as_somebody_uses_them() {
        let _guard = crate::cs::enter();
        let handle = create(Target::Comm, Some(note_handler())).unwrap();
        let used = for_target(handle, Target::Comm).unwrap();
        assert_eq!(for_target(handle, Target::Session).err().unwrap().class, Class::ERR_ERRHANDLER);
        assert_eq!(share(&used), handle);
        free(handle).unwrap();
        free(handle).unwrap();
        assert!(free(handle).is_err());
        let Errhandler::User(user) = &used else { panic!("a handler of the program") };
        user.call(Handle(5), 16);
        assert_eq!(CALLS.with(|c| c.take()), [(5, 16)]);
        let again = share(&used);
        assert_ne!(again, handle);
        free(again).unwrap();
    }

    #[test]
    fn predefined_handlers_have_their_handles() {
        let _guard = crate::cs::enter();
        for handle in [ERRORS_ARE_FATAL, ERRORS_ABORT, ERRORS_RETURN] {
            assert_eq!(share(&from_handle(handle).unwrap()), handle);
            free(handle).unwrap();
        }
        assert_eq!(from_handle(ERRHANDLER_NULL).err().unwrap().class, Class::ERR_ERRHANDLER);
        assert!(named("mpi_errors_return").is_some());
        assert!(named("nonsense").is_none());
    }
}
