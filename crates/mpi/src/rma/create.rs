//! Windows begin and end (MPI-5.0, 12.2).
//!
//! All processes tell each other what they have ([`Record`]), or that they have failed: then the call fails on all of them with the same error class.

use super::epoch::Epochs;
use super::hints::Hints;
use super::memory::{self, Memory};
use super::regions::{self, Region, Table};
use super::server::{Service, Traffic};
use super::{Flavor, Life, Target, WINDOWS, Window, passive};
use crate::attr::{self, AttrSet};
use crate::coll::internal::{allgather_bytes, barrier};
use crate::comm::Comm;
use crate::constructors;
use crate::cs::Section;
use crate::errhandler;
use crate::info::Info;
use crate::owner::Owner;
use crate::{engine, progress};
use base::{Class, Error, Result, ensure};
use channel::memory::Exposed;
use channel::shm::heap::Part;
use protocol::memory::{KEY_BYTES, Key};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a process tells the others of its memory.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Why it has failed.
    failed: Option<Class>,
    size: u64,
    disp_unit: u64,
    key: Option<Key>,
    part: Option<Part>,
}

const RECORD_BYTES: usize = 48 + KEY_BYTES;

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let part = self.part.unwrap_or(Part { offset: 0, len: 0 });
        let failed = self.failed.map_or(0, |class| class.0 as u64);
        let words = [failed, self.size, self.disp_unit, part.offset, part.len, self.key.is_some().into()];
        let mut out = [0; RECORD_BYTES];
        for (place, word) in out.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(key) = &self.key {
            out[48..].copy_from_slice(&key.encode());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Record {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * at + i]));
        let key = (word(5) != 0).then(|| Key::decode(&std::array::from_fn(|i| bytes[48 + i])));
        let part = (word(4) != 0).then(|| Part { offset: word(3), len: word(4) });
        let failed = (word(0) != 0).then(|| Class(word(0) as i32));
        Record { failed, size: word(1), disp_unit: word(2), key, part }
    }
}

/// What the program says of its memory.
struct Given {
    flavor: Flavor,
    base: *mut u8,
    size: i64,
    disp_unit: i64,
}

/// `MPI_Win_create`.
///
/// # Safety
/// `size` bytes at `base` are memory until the window is freed, which the program expects others to read and write.
pub unsafe fn create(
    cs: &mut Section,
    comm: &Rc<Comm>,
    (base, size, disp_unit): (*mut u8, i64, i64),
    info: Option<&Info>,
) -> Result<Rc<Window>> {
    make(cs, comm, Given { flavor: Flavor::Create, base, size, disp_unit }, info)
}

/// `MPI_Win_allocate`.
pub fn allocate(
    cs: &mut Section,
    comm: &Rc<Comm>,
    size: i64,
    disp_unit: i64,
    info: Option<&Info>,
) -> Result<Rc<Window>> {
    make(cs, comm, Given { flavor: Flavor::Allocate, base: std::ptr::null_mut(), size, disp_unit }, info)
}

/// `MPI_Win_allocate_shared`.
pub fn allocate_shared(
    cs: &mut Section,
    comm: &Rc<Comm>,
    size: i64,
    disp_unit: i64,
    info: Option<&Info>,
) -> Result<Rc<Window>> {
    make(cs, comm, Given { flavor: Flavor::Shared, base: std::ptr::null_mut(), size, disp_unit }, info)
}

/// `MPI_Win_create_dynamic`.
pub fn create_dynamic(cs: &mut Section, comm: &Rc<Comm>, info: Option<&Info>) -> Result<Rc<Window>> {
    make(cs, comm, Given { flavor: Flavor::Dynamic, base: std::ptr::null_mut(), size: 0, disp_unit: 1 }, info)
}

