//! One-sided communication (MPI-5.0, chapter 12; decision 0038).
//!
//! | file | what |
//! |---|---|
//! | `create.rs` | windows begin and end; what they know of their targets |
//! | `memory.rs` | memory that windows allocate, shared with the ranks of this kernel; words of locks in it |
//! | `epoch.rs` | which epochs a process is in, and what they allow |
//! | `active.rs` | fence, post, start, complete, wait (12.5.1, 12.5.2) |
//! | `passive.rs` | lock, unlock, flush, sync (12.5.3, 12.5.4) |
//! | `regions.rs` | what is attached to a dynamic window, for the ranks of this kernel |
//! | `target.rs` | which bytes of which target a call names, and how they are reached |
//! | `transfer.rs` | put and get (12.3.1, 12.3.2) |
//! | `accumulate.rs` | the accumulate family (12.3.4), of which each call is atomic for all others of its window |
//! | `message.rs`, `server.rs` | what goes by messages to a target, which serves them whenever it polls |
//! | `hints.rs` | info of windows (12.2.7) |
//!
//! Three ways lead to a target, in this order: its memory is mapped here; registered memory (`protocol::memory`), by single copy on a node and by packets
//! elsewhere; messages on a private communicator of the window. Locks are words in shared memory. Ranks of another kernel ask the target to take them on their
//! behalf, so all origins use the same words.

pub mod accumulate;
pub mod active;
pub mod create;
mod epoch;
mod hints;
mod memory;
mod message;
pub mod passive;
mod regions;
mod server;
pub mod target;
pub mod transfer;

pub use epoch::{Assertions, Mode};
pub use hints::{get_info, set_info};

use crate::attr::{AttrSet, Attributed, Holder, ObjectKind};
use crate::comm::Comm;
use crate::cs::Section;
use crate::group::Group;
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use crate::owner::Owner;
use base::{Class, Error, Peer, Result, log};
use channel::shm::heap::Part;
use epoch::Epochs;
use hints::Hints;
use memory::Memory;
use protocol::memory::Key;
use server::Traffic;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use sys::mem::Mapping;

/// How a window was made (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Flavor {
    Create,
    Allocate,
    Dynamic,
    Shared,
}

/// The predefined attributes of windows (12.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Attribute {
    Base,
    DispUnit,
    Size,
    Flavor,
    Model,
}

/// How far a window has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// It can be used.
    Open,
    /// All have freed it.
    Freed,
    /// This process has freed it, but a process was lost before all had done so: others may still ask, and are refused. Its memory stays, because they may have it mapped.
    FreedAfterLoss,
}

/// What a process knows of the memory of one rank.
struct Target {
    peer: Peer,
    size: usize,
    disp_unit: usize,
    /// Names its memory; of a window without memory there, nobody uses it.
    key: Option<Key>,
    /// The part of its heap with its words, and its memory if it was allocated; none if it shares nothing.
    part: Option<Part>,
    /// Where its memory begins, in the memory that rank 0 has allocated for all; 0 if that is not how it was allocated.
    offset: usize,
    /// That part, mapped here; looked for when it is first needed.
    near: OnceCell<Option<Mapping>>,
}

/// A window.
pub struct Window {
    /// Handle, name and error handler.
    pub owner: Rc<Owner>,
    /// How it was made.
    pub flavor: Flavor,
    /// This process's memory.
    pub base: *mut u8,
    /// Bytes of it.
    pub size: usize,
    /// Bytes per unit of displacement.
    pub disp_unit: usize,
    /// Where the integers of the predefined attributes lie: programs get their addresses.
    pub cells: [Cell<i64>; 4],
    attributes: AttrSet,
    /// The same processes, for messages of the library.
    comm: Rc<Comm>,
    targets: Vec<Target>,
    /// What this process has allocated; it goes when the window is freed.
    own: RefCell<Memory>,
    hints: RefCell<Hints>,
    epochs: RefCell<Epochs>,
    traffic: RefCell<Traffic>,
    /// Memory attached to a dynamic window: address, bytes, and the key of what isn't empty.
    attached: RefCell<BTreeMap<usize, (usize, Option<Key>)>>,
    /// The first error of an access without a request, for the next synchronisation.
    failed: Cell<Option<Error>>,
    life: Cell<Life>,
}

impl Named for Window {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.owner.handle
    }
}

impl Attributed for Window {
    const KIND: ObjectKind = ObjectKind::Window;
    fn attributes(&self) -> &AttrSet {
        &self.attributes
    }
    fn holder(&self) -> Holder<'_> {
        Holder::Window(self.owner.handle.get())
    }
}

/// Live windows.
pub static WINDOWS: Inside<Table<Rc<Window>>> = Inside::new(Table::new(Kind::Win));

/// The window of a live handle.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<Window>> {
    WINDOWS.get(cs).get(handle).ok_or(Error::new(Class::ERR_WIN, "not the handle of a live window"))
}

impl Window {
    /// The group of the window.
    pub fn group(&self) -> &Rc<Group> {
        &self.comm.group
    }

    /// `MPI_Win_set_name`; a longer name is cut.
    pub fn set_name(&self, name: &[u8]) {
        self.owner.set_name(&name[..name.len().min(crate::comm::MAX_OBJECT_NAME - 1)]);
    }

    fn me(&self) -> usize {
        self.comm.rank as usize
    }

    /// The error of a call that waits for processes of which one is gone; says which one.
    fn lost(&self, cs: &Section) -> Error {
        let is_lost = |peer| crate::losses::any(cs, |lost| lost == peer);
        let rank = self.targets.iter().position(|target| is_lost(target.peer));
        let name = self.owner.describe().unwrap_or_default();
        match rank {
            Some(rank) => log!(Error, "{name}: rank {rank} of its group is gone"),
            None => log!(Error, "{name}: a process of its group is gone"),
        }
        crate::losses::LOST
    }

    /// Takes the error of an access that nobody has been told of.
    fn take_failure(&self) -> Result {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn fail(&self, error: Error) {
        if self.failed.get().is_none() {
            self.failed.set(Some(error));
        }
    }
}
