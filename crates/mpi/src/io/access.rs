//! Data access (MPI-5.0, 14.4): every read and write, blocking or not.
//!
//! A non-blocking access is done when it is started; its request is complete from the start and tells how it ended. A non-blocking collective is done by
//! each process alone, because it must not wait for the others.

use super::file::File;
use super::stream::{Items, Stream};
use super::view::View;
use super::{independent, two_phase};
use crate::cs::Section;
use crate::handle::Handle;
use crate::profile::{self, FileAccess};
use crate::progress::Active;
use crate::request::{self, Operation};
use crate::status::Status;
use base::{Result, ensure};
use std::rc::Rc;

/// Which way data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Where in the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At an offset in etypes.
    At(i64),
    /// At the individual file pointer.
    Own,
    /// At the shared file pointer; of a collective in the order of ranks.
    Shared,
}

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// This process.
    Alone,
    /// All processes of the file.
    All,
}

/// What an access says but for its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Which way data go.
    pub direction: Direction,
    /// Where in the view.
    pub place: Place,
    /// Who takes part.
    pub who: Who,
}

impl Access {
    /// An access without its buffer.
    pub fn new(direction: Direction, place: Place, who: Who) -> Access {
        Access { direction, place, who }
    }
}

/// What is wrong with an access in this file's mode, whatever the arguments.
fn check(file: &File, access: Access) -> Result {
    match access.direction {
        Direction::Read => file.ensure_readable()?,
        Direction::Write => file.ensure_writable()?,
    }
    if access.place != Place::Shared {
        file.ensure_random()?;
    }
    Ok(())
}

/// Etypes of an access of `bytes` bytes.
fn etypes(view: &View, bytes: u64) -> Result<i64> {
    ensure!(bytes.is_multiple_of(view.etype_bytes()), ERR_IO, "the data are not a whole number of etypes");
    Ok((bytes / view.etype_bytes()) as i64)
}

/// Where the stream of an access begins in the view; moves the pointer.
fn begin(cs: &mut Section, file: &File, view: &View, access: Access, bytes: Result<u64>) -> Result<u64> {
    let wanted = bytes.and_then(|bytes| etypes(view, bytes).map(|etypes| (bytes, etypes)));
    let offset = match (access.place, access.who) {
        (Place::Shared, Who::All) => {
            // Whoever has failed takes nothing, but takes part.
            let taken = file.take_ordered(cs, wanted.map_or(0, |(_, etypes)| etypes));
            wanted.and(taken)?
        }
        (Place::Shared, Who::Alone) => file.shared.take(wanted?.1)?,
        (Place::Own, _) => file.position()?,
        (Place::At(offset), _) => offset,
    };
    let (bytes, etypes) = wanted?;
    let position = view.position(offset)?;
    view.check(position, bytes)?;
    if access.place == Place::Own {
        file.set_position(offset + etypes);
    }
    Ok(position)
}

/// Does an access.
///
/// # Safety
/// The items are readable, or writable and nobody else's.
pub unsafe fn run(cs: &mut Section, file: &Rc<File>, access: Access, items: Items<'_>) -> Result<Status> {
    check(file, access)?;
    let view = file.view();
    // SAFETY: by the caller.
    let mut stream = unsafe {
        match access.direction {
            Direction::Read => Stream::incoming(cs, items, &view.representation),
            Direction::Write => Stream::outgoing(cs, items, &view.representation),
        }
    };
    let bytes = stream.as_ref().map(Stream::len).map_err(|error| *error);
    let position = begin(cs, file, &view, access, bytes);
    if access.direction == Direction::Write {
        file.dirty.set(true);
    }
    let moved = match (access.direction, access.who) {
        (Direction::Read, Who::All) => two_phase::read(cs, file, &view, wanted(position, &mut stream))?,
        (Direction::Write, Who::All) => two_phase::write(cs, file, &view, wanted(position, &mut stream))?,
        (Direction::Read, Who::Alone) => {
            let (position, stream) = wanted(position, &mut stream)?;
            independent::read(file, &view, position, stream)?
        }
        (Direction::Write, Who::Alone) => {
            let (position, stream) = wanted(position, &mut stream)?;
            independent::write(file, &view, position, stream)?
        }
    };
    let stream = stream?;
    let bytes = match access.direction {
        Direction::Read => stream.finish(cs, &view.representation, moved)?,
        Direction::Write => stream.memory_bytes(moved),
    };
    let way = match access.direction {
        Direction::Read => FileAccess::Read,
        Direction::Write => FileAccess::Write,
    };
    profile::file(cs, way, bytes);
    Ok(Status { bytes, ..Status::EMPTY })
}

fn wanted<'a, 'b>(position: Result<u64>, stream: &'a mut Result<Stream<'b>>) -> two_phase::Wanted<'a, 'b> {
    match stream {
        Ok(stream) => position.map(|position| (position, stream)),
        Err(error) => Err(*error),
    }
}

/// An access that has been done.
struct Done(Result<Status>);

impl Active for Done {
    fn advance(&self, _: &mut Section) -> bool {
        true
    }
}

impl Operation for Done {
    fn start(&self, _: &mut Section) -> Result {
        Ok(())
    }

    fn outcome(&self, _: &Section) -> Option<Result<Status>> {
        Some(self.0)
    }
}

/// Starts an access: its request.
///
/// # Safety
/// As for [`run`].
pub unsafe fn start(cs: &mut Section, file: &Rc<File>, access: Access, items: Items<'_>) -> Result<Handle> {
    check(file, access)?;
    if let Place::At(offset) = access.place {
        file.view().position(offset)?;
    }
    let alone = Access { who: Who::Alone, ..access };
    // SAFETY: by the caller.
    let done = unsafe { run(cs, file, alone, items) };
    Ok(request::enter_collective(cs, Rc::new(Done(done)), &file.owner))
}
