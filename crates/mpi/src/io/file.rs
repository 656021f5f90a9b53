//! The file: what the processes that have opened it share, and the state of this one (MPI-5.0, 14.2, 14.4.3, 14.6).

use super::agree::{agree, ensure_same, share, share_bytes};
use super::amode::Amode;
use super::hints::{self, Hints, Switch};
use super::raw::error_of;
use super::representation::{self, Representation};
use super::shared::SharedPointer;
use super::split::Split;
use super::view::{DISPLACEMENT_CURRENT, View};
use crate::coll::internal::barrier;
use crate::comm::Comm;
use crate::cs::Section;
use crate::datatype::Datatype;
use crate::group::Group;
use crate::handle::{Handle, Kind, Named, Table};
use crate::info::Info;
use crate::inside::Inside;
use crate::owner::Owner;
use base::{Result, ensure, fail};
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;

/// Where `MPI_File_seek` counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// `MPI_SEEK_SET`: the beginning of the view.
    Set,
    /// `MPI_SEEK_CUR`: the pointer.
    Current,
    /// `MPI_SEEK_END`: the end of the file.
    End,
}

/// An open file.
pub struct File {
    /// Whose error handler is called.
    pub owner: Rc<Owner>,
    /// The mode in which it was opened.
    pub amode: Amode,
    /// The processes that have opened it, with messages of their own.
    pub(super) comm: Rc<Comm>,
    /// The program's group.
    pub group: Rc<Group>,
    pub(super) raw: std::fs::File,
    pub(super) path: PathBuf,
    pub(super) shared: SharedPointer,
    pub(super) split: Cell<Option<Split>>,
    /// Whether something has been written since the last `MPI_File_sync`.
    pub(super) dirty: Cell<bool>,
    view: RefCell<Rc<View>>,
    /// The individual file pointer in etypes.
    pointer: Cell<i64>,
    atomic: Cell<bool>,
    hints: RefCell<Rc<Hints>>,
}

/// What a file is made of.
pub(super) struct Parts {
    pub owner: Rc<Owner>,
    pub amode: Amode,
    pub comm: Rc<Comm>,
    pub group: Rc<Group>,
    pub raw: std::fs::File,
    pub path: PathBuf,
    pub shared: SharedPointer,
    pub hints: Hints,
    /// Where the individual pointer stands.
    pub pointer: i64,
}

impl Named for File {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.owner.handle
    }
}

/// Open files.
pub(super) static FILES: Inside<Table<Rc<File>>> = Inside::new(Table::new(Kind::File));

/// `MPI_FILE_NULL`, as far as it has an error handler.
static NO_FILE: Inside<OnceCell<Rc<Owner>>> = Inside::new(OnceCell::new());

/// The object whose error handler is that of no file, and that new files begin with (14.7).
pub fn default_owner(cs: &Section) -> Rc<Owner> {
    Rc::clone(NO_FILE.get(cs).get_or_init(|| Rc::new(Owner::of_no_file())))
}

/// The file of a live handle.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<File>> {
    match FILES.get(cs).get(handle) {
        Some(file) => Ok(file),
        None => fail!(ERR_FILE, "not the handle of an open file"),
    }
}

impl File {
    pub(super) fn new(parts: Parts) -> File {
        let Parts { owner, amode, comm, group, raw, path, shared, hints, pointer } = parts;
        File {
            owner,
            amode,
            comm,
            group,
            raw,
            path,
            shared,
            split: Cell::new(None),
            dirty: Cell::new(false),
            view: RefCell::new(Rc::new(View::of_bytes())),
            pointer: Cell::new(pointer),
            atomic: Cell::new(false),
            hints: RefCell::new(Rc::new(hints)),
        }
    }

    /// The view in force.
    pub fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    /// The hints in force.
    pub(super) fn hints(&self) -> Rc<Hints> {
        Rc::clone(&self.hints.borrow())
    }

    /// Whether writes may read and write back what lies between the data.
    pub(super) fn sieves_writes(&self) -> bool {
        self.hints().ds_write == Switch::Enable && self.amode.has(Amode::RDWR)
    }

