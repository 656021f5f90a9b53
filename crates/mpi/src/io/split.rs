//! Split collectives (MPI-5.0, 14.4.5): the access is done by `begin`, as the standard allows; `end` tells how it went.

use super::access::{self, Access, Place};
use super::file::File;
use super::stream::Items;
use crate::cs::Section;
use crate::status::Status;
use base::{Result, ensure, fail};
use std::rc::Rc;

/// A split collective that has not ended.
#[derive(Clone, Copy)]
pub struct Split {
    access: Access,
    status: Status,
}

/// `MPI_File_*_begin`.
///
/// # Safety
/// As for [`access::run`].
pub unsafe fn begin(cs: &mut Section, file: &Rc<File>, access: Access, items: Items<'_>) -> Result {
    let active = file.split.get();
    ensure!(active.is_none(), ERR_IO, "a split collective of this file has not ended");
    // SAFETY: by the caller.
    let status = unsafe { access::run(cs, file, access, items)? };
    file.split.set(Some(Split { access, status }));
    Ok(())
}

/// Places of one kind: the end doesn't say the offset.
fn same_kind(a: Place, b: Place) -> bool {
    matches!((a, b), (Place::At(_), Place::At(_)) | (Place::Own, Place::Own) | (Place::Shared, Place::Shared))
}

/// `MPI_File_*_end`; the place of `access` only says its kind.
pub fn end(file: &File, access: Access) -> Result<Status> {
    let Some(split) = file.split.get() else { fail!(ERR_IO, "no split collective of this file has begun") };
    let same = split.access.direction == access.direction && same_kind(split.access.place, access.place);
    ensure!(same, ERR_IO, "another split collective of this file has begun");
    file.split.set(None);
    Ok(split.status)
}
