//! Arguments of collectives (MPI-5.0, 6.2): which of them matter on this process, and in what form the core wants them.

use crate::ctypes::CType;
use crate::kinds::{Ints, slice};
use crate::lookup::{Held, LazyCount, LazyType};
use base::{Result, ensure};
use mpi::coll::args::{BlockBuffer, Buffer, ReduceArgs};
use mpi::comm::Comm;
use mpi::cs::Section;
use mpi::datatype::{self, Datatype};
use mpi::op::Op;
use mpi::status::PROC_NULL;
use mpi::topo;
use std::rc::Rc;

/// Whether this process has no data at all.
#[inline]
pub fn is_idle(comm: &Comm, root: i32) -> bool {
    comm.is_inter() && root == PROC_NULL
}

/// Address, count and type.
pub struct Part {
    ptr: *mut u8,
    count: usize,
    datatype: Held<Datatype>,
}

/// The argument if it matters.
#[inline]
pub fn part(cs: &Section, matters: bool, ptr: *const u8, count: LazyCount, datatype: LazyType) -> Result<Option<Part>> {
    if !matters {
        return Ok(None);
    }
    Part::new(cs, ptr.cast_mut(), count, datatype).map(Some)
}

impl Part {
    /// An argument that always matters.
    #[inline]
    pub fn new(cs: &Section, ptr: *mut u8, count: LazyCount, datatype: LazyType) -> Result<Part> {
        let count = count.check()?;
        Ok(Part { ptr, count, datatype: datatype.check_for(cs, count)? })
    }

    /// No data.
    pub fn nothing() -> Part {
        Part { ptr: std::ptr::null_mut(), count: 0, datatype: Held::lent(datatype::byte()) }
    }

    /// As one buffer.
    #[inline]
    pub fn buffer(&self) -> Buffer<'_> {
        Buffer { ptr: self.ptr, count: self.count, datatype: &self.datatype }
    }

    /// As one block for each process.
    #[inline]
    pub fn blocks(&self) -> BlockBuffer<'_> {
        BlockBuffer::Even(self.buffer())
    }
}

/// Counts and displacements.
pub struct Listed {
    ptr: *mut u8,
    counts: mpi::coll::ints::Ints<'static>,
    displs: mpi::coll::ints::Ints<'static>,
    datatype: Held<Datatype>,
}

/// The first `n` numbers of an array.
///
/// # Safety
/// They stay where they are during the call.
unsafe fn ints(array: Ints, n: usize) -> mpi::coll::ints::Ints<'static> {
    // SAFETY: by the caller.
    unsafe {
        match array {
            Ints::Narrow(p) => mpi::coll::ints::Ints::from_i32(p, n),
            Ints::Wide(p) => mpi::coll::ints::Ints::from_i64(p, n),
        }
    }
}

/// The argument for `n` processes, if it matters.
///
/// # Safety
/// As for [`Listed::new`].
pub unsafe fn listed(
    cs: &Section,
    matters: bool,
    ptr: *const u8,
    counts: Ints,
    displs: Ints,
    datatype: LazyType,
    n: usize,
) -> Result<Option<Listed>> {
    if !matters {
        return Ok(None);
    }
    // SAFETY: by the caller.
    unsafe { Listed::new(cs, ptr.cast_mut(), counts, displs, datatype, n) }.map(Some)
}

impl Listed {
    /// An argument that always matters.
    ///
    /// # Safety
    /// The arrays have `n` elements and stay where they are during the call.
    pub unsafe fn new(
        cs: &Section,
        ptr: *mut u8,
        counts: Ints,
        displs: Ints,
        datatype: LazyType,
        n: usize,
    ) -> Result<Listed> {
        ensure!(n == 0 || !(counts.is_null() || displs.is_null()), ERR_ARG, "null pointer for counts or displacements");
        // SAFETY: by the caller.
        let (counts, displs) = unsafe { (ints(counts, n), ints(displs, n)) };
        let datatype = datatype.check_unless(cs, || (0..n).all(|rank| counts.get(rank) == 0))?;
        Ok(Listed { ptr, counts, displs, datatype })
    }