/// Where the memory of each rank begins in that of a shared window, and all of it.
fn offsets_of(sizes: &[u64], apart: bool) -> Option<(Vec<usize>, usize)> {
    let page = sys::mem::page_bytes();
    let mut end = 0usize;
    let mut offsets = Vec::with_capacity(sizes.len());
    for size in sizes {
        offsets.push(end);
        end = end.checked_add(usize::try_from(*size).ok()?)?;
        if apart {
            end = end.checked_next_multiple_of(page)?;
        }
    }
    Some((offsets, end))
}

/// The least that a process has done before it tells the others.
struct Mine {
    own: Memory,
    base: *mut u8,
    key: Option<Key>,
}

impl Mine {
    /// Allocates and registers memory; `shared` bytes for all ranks in a shared window.
    fn new(cs: &Section, given: &Given, shared: usize) -> Result<Mine> {
        let size = usize::try_from(given.size).unwrap_or(0);
        let data = match given.flavor {
            Flavor::Create => 0,
            Flavor::Dynamic => regions::TABLE_BYTES,
            Flavor::Allocate => size,
            Flavor::Shared => shared,
        };
        let own = Memory::new(cs, data)?;
        let base = if given.flavor == Flavor::Allocate { own.data() } else { given.base };
        let is_registered = matches!(given.flavor, Flavor::Create | Flavor::Allocate) && size > 0;
        let key = is_registered.then(|| {
            // SAFETY: memory of the program by `create`, or of the window, which is freed after it is deregistered.
            engine::with(cs, |engine| engine.register(unsafe { Exposed::new(base, size) }))
        });
        Ok(Mine { own, base, key })
    }
}

fn check(given: &Given) -> Result {
    ensure!(given.size >= 0, ERR_SIZE, "the size of the window is negative");
    ensure!(given.disp_unit > 0, ERR_DISP, "the unit of displacements is not positive");
    let has_memory = given.flavor != Flavor::Create || given.size == 0 || !given.base.is_null();
    ensure!(has_memory, ERR_BASE, "there is no memory at the base of the window");
    Ok(())
}

/// Tells the others what this process has, and learns what they have; an error if one has failed.
fn exchange(cs: &mut Section, comm: &Rc<Comm>, mine: Result<Record>) -> Result<Vec<Record>> {
    const NOTHING: Record = Record { failed: None, size: 0, disp_unit: 1, key: None, part: None };
    let record = mine.unwrap_or_else(|error| Record { failed: Some(error.class), ..NOTHING });
    let all = allgather_bytes(cs, comm, &record.encode())?;
    let records: Vec<Record> = all.chunks_exact(RECORD_BYTES).map(Record::decode).collect();
    mine?;
    match records.iter().find_map(|record| record.failed) {
        Some(class) => Err(Error::new(class, "another process of the communicator could not make the window")),
        None => Ok(records),
    }
}