    /// `MPI_File_get_atomicity`.
    pub fn is_atomic(&self) -> bool {
        self.atomic.get()
    }

    /// `MPI_File_set_atomicity`.
    pub fn set_atomic(&self, cs: &mut Section, atomic: bool) -> Result {
        ensure_same(cs, &self.comm, i64::from(atomic))?;
        self.atomic.set(atomic);
        barrier(cs, &self.comm)
    }

    /// `MPI_File_get_info`.
    pub fn info(&self) -> Info {
        self.hints().info()
    }

    /// `MPI_File_set_info`.
    pub fn set_info(&self, cs: &mut Section, info: Option<&Info>) -> Result {
        let entries = share_bytes(cs, &self.comm, &hints::to_bytes(info))?;
        let mut changed = (*self.hints()).clone();
        changed.apply(&hints::from_bytes(&entries));
        *self.hints.borrow_mut() = Rc::new(changed);
        Ok(())
    }

    /// `MPI_File_get_size`.
    pub fn size(&self) -> Result<u64> {
        self.raw.metadata().map(|meta| meta.len()).map_err(|error| error_of("asking for the size of a file", &error))
    }

    /// `MPI_File_set_size`.
    pub fn set_size(&self, cs: &mut Section, size: i64) -> Result {
        self.resize(cs, size, |file, size| {
            file.raw.set_len(size).map_err(|error| error_of("setting the size of a file", &error))
        })
    }

    /// `MPI_File_preallocate`.
    pub fn preallocate(&self, cs: &mut Section, size: i64) -> Result {
        self.resize(cs, size, |file, size| {
            sys::file::allocate(file.raw.as_fd(), size).map_err(|error| error_of("reserving room for a file", &error))
        })
    }

    /// Rank 0 does it for all.
    fn resize(&self, cs: &mut Section, size: i64, step: impl FnOnce(&File, u64) -> Result) -> Result {
        self.ensure_writable()?;
        ensure_same(cs, &self.comm, size)?;
        ensure!(size >= 0, ERR_ARG, "the size of a file is negative");
        let done = if self.comm.rank == 0 { step(self, size as u64) } else { Ok(()) };
        self.dirty.set(true);
        agree(cs, &self.comm, done)
    }

    /// `MPI_File_sync`.
    pub fn sync(&self, cs: &mut Section) -> Result {
        let done = self.flush();
        agree(cs, &self.comm, done)
    }

    /// Brings what this process has written to the storage device.
    pub(super) fn flush(&self) -> Result {
        if !self.dirty.replace(false) {
            return Ok(());
        }
        self.raw.sync_all().map_err(|error| error_of("bringing a file to its storage device", &error))
    }

    pub(super) fn ensure_readable(&self) -> Result {
        ensure!(self.amode.reads(), ERR_ACCESS, "the file was opened with MPI_MODE_WRONLY");
        Ok(())
    }

