//! Error handlers (MPI-5.0, 9.3). Which one an error goes to, [`crate::owner`] says.

use crate::cs::Section;
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use base::{Class, Result, ensure, fail, log};
use std::cell::Cell;
use std::sync::Arc;

base::config! {
    /// Error handler until the program sets another one: mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return.
    INITIAL_ERRHANDLER: text = "mpi_errors_are_fatal";
}

/// What the program does with an error of an object. Returns what the call that has failed returns: the handler gets its code by address (9.3.1).
pub type Function = Box<dyn Fn(&mut Section, Handle, Class) -> Class>;

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
    function: Function,
}

impl Named for UserHandler {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl UserHandler {
    /// Calls the program's function for an error of the object `handle`.
    pub fn call(&self, cs: &mut Section, handle: Handle, class: Class) -> Class {
        // Nothing is borrowed meanwhile.
        (self.function)(cs, handle, class)
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
    /// A handler of the program. Counted by atomics: below `MPI_THREAD_MULTIPLE` one thread may free it (`MPI_Errhandler_free`) while another
    /// one makes a communicator that gets it.
    User(Arc<UserHandler>),
}

static HANDLERS: Inside<Table<Arc<UserHandler>>> = Inside::new(Table::new(Kind::Errhandler));

/// Whether one more has room.
pub fn ensure_room(cs: &Section) -> Result {
    HANDLERS.get(cs).ensure_room()
}

/// `MPI_*_create_errhandler`.
pub fn create(cs: &Section, target: Target, function: Function) -> Handle {
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "other threads only count it; it is used inside the critical section"
    )]
    HANDLERS.get(cs).enter(Arc::new(UserHandler { handle: Cell::default(), target, function }))
}

/// The handler of a live handle.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Errhandler> {
    Ok(match handle {
        Handle::ERRORS_ARE_FATAL => Errhandler::Fatal,
        Handle::ERRORS_ABORT => Errhandler::Abort,
        Handle::ERRORS_RETURN => Errhandler::Return,
        _ => match HANDLERS.get(cs).get(handle) {
            Some(user) => Errhandler::User(user),
            None => fail!(ERR_ERRHANDLER, "no such error handler"),
        },
    })
}

/// As [`from_handle`], for an object of kind `target`.
pub fn for_target(cs: &Section, handle: Handle, target: Target) -> Result<Errhandler> {
    let handler = from_handle(cs, handle)?;
    if let Errhandler::User(user) = &handler {
        ensure!(user.target == target, ERR_ERRHANDLER, "the error handler is for another kind of object");
    }
    Ok(handler)
}

/// `MPI_*_get_errhandler`: a handle that the program owns once more.
pub fn share(cs: &Section, handler: &Errhandler) -> Handle {
    match handler {
        Errhandler::Fatal => Handle::ERRORS_ARE_FATAL,
        Errhandler::Abort => Handle::ERRORS_ABORT,
        Errhandler::Return => Handle::ERRORS_RETURN,
        Errhandler::User(user) => HANDLERS.get(cs).share(user),
    }
}

/// `MPI_Errhandler_free`. Objects that use the handler keep it. Freeing what `MPI_*_get_errhandler` returned is allowed
/// for predefined handlers too.
pub fn free(cs: &Section, handle: Handle) -> Result {
    if let Errhandler::User(_) = from_handle(cs, handle)? {
        HANDLERS.get(cs).release(handle);
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
    use std::cell::RefCell;

    thread_local! {
        static CALLS: RefCell<Vec<(Handle, Class)>> = const { RefCell::new(Vec::new()) };
    }

    fn note(_cs: &mut Section, handle: Handle, class: Class) -> Class {
        CALLS.with(|c| c.borrow_mut().push((handle, class)));
        Class::SUCCESS
    }

    #[test]
    fn handlers_live_as_long_as_somebody_uses_them() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let handle = create(cs, Target::Comm, Box::new(note));
        let used = for_target(cs, handle, Target::Comm).unwrap();
        assert_eq!(for_target(cs, handle, Target::Session).err().unwrap().class, Class::ERR_ERRHANDLER);
        assert_eq!(share(cs, &used), handle);
        free(cs, handle).unwrap();
        free(cs, handle).unwrap();
        assert!(free(cs, handle).is_err());
        let Errhandler::User(user) = &used else { panic!("a handler of the program") };
        assert_eq!(user.call(cs, Handle(5), Class::ERR_OTHER), Class::SUCCESS);
        assert_eq!(CALLS.with(|c| c.take()), [(Handle(5), Class::ERR_OTHER)]);
        let again = share(cs, &used);
        assert_ne!(again, handle);
        free(cs, again).unwrap();
    }

    #[test]
    fn predefined_handlers_have_their_handles() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        for handle in [Handle::ERRORS_ARE_FATAL, Handle::ERRORS_ABORT, Handle::ERRORS_RETURN] {
            assert_eq!(share(cs, &from_handle(cs, handle).unwrap()), handle);
            free(cs, handle).unwrap();
        }
        assert_eq!(from_handle(cs, Handle::NONE).err().unwrap().class, Class::ERR_ERRHANDLER);
        assert!(named("mpi_errors_return").is_some());
        assert!(named("nonsense").is_none());
    }
}
