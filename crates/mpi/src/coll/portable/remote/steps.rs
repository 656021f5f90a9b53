//! The steps of a schedule that are no transfers, and the bytes of messages, in the memory of the owners.

use super::{CHUNK_BYTES, INVALID, Items, Memory, Position, RunId, Runner};
use crate::coll::portable::operation::Operation;
use crate::coll::schedule::Step;
use crate::datatype::flat::FlatType;
use crate::op;
use base::Result;

impl Runner {
    pub(super) fn bytes(&self, items: &Items) -> Result<u64> {
        let run = self.of(items.run)?;
        let size = items.datatype.map_or(1, |datatype| run.portable.types[datatype as usize].size());
        Ok(items.count * size)
    }

    /// Address and length of the runs of memory that hold bytes `from .. to`.
    pub(super) fn pieces(&self, items: &Items, from: u64, to: u64) -> Result<Vec<(u64, usize)>> {
        let at = |offset: i64| (items.address as u64).wrapping_add_signed(offset);
        let Some(datatype) = items.datatype else {
            return Ok(vec![(at(from as i64), (to - from) as usize)]);
        };
        let flat: &FlatType = &self.of(items.run)?.portable.types[datatype as usize];
        let mut pieces: Vec<(u64, usize)> = Vec::new();
        flat.walk(items.count, from, to, &mut |offset, len| match pieces.last_mut() {
            Some(last) if last.0 + last.1 as u64 == at(offset) => last.1 += len as usize,
            _ => pieces.push((at(offset), len as usize)),
        });
        Ok(pieces)
    }

    /// Copies the bytes of `from` to the first of `into`; all of them are read before any is written if they fit the buffer.
    pub(super) fn copy(&mut self, memory: &mut impl Memory, from: Items, into: Items) -> Result {
        let len = self.bytes(&from)?.min(self.bytes(&into)?);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(CHUNK_BYTES, 0);
        let result = self.copy_through(memory, &mut buffer, (from, into), len);
        self.buffer = buffer;
        result
    }

    fn copy_through(
        &self,
        memory: &mut impl Memory,
        buffer: &mut [u8],
        (from, into): (Items, Items),
        len: u64,
    ) -> Result {
        for done in (0..len).step_by(CHUNK_BYTES) {
            let end = len.min(done + CHUNK_BYTES as u64);
            let bytes = &mut buffer[..(end - done) as usize];
            memory.get_pieces(from.run, &self.pieces(&from, done, end)?, bytes)?;
            memory.put_pieces(into.run, &self.pieces(&into, done, end)?, bytes)?;
        }
        Ok(())
    }

    /// Moves bytes of one process that may overlap, part by part.
    fn move_bytes(&mut self, memory: &mut impl Memory, run: RunId, (from, into): (usize, usize), len: usize) -> Result {
        let apart = from.abs_diff(into) >= len;
        let parts = len.div_ceil(CHUNK_BYTES);
        let mut buffer = vec![0; len.min(CHUNK_BYTES)];
        let begin = if apart { Position::default() } else { self.of(run)?.progress.position };
        for part in begin.part as usize..parts {
            let place = if into > from { parts - 1 - part } else { part } * CHUNK_BYTES;
            let piece = &mut buffer[..CHUNK_BYTES.min(len - place)];
            memory.get(run, (from + place) as u64, piece)?;
            if apart {
                memory.put(run, (into + place) as u64, piece)?;
            } else {
                let position = Position { part: part as u32, ..begin };
                memory.put_once(run, position, (into + place) as u64, piece)?;
            }
        }
        Ok(())
    }

    fn reduce(&mut self, memory: &mut impl Memory, run: RunId, (input, inout): (usize, usize), count: usize) -> Result {
        let of = self.of(run)?;
        let (Operation::Predefined(which, builtin), begin) = (of.portable.operation, of.progress.position) else {
            return Err(INVALID);
        };
        let extent = builtin.extent();
        let each = (CHUNK_BYTES / extent).max(1);
        let (mut a, mut b) = (vec![0; each * extent], vec![0; each * extent]);
        for (part, first) in (0..count).step_by(each).enumerate().skip(begin.part as usize) {
            let len = each.min(count - first) * extent;
            let at = |base: usize| (base + first * extent) as u64;
            memory.get(run, at(input), &mut a[..len])?;
            memory.get(run, at(inout), &mut b[..len])?;
            // SAFETY: both hold this number of items, and the operation is defined on their type.
            unsafe { op::apply_predefined(which, builtin, a.as_ptr(), b.as_mut_ptr(), len / extent) };
            memory.put_once(run, Position { part: part as u32, ..begin }, at(inout), &b[..len])?;
        }
        Ok(())
    }

    /// Performs a step that is no transfer.
    pub(super) fn perform(&mut self, memory: &mut impl Memory, run: RunId, step: Step) -> Result {
        let items = |at: usize, count: usize, datatype| Items { run, address: at, count: count as u64, datatype };
        match step {
            Step::Move { from, into, len } => self.move_bytes(memory, run, (from.addr(), into.addr()), len),
            Step::Convert { from, from_count, from_type, into, into_count, into_type } => {
                let from = items(from.addr(), from_count, Some(from_type));
                self.copy(memory, from, items(into.addr(), into_count, Some(into_type)))
            }
            Step::Pack { from, count, datatype, into } => {
                let from = items(from.addr(), count, Some(datatype));
                let bytes = self.bytes(&from)? as usize;
                self.copy(memory, from, items(into.addr(), bytes, None))
            }
            Step::Unpack { from, into, count, datatype } => {
                let into = items(into.addr(), count, Some(datatype));
                let bytes = self.bytes(&into)? as usize;
                self.copy(memory, items(from.addr(), bytes, None), into)
            }
            Step::Reduce { input, inout, count } => self.reduce(memory, run, (input.addr(), inout.addr()), count),
            _ => Ok(()),
        }
    }
}