    pub(super) fn ensure_writable(&self) -> Result {
        ensure!(self.amode.writes(), ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY");
        Ok(())
    }

    /// With `MPI_MODE_SEQUENTIAL` there are only shared pointers (14.2.1).
    pub(super) fn ensure_random(&self) -> Result {
        let sequential = self.amode.has(Amode::SEQUENTIAL);
        ensure!(!sequential, ERR_UNSUPPORTED_OPERATION, "the file was opened with MPI_MODE_SEQUENTIAL");
        Ok(())
    }

    /// `MPI_File_set_view`.
    pub fn set_view(
        &self,
        cs: &mut Section,
        disp: i64,
        types: [&Rc<Datatype>; 2],
        representation: &[u8],
        info: Option<&Info>,
    ) -> Result {
        let view = self.make_view(cs, disp, types, representation);
        let view = agree(cs, &self.comm, view)?;
        self.set_info(cs, info)?;
        *self.view.borrow_mut() = Rc::new(view);
        self.pointer.set(0);
        let reset = if self.comm.rank == 0 { self.shared.update(|_| Ok(0)).map(drop) } else { Ok(()) };
        agree(cs, &self.comm, reset)
    }

    fn make_view(&self, cs: &mut Section, disp: i64, types: [&Rc<Datatype>; 2], representation: &[u8]) -> Result<View> {
        let [etype, filetype] = types;
        let representation = Representation::named(cs, representation)?;
        ensure!(self.split.get().is_none(), ERR_IO, "a split collective of this file has not ended");
        let disp = if disp == DISPLACEMENT_CURRENT {
            let sequential = self.amode.has(Amode::SEQUENTIAL);
            ensure!(sequential, ERR_ARG, "MPI_DISPLACEMENT_CURRENT needs MPI_MODE_SEQUENTIAL");
            let view = self.view();
            let position = view.position(self.shared.update(Ok)?)?;
            view.check(position, 1)?;
            view.offset_of(position) as i64
        } else {
            disp
        };
        View::new(cs, disp, etype, filetype, representation, self.amode.writes())
    }

    /// `MPI_File_get_type_extent`.
    pub fn type_extent(&self, cs: &mut Section, datatype: &Rc<Datatype>) -> Result<i64> {
        let view = self.view();
        Ok(representation::in_file(cs, &view.representation, datatype)?.extent() as i64)
    }

    /// `MPI_File_get_byte_offset`.
    pub fn byte_offset(&self, etypes: i64) -> Result<i64> {
        self.ensure_random()?;
        let view = self.view();
        let position = view.position(etypes)?;
        view.check(position, 1)?;
        Ok(view.offset_of(position) as i64)
    }

    /// `MPI_File_get_position`.
    pub fn position(&self) -> Result<i64> {
        self.ensure_random()?;
        Ok(self.pointer.get())
    }

    pub(super) fn set_position(&self, etypes: i64) {
        self.pointer.set(etypes);
    }

    /// `MPI_File_seek`.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result {
        self.ensure_random()?;
        self.pointer.set(self.target(offset, whence, self.pointer.get())?);
        Ok(())
    }

    /// The place `offset` etypes from where `whence` says.
    fn target(&self, offset: i64, whence: Whence, current: i64) -> Result<i64> {
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => current,
            Whence::End => self.view().etypes_in(self.size()?) as i64,
        };
        match base.checked_add(offset) {
            Some(target) if target >= 0 => Ok(target),
            _ => fail!(ERR_ARG, "a file pointer can't be moved before the beginning of the view"),
        }
    }

    /// `MPI_File_get_position_shared`.
    pub fn shared_position(&self) -> Result<i64> {
        self.shared.update(Ok)
    }

    /// `MPI_File_seek_shared`.
    pub fn seek_shared(&self, cs: &mut Section, offset: i64, whence: Option<Whence>) -> Result {
        ensure_same(cs, &self.comm, offset)?;
        ensure_same(cs, &self.comm, whence.map_or(-1, |whence| whence as i64))?;
        let Some(whence) = whence else { fail!(ERR_ARG, "unknown way to move a file pointer") };
        // All have left earlier accesses when rank 0 moves it.
        barrier(cs, &self.comm)?;
        let moved = match self.comm.rank {
            0 => self.shared.update(|current| self.target(offset, whence, current)).map(drop),
            _ => Ok(()),
        };
        agree(cs, &self.comm, moved)
    }

    /// Takes `etypes` of the shared pointer for each process, in the order of ranks: where this process's begin.
    pub(super) fn take_ordered(&self, cs: &mut Section, etypes: i64) -> Result<i64> {
        let all = crate::coll::internal::allgather_bytes(cs, &self.comm, &etypes.to_le_bytes())?;
        let all = all.chunks_exact(8).map(|n| i64::from_le_bytes(std::array::from_fn(|i| n[i])));
        let all: Vec<i64> = all.collect();
        let taken = match self.comm.rank {
            0 => self.shared.take(all.iter().fold(0, |sum, n| i64::saturating_add(sum, *n))),
            _ => Ok(0),
        };
        let begin = agree(cs, &self.comm, taken)?;
        let begin = share(cs, &self.comm, begin)?;
        Ok(begin + all[..self.comm.rank as usize].iter().sum::<i64>())
    }
}