fn make(cs: &mut Section, comm: &Rc<Comm>, given: Given, info: Option<&Info>) -> Result<Rc<Window>> {
    ensure!(!comm.is_inter(), ERR_COMM, "a window needs an intra-communicator");
    let comm = constructors::for_library(cs, comm)?;
    let (hints, checked) = (Hints::of(info), check(&given));
    let mut offsets = Vec::new();
    let mut shared = 0;
    if given.flavor == Flavor::Shared {
        let size =
            checked.map(|()| Record { failed: None, size: given.size as u64, disp_unit: 1, key: None, part: None });
        let sizes: Vec<u64> = exchange(cs, &comm, size)?.iter().map(|record| record.size).collect();
        // The hint of rank 0 holds: it allocates.
        let mut apart = [u8::from(hints.are_apart())];
        crate::coll::internal::bcast_bytes(cs, &comm, 0, &mut apart)?;
        let all = offsets_of(&sizes, apart[0] == 1);
        let Some((places, end)) = all else {
            base::fail!(ERR_SIZE, "the sizes of all processes are more than memory can hold")
        };
        offsets = places;
        shared = if comm.rank == 0 { end } else { 0 };
    }
    let mut mine = checked.and_then(|()| Mine::new(cs, &given, shared));
    let record = mine.as_ref().map_err(|error| *error).map(|mine| Record {
        failed: None,
        size: given.size as u64,
        disp_unit: given.disp_unit as u64,
        key: mine.key,
        part: mine.own.part(),
    });
    let records = match exchange(cs, &comm, record) {
        Ok(records) => records,
        Err(error) => {
            if let Ok(mine) = &mut mine {
                release(cs, mine.key.take(), &mut mine.own)?;
            }
            return Err(error);
        }
    };
    let Mine { own, base, key } = mine?;
    let targets = records.iter().enumerate().map(|(rank, record)| Target {
        peer: comm.group.peer(rank as i32),
        size: record.size as usize,
        disp_unit: record.disp_unit as usize,
        key: record.key,
        part: record.part,
        offset: offsets.get(rank).copied().unwrap_or(0),
        near: OnceCell::new(),
    });
    let mut window = Window {
        owner: Rc::new(Owner::of_window(errhandler::Errhandler::Fatal, Rc::clone(&comm.group))),
        flavor: given.flavor,
        base,
        size: given.size as usize,
        disp_unit: given.disp_unit as usize,
        cells: Default::default(),
        attributes: AttrSet::default(),
        targets: targets.collect(),
        comm: Rc::clone(&comm),
        own: RefCell::new(own),
        hints: RefCell::new(hints),
        epochs: RefCell::new(Epochs::default()),
        traffic: RefCell::new(Traffic::default()),
        attached: RefCell::new(BTreeMap::new()),
        failed: Cell::new(None),
        life: Cell::new(Life::Open),
    };
    if given.flavor == Flavor::Shared {
        let found = share(cs, &mut window);
        let told = found.map(|()| Record { failed: None, size: 0, disp_unit: 1, key: None, part: None });
        if let Err(error) = exchange(cs, &comm, told) {
            release(cs, key, &mut window.own.borrow_mut())?;
            return Err(error);
        }
    }
    let window = Rc::new(window);
    WINDOWS.get(cs).enter(Rc::clone(&window));
    progress::serve(cs, Rc::new(Service(Rc::clone(&window))));
    // A peer's first message may come before this process serves it, but not its answer.
    Ok(window)
}

/// Finds the memory of a shared window.
fn share(cs: &mut Section, window: &mut Window) -> Result {
    let me = window.me();
    match window.shared_base(cs, me) {
        Some(base) => {
            window.base = base;
            Ok(())
        }
        None => base::fail!(ERR_RMA_SHARED, "the processes of the communicator can't share memory"),
    }
}

fn release(cs: &Section, key: Option<Key>, own: &mut Memory) -> Result {
    forget(cs, key);
    own.free(cs)
}

fn forget(cs: &Section, key: Option<Key>) {
    if let Some(key) = key {
        engine::with(cs, |engine| engine.deregister(&key));
    }
}

/// `MPI_Win_free`.
pub fn free(cs: &mut Section, win: &Rc<Window>) -> Result {
    win.epochs.borrow().free()?;
    attr::delete_all(cs, &**win)?;
    passive::finish(cs, win, None);
    let met = barrier(cs, &win.comm);
    let failure = win.take_failure();
    win.life.set(if met.is_ok() { Life::Freed } else { Life::FreedAfterLoss });
    WINDOWS.get(cs).remove(win.owner.handle.get());
    let key = win.targets[win.me()].key;
    for (_, key) in std::mem::take(&mut *win.attached.borrow_mut()).into_values() {
        forget(cs, key);
    }
    if met.is_err() {
        forget(cs, key);
        return met;
    }
    let released = release(cs, key, &mut win.own.borrow_mut());
    failure.and(released)
}

