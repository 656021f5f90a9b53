//! Sessions and process sets (MPI-5.0, 11.3).
//!
//! There are two process sets: `mpi://WORLD`, all processes of the job, and `mpi://SELF`. Groups made from them remember
//! the session, and so do the communicators made from those.

use crate::errhandler::{self, Errhandler, Target};
use crate::group::Group;
use crate::handle::{Handle, Kind, Named, Table};
use crate::info::Info;
use crate::inside::Inside;
use crate::p2p::buffered::Slot;
use crate::status::UNDEFINED;
use crate::thread::Level;
use crate::{comm, init};
use base::{Peer, Result, ensure, fail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `MPI_SESSION_NULL`.
pub const SESSION_NULL: Handle = Handle(0x120);

/// `MPI_MAX_PSET_NAME_LEN`, with the terminating zero.
pub const MAX_PSET_NAME_LEN: usize = 1024;

const WORLD: &str = "mpi://WORLD";
const SELF: &str = "mpi://SELF";
const PSETS: [&str; 2] = [WORLD, SELF];

/// A session.
pub struct Session {
    handle: Cell<Handle>,
    errhandler: RefCell<Errhandler>,
    level: Level,
    /// Buffer for buffered sends.
    pub buffer: Slot,
}

impl Named for Session {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

static SESSIONS: Inside<Table<Rc<Session>>> = Inside::new(Table::new(Kind::Session));

/// The session of a live handle.
pub fn from_handle(handle: Handle) -> Result<Rc<Session>> {
    match SESSIONS.get(handle) {
        Some(session) => Ok(session),
        None => fail!(ERR_SESSION, "no such session"),
    }
}

/// `MPI_Session_init`. Without the key `thread_level` several threads may call: libraries that don't know of each other
/// each have a session.
pub fn init(info: Option<&Info>, errhandler: Handle) -> Result<Rc<Session>> {
    let errhandler = errhandler::for_target(errhandler, Target::Session)?;
    let named = info.and_then(|info| info.text("thread_level")).and_then(|name| Level::named(&name));
    let level = named.unwrap_or(Level::Multiple);
    init::join(level)?;
    let session =
        Session { handle: Cell::default(), errhandler: RefCell::new(errhandler), level, buffer: Slot::default() };
    let session = Rc::new(session);
    SESSIONS.enter(Rc::clone(&session));
    Ok(session)
}

/// `MPI_Session_finalize`.
pub fn finalize(session: &Rc<Session>) -> Result {
    crate::p2p::buffered::detach(&session.buffer)?;
    ensure!(SESSIONS.remove(session.handle.get()).is_some(), ERR_SESSION, "no such session");
    init::leave(session.level)
}

/// `MPI_Session_get_num_psets`.
pub fn pset_count() -> i32 {
    PSETS.len() as i32
}

/// `MPI_Session_get_nth_pset`.
pub fn nth_pset(n: i32) -> Result<&'static str> {
    match usize::try_from(n).ok().and_then(|n| PSETS.get(n)) {
        Some(name) => Ok(name),
        None => fail!(ERR_ARG, "no process set has this number"),
    }
}

/// `MPI_Session_get_pset_info`.
pub fn pset_info(name: &[u8]) -> Result<Info> {
    let size = match lookup(name)? {
        WORLD => init::world_size(),
        _ => 1,
    };
    let info = Info::new();
    info.put("mpi_size", size.to_string().as_bytes());
    Ok(info)
}

/// Names of process sets are URIs; their scheme and ours after it don't depend on the case.
fn lookup(name: &[u8]) -> Result<&'static str> {
    match PSETS.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        Some(known) => Ok(known),
        None => fail!(ERR_ARG, "no such process set"),
    }
}

/// `MPI_Group_from_session_pset`.
pub fn group_from_pset(session: &Rc<Session>, name: &[u8]) -> Result<Rc<Group>> {
    let members: Vec<Peer> = match lookup(name)? {
        WORLD => (0..init::world_size()).map(Peer).collect(),
        _ => vec![init::me()],
    };
    Ok(Rc::new(Group::of_session(members, Rc::clone(session))))
}

/// For `MPI_Comm_split_type`: who has the same number is in the same set of this name.
pub(crate) fn colour_of_pset(name: &str) -> i32 {
    match lookup(name.as_bytes()) {
        Ok(WORLD) => 0,
        Ok(_) => init::me().0 as i32,
        Err(_) => UNDEFINED,
    }
}

impl Session {
    /// The handle.
    pub fn handle(&self) -> Handle {
        self.handle.get()
    }

    /// The error handler in force.
    pub fn errhandler(&self) -> Errhandler {
        self.errhandler.borrow().clone()
    }

    /// `MPI_Session_set_errhandler`.
    pub fn set_errhandler(&self, handle: Handle) -> Result {
        let new = errhandler::for_target(handle, Target::Session)?;
        *self.errhandler.borrow_mut() = new;
        Ok(())
    }

    /// `MPI_Session_get_errhandler`: a handle that the program owns.
    pub fn get_errhandler(&self) -> Handle {
        errhandler::share(&self.errhandler())
    }

    /// `MPI_Session_get_info`.
    pub fn info(&self) -> Info {
        let info = Info::new();
        info.put("thread_level", self.level.name().as_bytes());
        info.put("mpi_memory_alloc_kinds", comm::MEMORY_KINDS.as_bytes());
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn process_sets_have_numbers_and_names() {
        assert_eq!(nth_pset(0), Ok(WORLD));
        assert_eq!(nth_pset(pset_count()).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(nth_pset(-1).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(lookup(b"MPI://world"), Ok(WORLD));
        assert_eq!(lookup(b"mpi://other").unwrap_err().class, Class::ERR_ARG);
    }
}
