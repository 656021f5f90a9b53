//! Opening, closing and deleting files (MPI-5.0, 14.2.1 to 14.2.3).

use super::agree::{agree, ensure_same, share_bytes};
use super::amode::Amode;
use super::file::{FILES, File, Parts, default_owner};
use super::hints::{self, Hints};
use super::raw::error_of;
use super::shared::SharedPointer;
use crate::comm::Comm;
use crate::constructors;
use crate::cs::Section;
use crate::handle::Handle;
use crate::info::Info;
use crate::owner::Owner;
use base::{Result, ensure};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Whether one more has room.
pub fn ensure_room(cs: &Section) -> Result {
    FILES.get(cs).ensure_room()
}

/// `MPI_File_open`.
pub fn open(cs: &mut Section, comm: &Rc<Comm>, name: &[u8], amode: Amode, info: Option<&Info>) -> Result<Handle> {
    ensure!(!comm.is_inter(), ERR_COMM, "a file is opened by an intra-communicator");
    let own = constructors::for_library(cs, comm)?;
    agree(cs, &own, amode.check())?;
    ensure_same(cs, &own, i64::from(amode.0))?;
    let entries = share_bytes(cs, &own, &hints::to_bytes(info))?;
    let mut hints = Hints::new(own.nodes.of(&own).map_or(1, |layout| layout.nodes));
    hints.apply(&hints::from_bytes(&entries));
    let path = PathBuf::from(OsStr::from_bytes(name));
    let raw = open_raw(cs, &own, &path, amode, hints.file_perm)?;
    let end = if amode.has(Amode::APPEND) { raw.metadata().map_or(0, |meta| meta.len() as i64) } else { 0 };
    let shared = SharedPointer::new(cs, &own, &path, end)?;
    let owner = Rc::new(Owner::of_file(default_owner(cs).errhandler(), &comm.group));
    owner.set_name(name);
    let group = Rc::clone(&comm.group);
    let parts = Parts { owner, amode, comm: own, group, raw, path, shared, hints, pointer: end };
    Ok(FILES.get(cs).enter(Rc::new(File::new(parts))))
}

/// Rank 0 makes the file if it is to be made; then the others open it.
fn open_raw(cs: &mut Section, comm: &Rc<Comm>, path: &Path, amode: Amode, mode: u32) -> Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(amode.reads()).write(amode.writes()).mode(mode);
    let open = |options: &OpenOptions| {
        let file = options.open(path).map_err(|error| error_of("opening a file", &error))?;
        let is_folder = file.metadata().is_ok_and(|meta| meta.is_dir());
        ensure!(!is_folder, ERR_BAD_FILE, "the name is that of a directory");
        Ok(file)
    };
    let mut first = None;
    if comm.rank == 0 {
        let mut making = options.clone();
        making.create(amode.has(Amode::CREATE));
        if amode.has(Amode::EXCL) && amode.has(Amode::CREATE) {
            making.create_new(true);
        }
        first = Some(open(&making));
    }
    let first = agree(cs, comm, first.transpose())?;
    let opened = match first {
        Some(file) => Ok(file),
        None => open(&options),
    };
    agree(cs, comm, opened)
}

/// `MPI_File_close`.
pub fn close(cs: &mut Section, file: &Rc<File>) -> Result {
    ensure!(file.split.get().is_none(), ERR_IO, "a split collective of this file has not ended");
    let deletes = file.amode.has(Amode::DELETE_ON_CLOSE);
    let flushed = if deletes { Ok(()) } else { file.flush() };
    // From here on no process uses the file.
    let closed = agree(cs, &file.comm, flushed);
    let mut deleted = Ok(());
    if file.comm.rank == 0 {
        file.shared.remove();
        if deletes {
            deleted = std::fs::remove_file(&file.path).map_err(|error| error_of("deleting a file", &error));
        }
    }
    let deleted = if deletes { agree(cs, &file.comm, deleted) } else { deleted };
    FILES.get(cs).remove(file.owner.handle.get());
    closed.and(deleted)
}

/// `MPI_File_delete`.
pub fn delete(name: &[u8]) -> Result {
    let path = Path::new(OsStr::from_bytes(name));
    std::fs::remove_file(path).map_err(|error| match path.is_dir() {
        true => base::Error::new(base::Class::ERR_BAD_FILE, "the name is that of a directory"),
        false => error_of("deleting a file", &error),
    })
}
