//! Sessions (MPI-5.0, 11.3). Groups made from their process sets remember the session, and so do the communicators made from
//! those.

use crate::cs::Section;
use crate::errhandler::{self, Target};
use crate::group::Group;
use crate::handle::{Handle, Kind, Named, Table};
use crate::info::{Info, MEMORY_KINDS};
use crate::inside::Inside;
use crate::owner::Owner;
use crate::thread::Level;
use crate::{init, psets};
use base::{Result, ensure, fail};
use std::cell::Cell;
use std::rc::Rc;

/// `MPI_MAX_PSET_NAME_LEN`, with the terminating zero.
pub const MAX_PSET_NAME_LEN: usize = 1024;

/// A session.
pub struct Session {
    /// What groups and communicators of the session remember of it.
    pub owner: Rc<Owner>,
    level: Level,
}

impl Named for Session {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.owner.handle
    }
}

static SESSIONS: Inside<Table<Rc<Session>>> = Inside::new(Table::new(Kind::Session));

/// The session of a live handle.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<Session>> {
    match SESSIONS.get(cs).get(handle) {
        Some(session) => Ok(session),
        None => fail!(ERR_SESSION, "no such session"),
    }
}

/// Whether one more has room.
pub fn ensure_room(cs: &Section) -> Result {
    SESSIONS.get(cs).ensure_room()
}

/// `MPI_Session_init`. Without the key `thread_level` several threads may call: libraries that don't know of each other
/// each have a session. The level is lower where others rely on being alone ([`crate::life`]).
pub fn init(cs: &mut Section, info: Option<&Info>, errhandler: Handle) -> Result<Rc<Session>> {
    let errhandler = errhandler::for_target(cs, errhandler, Target::Session)?;
    let named = info.and_then(|info| info.text("thread_level")).and_then(|name| Level::named(&name));
    let level = named.unwrap_or(Level::Multiple);
    let level = init::join(cs, level)?;
    let session = Rc::new(Session { owner: Rc::new(Owner::of_session(errhandler)), level });
    SESSIONS.get(cs).enter(Rc::clone(&session));
    Ok(session)
}

/// `MPI_Session_finalize`.
pub fn finalize(cs: &mut Section, session: &Rc<Session>) -> Result {
    crate::p2p::buffered::detach(cs, Some(&session.owner))?;
    ensure!(SESSIONS.get(cs).remove(session.handle()).is_some(), ERR_SESSION, "no such session");
    init::leave(cs, session.level)
}

/// `MPI_Session_get_pset_info`.
pub fn pset_info(name: &[u8]) -> Result<Info> {
    let info = Info::new();
    info.put("mpi_size", psets::size(name)?.to_string().as_bytes());
    Ok(info)
}

/// `MPI_Group_from_session_pset`.
pub fn group_from_pset(session: &Rc<Session>, name: &[u8]) -> Result<Rc<Group>> {
    Ok(Rc::new(Group::of_session(psets::members(name)?, Rc::clone(&session.owner))))
}

impl Session {
    /// The handle.
    pub fn handle(&self) -> Handle {
        self.owner.handle.get()
    }

    /// `MPI_Session_get_info`.
    pub fn info(&self) -> Info {
        let info = Info::new();
        info.put("thread_level", self.level.name().as_bytes());
        info.put("mpi_memory_alloc_kinds", MEMORY_KINDS.as_bytes());
        info
    }
}
