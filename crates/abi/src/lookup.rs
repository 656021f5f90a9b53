//! From handles to objects. Predefined objects live as long as the process and are lent; others are held by a count.

use crate::chosen::{COMM_SELF, COMM_WORLD, Chosen, OP_INDICES, TYPE_INDICES, is_predefined, op_index, type_index};
use crate::convert::{Abi, number};
use crate::ctypes::{CComm, CFile, COp, CType, Raw};
use base::{Class, Error, Result, ensure};
use core::mem::ManuallyDrop;
use core::ops::Deref;
use mpi::comm::{self, Comm};
use mpi::cs::Section;
use mpi::datatype::{self, Datatype};
use mpi::handle::{Handle, Named, Table};
use mpi::io;
use mpi::op::{self, Op};
use mpi::owner::Owner;
use std::rc::Rc;
use std::sync::LazyLock;

/// An object during a call: the program may free its handle meanwhile, from a callback or another thread.
pub struct Held<T: 'static> {
    /// A copy of a predefined object's pointer, or a count of our own.
    object: ManuallyDrop<Rc<T>>,
    owned: bool,
}

impl<T> Held<T> {
    /// A predefined object, which lives as long as the process: its count stays as it is.
    #[inline(always)]
    pub fn lent(object: &'static Rc<T>) -> Held<T> {
        // SAFETY: `object` is never dropped, and neither is the copy, because it is not owned.
        Held { object: ManuallyDrop::new(unsafe { std::ptr::read(object) }), owned: false }
    }

    /// An object made by the program.
    #[inline(always)]
    fn owned(object: Rc<T>) -> Held<T> {
        Held { object: ManuallyDrop::new(object), owned: true }
    }
}

impl<T> Drop for Held<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the count is ours, and nobody uses the object after this.
            unsafe { ManuallyDrop::drop(&mut self.object) }
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = Rc<T>;
    #[inline(always)]
    fn deref(&self) -> &Rc<T> {
        &self.object
    }
}

/// The core's name of an object that the program has made; none of a value that can't be one.
#[inline(always)]
fn made(handle: Raw) -> Handle {
    Chosen::made(handle)
}

#[inline(always)]
fn live<T: Named>(table: &Table<Rc<T>>, handle: Handle, class: Class, what: &'static str) -> Result<Held<T>> {
    table.get(handle).map(Held::owned).ok_or(Error::new(class, what))
}

/// A communicator.
#[inline(always)]
pub fn comm(cs: &Section, c: CComm) -> Result<Held<Comm>> {
    let predefined = match c.0 {
        COMM_WORLD => comm::world(cs),
        COMM_SELF => comm::own(cs),
        _ => return live(comm::COMMS.get(cs), made(c.0), Class::ERR_COMM, "not the handle of a live communicator"),
    };
    match predefined {
        Some(comm) => Ok(Held::lent(comm)),
        None => base::fail!(ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF need the world model"),
    }
}

/// A communicator, lent.
///
/// # Safety
/// No communicator is made or freed as long as it is used.
#[inline(always)]
pub unsafe fn borrow_comm(cs: &Section, c: CComm) -> Option<&Rc<Comm>> {
    match c.0 {
        COMM_WORLD => comm::world(cs),
        COMM_SELF => comm::own(cs),
        // SAFETY: by the caller.
        _ => unsafe { comm::COMMS.get(cs).borrow(made(c.0)) },
    }
}

/// What has the error handler of a file; of `MPI_FILE_NULL` the one that new files begin with.
pub fn file_owner(cs: &Section, c: CFile) -> Result<Rc<Owner>> {
    if c.known() == Handle::NONE {
        return Ok(io::default_owner(cs));
    }
    io::from_handle(cs, c.known()).map(|file| Rc::clone(&file.owner))
}

/// What `f` says of a communicator, without holding it.
#[inline(always)]
pub fn with_comm<R>(cs: &Section, c: CComm, f: impl FnOnce(&Comm) -> R) -> Result<R> {
    if is_predefined(c.0) {
        return comm(cs, c).map(|comm| f(&comm));
    }
    let found = comm::COMMS.get(cs).with(made(c.0), |comm| f(comm));
    found.ok_or(Error::new(Class::ERR_COMM, "not the handle of a live communicator"))
}

/// The predefined objects by their handle's value.
struct Predefined {
    types: [Option<Rc<Datatype>>; TYPE_INDICES],
    ops: [Option<Rc<Op>>; OP_INDICES],
}

// SAFETY: every caller in the library holds the critical section, or no other thread calls it, so only one thread at a time touches the
// reference counts.
unsafe impl Sync for Predefined {}
// SAFETY: as above; nothing in here belongs to a particular thread.
unsafe impl Send for Predefined {}

static PREDEFINED: LazyLock<Predefined> = LazyLock::new(|| {
    let (mut types, mut ops) = ([const { None }; TYPE_INDICES], [const { None }; OP_INDICES]);
    for (value, name) in Chosen::TYPES {
        types[type_index(*value)] = Some(Rc::clone(datatype::predefined(*name)));
    }
    for (value, which) in Chosen::OPS {
        ops[op_index(*value)] = Some(Rc::clone(op::predefined(*which)));
    }
    Predefined { types, ops }
});

/// A predefined datatype.
#[inline(always)]
pub fn named_type(c: CType) -> Option<&'static Rc<Datatype>> {
    PREDEFINED.types.get(type_index(c.0))?.as_ref()
}