/// `MPI_Win_attach`.
///
/// # Safety
/// `size` bytes at `base` are memory until they are detached or the window is freed, which the program expects others to read and write.
pub unsafe fn attach(cs: &Section, win: &Window, base: *mut u8, size: i64) -> Result {
    ensure!(win.flavor == Flavor::Dynamic, ERR_RMA_FLAVOR, "memory is attached to dynamic windows only");
    ensure!(size >= 0, ERR_SIZE, "the size of the memory is negative");
    let (start, size) = (base.expose_provenance(), size as usize);
    let mut attached = win.attached.borrow_mut();
    let end = start.saturating_add(size);
    let overlaps = |(other, (len, _)): (&usize, &(usize, Option<Key>))| *other < end && start < other + len;
    let clashes = attached.contains_key(&start) || attached.iter().any(overlaps);
    ensure!(!clashes, ERR_RMA_ATTACH, "the memory overlaps with what is attached already");
    // SAFETY: by the caller.
    let key = (size > 0).then(|| engine::with(cs, |engine| engine.register(unsafe { Exposed::new(base, size) })));
    attached.insert(start, (size, key));
    drop(attached);
    publish(win);
    Ok(())
}

/// Tells the ranks under this kernel what is attached.
fn publish(win: &Window) {
    let attached = win.attached.borrow();
    let regions = attached.iter().filter_map(|(start, (_, key))| Some(Region { start: *start as u64, key: (*key)? }));
    // SAFETY: a dynamic window has allocated a table, which was all zeroes and only this function writes.
    let table = unsafe { &*win.own.borrow().data().cast::<Table>() };
    table.set(regions);
}

/// `MPI_Win_detach`.
pub fn detach(cs: &Section, win: &Window, base: *const u8) -> Result {
    ensure!(win.flavor == Flavor::Dynamic, ERR_RMA_FLAVOR, "memory is detached from dynamic windows only");
    let Some((_, key)) = win.attached.borrow_mut().remove(&base.addr()) else {
        base::fail!(ERR_RMA_ATTACH, "no memory is attached at this address")
    };
    publish(win);
    forget(cs, key);
    Ok(())
}

/// What `MPI_Win_shared_query` answers.
pub struct Queried {
    /// Bytes.
    pub size: usize,
    /// Bytes per unit of displacement.
    pub disp_unit: usize,
    /// Where this process reaches them.
    pub base: *mut u8,
}

/// `MPI_Win_shared_query`: of `None` for `MPI_PROC_NULL`, the lowest rank that has memory. A rank whose memory this process can't load from has none.
pub fn shared_query(cs: &mut Section, win: &Rc<Window>, rank: Option<i32>) -> Result<Queried> {
    ensure!(win.flavor != Flavor::Dynamic, ERR_RMA_FLAVOR, "a dynamic window has no memory of its own");
    let rank = match rank {
        Some(rank) => win.rank(rank)?,
        None => {
            let has_memory = |rank: &usize| win.targets[*rank].size > 0;
            match (0..win.targets.len()).find(has_memory) {
                Some(rank) => rank,
                None => return Ok(Queried { size: 0, disp_unit: 0, base: std::ptr::null_mut() }),
            }
        }
    };
    let target = &win.targets[rank];
    let base = match win.flavor {
        // Other libraries answer so too, and programs take it for the sign of no memory.
        _ if target.size == 0 => None,
        _ if rank == win.me() => Some(win.base),
        Flavor::Allocate => win.near(cs, rank).map(memory::data_of),
        Flavor::Shared => win.shared_base(cs, rank),
        Flavor::Create | Flavor::Dynamic => None,
    };
    Ok(match base {
        Some(base) => Queried { size: target.size, disp_unit: target.disp_unit, base },
        None if target.size == 0 => Queried { size: 0, disp_unit: target.disp_unit, base: std::ptr::null_mut() },
        None => Queried { size: 0, disp_unit: 0, base: std::ptr::null_mut() },
    })
}
