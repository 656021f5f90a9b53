//! Access by one process alone.
//!
//! A view with holes is written run by run: whoever writes back what lay in a hole may undo what another process has written there. With the
//! hint `romio_ds_write=enable` holes are read and written back; then every write of this file holds a lock of its range, on all processes.
//! Reads of a view with holes read a whole piece of the file at a time, unless the holes are much larger than the data.

use super::file::File;
use super::hints::Switch;
use super::raw::{self, Locked};
use super::stream::Stream;
use super::view::View;
use base::Result;
use std::ops::Range;
use sys::file::LockKind;

/// Bytes that are packed at a time.
const STAGE_BYTES: usize = 4 << 20;
/// A read with holes reads at most so many bytes for one that is wanted.
const SIEVE_RATIO_MAX: u64 = 8;

/// Locks the bytes that an access touches, if this must be seen by others as one step.
fn lock(file: &File, kind: LockKind, hull: Range<u64>) -> Result<Option<Locked<'_>>> {
    let sieves = kind == LockKind::Exclusive && file.sieves_writes();
    if file.is_atomic() || sieves { raw::lock(&file.raw, kind, hull.start, hull.end) } else { Ok(None) }
}

/// The file keeps its bytes for one step: the two-phase writes.
pub fn lock_write(file: &File, hull: Range<u64>) -> Result<Option<Locked<'_>>> {
    lock(file, LockKind::Exclusive, hull)
}

/// Writes the stream from `position` of the view on.
pub fn write(file: &File, view: &View, position: u64, stream: &mut Stream<'_>) -> Result<u64> {
    let len = stream.len();
    if len == 0 {
        return Ok(0);
    }
    let _locked = lock(file, LockKind::Exclusive, view.hull(position, len))?;
    if file.sieves_writes() && !view.is_dense() && view.ascends(position..position + len) {
        write_sieved(file, view, position, stream)?;
    } else if let Some(memory) = stream.as_run() {
        // SAFETY: all bytes of the stream lie there.
        unsafe { write_runs(file, view, position, memory, len)? };
    } else {
        let mut stage = vec![0u8; STAGE_BYTES.min(len as usize)];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(stage.len() as u64);
            // SAFETY: the stage has room for `step` bytes.
            unsafe {
                stream.copy_out(done as usize, stage.as_mut_ptr(), step as usize);
                write_runs(file, view, position + done, stage.as_ptr(), step)?;
            }
            done += step;
        }
    }
    Ok(len)
}

/// # Safety
/// `len` bytes are readable at `from`.
unsafe fn write_runs(file: &File, view: &View, position: u64, from: *const u8, len: u64) -> Result {
    let (mut result, mut at) = (Ok(()), 0);
    view.each_run(position, len, |offset, run| {
        if result.is_ok() {
            // SAFETY: the runs have `len` bytes together.
            result = unsafe { raw::write_at(&file.raw, from.add(at), run, offset) };
        }
        at += run;
    });
    result
}

/// Reads the file piece by piece, and writes each piece back with the new data in it. The range is locked.
fn write_sieved(file: &File, view: &View, position: u64, stream: &Stream<'_>) -> Result {
    let (end, room) = (position + stream.len(), file.hints().write_buffer_bytes);
    let (mut buffer, mut stage) = (vec![0u8; room], vec![0u8; room]);
    let mut at = position;
    while at < end {
        let (next, hull) = piece(view, at, end, room);
        let (len, span) = ((next - at) as usize, (hull.end - hull.start) as usize);
        // SAFETY: the buffers have room for a piece, whose runs lie in its hull.
        unsafe {
            stream.copy_out((at - position) as usize, stage.as_mut_ptr(), len);
            let old = raw::read_at(&file.raw, buffer.as_mut_ptr(), span, hull.start)?;
            buffer[old..span].fill(0);
            let mut from = 0;
            view.each_run(at, next - at, |offset, run| {
                let to = (offset - hull.start) as usize;
                buffer[to..to + run].copy_from_slice(&stage[from..from + run]);
                from += run;
            });
            raw::write_at(&file.raw, buffer.as_ptr(), span, hull.start)?;
        }
        at = next;
    }
    Ok(())
}