#[inline(always)]
fn named_op(c: COp) -> Option<&'static Rc<Op>> {
    PREDEFINED.ops.get(op_index(c.0))?.as_ref()
}

/// A datatype.
#[inline(always)]
pub fn datatype(cs: &Section, c: CType) -> Result<Held<Datatype>> {
    if is_predefined(c.0) {
        return named_type(c).map(Held::lent).ok_or(Error::new(Class::ERR_TYPE, "not the handle of a datatype"));
    }
    live(datatype::DATATYPES.get(cs), made(c.0), Class::ERR_TYPE, "not the handle of a live datatype")
}

/// An operation.
#[inline(always)]
pub fn op(cs: &Section, c: COp) -> Result<Held<Op>> {
    if is_predefined(c.0) {
        return named_op(c).map(Held::lent).ok_or(Error::new(Class::ERR_OP, "not the handle of an operation"));
    }
    live(op::OPS.get(cs), made(c.0), Class::ERR_OP, "not the handle of a live operation")
}

/// A count that may not matter: checked when it does.
#[derive(Clone, Copy)]
pub struct LazyCount(pub i64);

/// A datatype that may not matter: looked up when it does.
#[derive(Clone, Copy)]
pub struct LazyType(pub CType);

impl LazyCount {
    /// The count.
    pub fn check(self) -> Result<usize> {
        ensure!(self.0 >= 0, ERR_COUNT, "negative count");
        Ok(self.0 as usize)
    }
}

impl LazyType {
    /// The datatype, which is committed.
    #[inline]
    pub fn check(self, cs: &Section) -> Result<Held<Datatype>> {
        self.check_unless(cs, || false)
    }

    /// The datatype of so many items.
    #[inline]
    pub fn check_for(self, cs: &Section, count: usize) -> Result<Held<Datatype>> {
        self.check_unless(cs, || count == 0)
    }

    /// The datatype. If there is no item it may be `MPI_DATATYPE_NULL`, as MPICH allows.
    #[inline]
    pub fn check_unless(self, cs: &Section, is_empty: impl FnOnce() -> bool) -> Result<Held<Datatype>> {
        let datatype = match datatype(cs, self.0) {
            Err(_) if self.0.known() == Handle::NONE && is_empty() => Held::lent(datatype::byte()),
            found => found?,
        };
        ensure!(datatype.is_committed(), ERR_TYPE, "datatype is not committed");
        Ok(datatype)
    }
}

/// The handle that the program has for a datatype already.
pub fn known_datatype(datatype: &Datatype) -> CType {
    c_named(datatype).unwrap_or_else(|| CType::of(datatype.handle_cell().get()))
}

/// The handle of a named datatype.
fn c_named(datatype: &Datatype) -> Option<CType> {
    datatype.named().and_then(|name| number(Chosen::TYPES, name)).map(CType)
}

/// A handle that the program owns for a datatype; predefined ones keep theirs.
pub fn share_datatype(cs: &Section, datatype: &Rc<Datatype>) -> CType {
    c_named(datatype).unwrap_or_else(|| CType::of(datatype::DATATYPES.get(cs).share(datatype)))
}

/// Runs `f` with a handle for a callback, which is live meanwhile: the program may have freed its own.
pub fn lend_datatype<R>(cs: &mut Section, datatype: &Rc<Datatype>, f: impl FnOnce(&mut Section, CType) -> R) -> R {
    match c_named(datatype) {
        Some(c) => f(cs, c),
        None => datatype::DATATYPES.lend(cs, datatype, |cs, handle| f(cs, CType::of(handle))),
    }
}