    /// As the core wants it.
    #[inline]
    pub fn blocks(&self) -> BlockBuffer<'_> {
        let Listed { ptr, counts, displs, ref datatype } = *self;
        BlockBuffer::Listed { ptr, counts, displs, datatype }
    }
}

/// Counts, displacements in bytes and types.
pub struct Typed {
    ptr: *mut u8,
    counts: mpi::coll::ints::Ints<'static>,
    displs: mpi::coll::ints::Ints<'static>,
    datatypes: Vec<Rc<Datatype>>,
}

/// The argument for `n` processes, if it matters.
///
/// # Safety
/// As for [`Typed::new`].
pub unsafe fn typed(
    cs: &Section,
    matters: bool,
    ptr: *const u8,
    counts: Ints,
    displs: Ints,
    types: *const CType,
    n: usize,
) -> Result<Option<Typed>> {
    if !matters {
        return Ok(None);
    }
    // SAFETY: by the caller.
    unsafe { Typed::new(cs, ptr.cast_mut(), counts, displs, types, n) }.map(Some)
}

impl Typed {
    /// An argument that always matters.
    ///
    /// # Safety
    /// The arrays have `n` elements and stay where they are during the call.
    pub unsafe fn new(
        cs: &Section,
        ptr: *mut u8,
        counts: Ints,
        displs: Ints,
        types: *const CType,
        n: usize,
    ) -> Result<Typed> {
        let missing = counts.is_null() || displs.is_null() || types.is_null();
        ensure!(n == 0 || !missing, ERR_ARG, "null pointer for counts, displacements or datatypes");
        // SAFETY: by the caller.
        let (counts, displs, types) = unsafe { (ints(counts, n), ints(displs, n), slice(types, n)) };
        let of_rank =
            |(i, c): (usize, &CType)| LazyType(*c).check_unless(cs, || counts.get(i) == 0).map(|held| Rc::clone(&held));
        let datatypes = types.iter().enumerate().map(of_rank);
        Ok(Typed { ptr, counts, displs, datatypes: datatypes.collect::<Result<_>>()? })
    }

    /// As the core wants it.
    #[inline]
    pub fn blocks(&self) -> BlockBuffer<'_> {
        let Typed { ptr, counts, displs, ref datatypes } = *self;
        BlockBuffer::Typed { ptr, counts, displs, datatypes }
    }
}

/// Counts of a reduction that is scattered.
///
/// # Safety
/// The array has `n` elements and stays where it is during the call.
pub unsafe fn counts(array: Ints, n: usize) -> Result<mpi::coll::ints::Ints<'static>> {
    ensure!(n == 0 || !array.is_null(), ERR_ARG, "null pointer for counts");
    // SAFETY: by the caller.
    Ok(unsafe { ints(array, n) })
}

/// The arguments of a reduction.
#[inline]
pub fn reduction<'a>(
    send: *const u8,
    recv: *mut u8,
    count: usize,
    datatype: &'a Rc<Datatype>,
    op: &'a Rc<Op>,
) -> ReduceArgs<'a> {
    ReduceArgs { send, recv, count, datatype, op }
}

/// The neighbours of this process.
pub struct Near(topo::Neighbors);

impl Near {
    /// In the topology of `comm`.
    pub fn of(comm: &Comm) -> Result<Near> {
        topo::neighbors(comm).map(Near)
    }

    /// Number of processes that send to this one.
    pub fn indegree(&self) -> usize {
        self.0.sources.len()
    }

    /// Number of processes that this one sends to.
    pub fn outdegree(&self) -> usize {
        self.0.destinations.len()
    }

    /// As the core wants it.
    pub fn neighbors(&self) -> &topo::Neighbors {
        &self.0
    }
}