/// The part of the stream from `at` on whose bytes lie in at most `room` bytes of the file: its end and its hull.
fn piece(view: &View, at: u64, end: u64, room: usize) -> (u64, Range<u64>) {
    let limit = view.offset_of(at).saturating_add(room as u64);
    let next = view.position_of(limit, at + 1..end);
    (next, view.hull(at, next - at))
}

/// Reads the stream from `position` of the view on. Returns the bytes read: fewer than wanted at the end of the file.
pub fn read(file: &File, view: &View, position: u64, stream: &mut Stream<'_>) -> Result<u64> {
    let len = stream.len();
    if len == 0 {
        return Ok(0);
    }
    let _locked = lock(file, LockKind::Shared, view.hull(position, len))?;
    if let (true, Some(memory)) = (view.is_dense(), stream.as_run()) {
        // SAFETY: the stream has room for `len` bytes there.
        return Ok(unsafe { raw::read_at(&file.raw, memory, len as usize, view.offset_of(position))? } as u64);
    }
    let room = file.hints().read_buffer_bytes;
    let (mut buffer, mut stage) = (Vec::new(), vec![0u8; room.min(len as usize)]);
    let (mut at, end) = (position, position + len);
    while at < end {
        let sieves = file.hints().ds_read != Switch::Disable && !view.is_dense() && view.ascends(position..end);
        let (next, hull) = if sieves { piece(view, at, end, room) } else { (end.min(at + room as u64), 0..0) };
        let wanted = next - at;
        let pays = file.hints().ds_read == Switch::Enable || (hull.end - hull.start) / SIEVE_RATIO_MAX <= wanted;
        let got = if sieves && pays && hull.end - hull.start > wanted {
            buffer.resize(room, 0);
            read_sieved(file, view, at..next, hull, &mut buffer, &mut stage)?
        } else {
            read_runs(file, view, at..next, &mut stage)?
        };
        // SAFETY: `got` bytes are at the beginning of the stage.
        unsafe { stream.copy_in((at - position) as usize, stage.as_ptr(), got as usize) };
        at += got;
        if got < wanted {
            break;
        }
    }
    Ok(at - position)
}

/// Reads a part of the stream run by run into `stage`; the bytes before the end of the file.
fn read_runs(file: &File, view: &View, part: Range<u64>, stage: &mut [u8]) -> Result<u64> {
    let (mut result, mut at, mut ended) = (Ok(()), 0, false);
    view.each_run(part.start, part.end - part.start, |offset, run| {
        if result.is_ok() && !ended {
            // SAFETY: the runs have as many bytes as the part, for which there is room.
            match unsafe { raw::read_at(&file.raw, stage[at..at + run].as_mut_ptr(), run, offset) } {
                Ok(bytes) => (at, ended) = (at + bytes, bytes < run),
                Err(error) => result = Err(error),
            }
        }
    });
    result.map(|()| at as u64)
}

/// As [`read_runs`], by one read of the hull.
fn read_sieved(
    file: &File,
    view: &View,
    part: Range<u64>,
    hull: Range<u64>,
    buffer: &mut [u8],
    stage: &mut [u8],
) -> Result<u64> {
    let span = (hull.end - hull.start) as usize;
    // SAFETY: the buffer has room for the hull of a piece.
    let known = unsafe { raw::read_at(&file.raw, buffer[..span].as_mut_ptr(), span, hull.start)? };
    let mut at = 0;
    view.each_run(part.start, part.end - part.start, |offset, run| {
        let from = (offset - hull.start) as usize;
        let run = run.min(known.saturating_sub(from));
        stage[at..at + run].copy_from_slice(&buffer[from..from + run]);
        at += run;
    });
    Ok(at as u64)
}
