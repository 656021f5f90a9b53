//! Collective access in two phases: the processes give their data to a few of them, the *aggregators*, which write large pieces; or aggregators read
//! large pieces and give the data away (Thakur, Gropp, Lusk: "Data Sieving and Collective I/O in ROMIO", 1999).
//!
//! The range of the file that all processes access together is divided among the aggregators; each moves a *window* of its part per round.
//! In `automatic` mode that is done when accesses of processes interleave; else each process accesses the file by itself.

use super::agree::agree;
use super::file::File;
use super::hints::Switch;
use super::stream::Stream;
use super::view::View;
use super::{independent, raw};
use crate::coll::{BlockBuffer, Buffer, Ints, internal, plan, plan_alltoall};
use crate::cs::Section;
use crate::datatype;
use base::{Class, Error, Result, ensure};
use std::ops::Range;

/// Bytes of one run in a message: its place in the window, and its length.
const RUN_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;
/// Bytes before the data of an answer: where the file ended in the window.
const END_BYTES: usize = 8;

/// Place in a window, and length.
type Run = (usize, usize);

const INVALID: Error = Error::new(Class::ERR_INTERN, "another process has sent an access that is not valid");

/// What this process wants in a collective: the stream from a position on. `Err`: it takes part with nothing.
pub type Wanted<'a, 'b> = Result<(u64, &'a mut Stream<'b>)>;

/// Who accesses what.
struct Division {
    /// The aggregators' ranks, and the part of the file of each.
    parts: Vec<(usize, Range<u64>)>,
    /// Bytes of a window.
    window: u64,
    rounds: u64,
}

impl Division {
    fn new(file: &File, all: Range<u64>) -> Division {
        let hints = file.hints();
        let (unit, ranks) = (hints.striping_unit, file.comm.size() as usize);
        let first = all.start - all.start % unit;
        let aggregators = aggregators(file, hints.cb_nodes.min(ranks));
        let each = (all.end - first).div_ceil(aggregators.len() as u64).next_multiple_of(unit);
        let parts = aggregators.into_iter().enumerate().map(|(i, rank)| {
            let begin = first.saturating_add(each.saturating_mul(i as u64));
            (rank, begin.clamp(all.start, all.end)..begin.saturating_add(each).clamp(all.start, all.end))
        });
        let window = hints.cb_buffer_bytes as u64;
        let parts: Vec<_> = parts.collect();
        let rounds = parts.iter().map(|(_, part)| (part.end - part.start).div_ceil(window)).max().unwrap_or(0);
        Division { parts, window, rounds }
    }

    /// The windows of a round with the ranks of their aggregators.
    fn windows(&self, round: u64) -> impl Iterator<Item = (usize, Range<u64>)> {
        self.parts.iter().map(move |(rank, part)| {
            let begin = part.start.saturating_add(round.saturating_mul(self.window)).min(part.end);
            (*rank, begin..begin.saturating_add(self.window).min(part.end))
        })
    }

    /// The window of this process in a round; `None` if it is no aggregator.
    fn own(&self, file: &File, round: u64) -> Option<Range<u64>> {
        let me = file.comm.rank as usize;
        self.windows(round).find(|(rank, _)| *rank == me).map(|(_, window)| window)
    }
}

/// The ranks that access the file: one of each node first, then spread over all ranks.
fn aggregators(file: &File, number: usize) -> Vec<usize> {
    let ranks = file.comm.size() as usize;
    let mut chosen: Vec<usize> = Vec::new();
    if let Some(layout) = file.comm.nodes.of(&file.comm) {
        let mut nodes = Vec::new();
        for rank in 0..ranks {
            if !nodes.contains(&layout.node(rank)) {
                nodes.push(layout.node(rank));
                chosen.push(rank);
            }
        }
        chosen.truncate(number);
    }
    let spread = (0..number).map(|i| i * ranks / number).chain(0..ranks);
    for rank in spread {
        if chosen.len() < number && !chosen.contains(&rank) {
            chosen.push(rank);
        }
    }
    chosen
}

/// Tells the others what this process wants. `None`: each accesses the file by itself.
fn divide(cs: &mut Section, file: &File, switch: Switch, mine: Option<Range<u64>>) -> Result<Option<Division>> {
    if file.comm.size() == 1 || switch == Switch::Disable || file.is_atomic() {
        return Ok(None);
    }
    let told = mine.map_or([u64::MAX, 0], |range| [range.start, range.end]).map(u64::to_le_bytes);
    let all = internal::allgather_bytes(cs, &file.comm, told.as_flattened())?;
    let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
    let ranges = all.chunks_exact(16).map(|pair| word(pair)..word(&pair[8..])).filter(|range| range.start < range.end);
    let mut ranges: Vec<Range<u64>> = ranges.collect();
    ranges.sort_by_key(|range| range.start);
    let interleave = ranges.windows(2).any(|pair| pair[1].start < pair[0].end);
    let begin = ranges.iter().map(|range| range.start).min();
    let end = ranges.iter().map(|range| range.end).max();
    Ok(match begin.zip(end) {
        Some((begin, end)) if interleave || switch == Switch::Enable => Some(Division::new(file, begin..end)),
        _ => None,
    })
}

/// Whether the others can take part in an access: its offsets ascend. Otherwise the process does it by itself, after it has served the others.
fn is_common(view: &View, position: u64, len: u64) -> bool {
    view.ascends(position..position + len)
}

/// Between which offsets lies what this process wants of the others.
fn hull(view: &View, wanted: &Wanted<'_, '_>) -> Option<Range<u64>> {
    let (position, stream) = wanted.as_ref().ok()?;
    (stream.len() > 0 && is_common(view, *position, stream.len())).then(|| view.hull(*position, stream.len()))
}

/// The part of the stream whose bytes lie in a window.
fn part_in(view: &View, wanted: &Wanted<'_, '_>, window: &Range<u64>) -> Range<u64> {
    let Ok((position, stream)) = wanted else { return 0..0 };
    let all = *position..*position + stream.len();
    if window.is_empty() || all.is_empty() || !view.ascends(all.clone()) {
        return 0..0;
    }
    let begin = view.position_of(window.start, all.clone());
    begin..view.position_of(window.end, begin..all.end)
}

/// Blocks of bytes for each process, one after the other.
struct Blocks {
    bytes: Vec<u8>,
    counts: Vec<i64>,
}

impl Blocks {
    fn none(ranks: usize) -> Blocks {
        Blocks { bytes: Vec::new(), counts: vec![0; ranks] }
    }

    fn of_counts(counts: Vec<i64>) -> Result<Blocks> {
        ensure!(
            counts.iter().all(|count| (0..=i64::from(u32::MAX) * 16).contains(count)),
            ERR_INTERN,
            "a size is impossible"
        );
        Ok(Blocks { bytes: vec![0; counts.iter().sum::<i64>() as usize], counts })
    }

    /// Where the bytes are. Of no bytes an address that can't be taken for `MPI_IN_PLACE`.
    fn start(&mut self) -> *mut u8 {
        if self.bytes.is_empty() { std::ptr::null_mut() } else { self.bytes.as_mut_ptr() }
    }

    fn begins(&self) -> Vec<i64> {
        let begin = |sum: &mut i64, count: &i64| {
            *sum += count;
            Some(*sum - count)
        };
        self.counts.iter().scan(0, begin).collect()
    }

    /// The block of each process.
    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let begins = self.begins();
        (0..self.counts.len()).map(move |i| &self.bytes[begins[i] as usize..(begins[i] + self.counts[i]) as usize])
    }
}

/// Every process gets its block of every other one. `room` says the sizes of what comes, if that is known.
fn exchange(cs: &mut Section, file: &File, mut out: Blocks, room: Option<Vec<i64>>) -> Result<Blocks> {
    let byte = datatype::byte();
    let counts = match room {
        Some(counts) => counts,
        None => {
            let mut counts = vec![0i64; out.counts.len()];
            let even = |ptr: *mut i64| BlockBuffer::Even(Buffer { ptr: ptr.cast(), count: 8, datatype: byte });
            let (send, recv) = (even(out.counts.as_mut_ptr()), even(counts.as_mut_ptr()));
            let plan = plan_alltoall(cs, &file.comm, Some(send), recv)?;
            plan::run(cs, plan)?;
            counts
        }
    };
    let mut into = Blocks::of_counts(counts)?;
    let (from, to) = (out.begins(), into.begins());
    let send = BlockBuffer::Listed {
        ptr: out.start(),
        counts: Ints::I64(&out.counts),
        displs: Ints::I64(&from),
        datatype: byte,
    };
    let recv = BlockBuffer::Listed {
        ptr: into.start(),
        counts: Ints::I64(&into.counts),
        displs: Ints::I64(&to),
        datatype: byte,
    };
    let plan = plan_alltoall(cs, &file.comm, Some(send), recv)?;
    plan::run(cs, plan)?;
    Ok(into)
}

/// Appends the runs of a part of the stream, relative to its window: their number, then each.
fn put_runs(out: &mut Vec<u8>, view: &View, part: &Range<u64>, window: u64) {
    let head = out.len();
    out.extend([0; COUNT_BYTES]);
    let mut number = 0u32;
    view.each_run(part.start, part.end - part.start, |offset, len| {
        number += 1;
        out.extend(((offset - window) as u32).to_le_bytes());
        out.extend((len as u32).to_le_bytes());
    });
    out[head..head + COUNT_BYTES].copy_from_slice(&number.to_le_bytes());
}

/// The runs at the beginning of a message, and the rest. They lie in a window of `window` bytes.
fn take_runs(message: &[u8], window: usize) -> Result<(Vec<Run>, &[u8])> {
    let word = |bytes: &[u8]| u32::from_le_bytes(std::array::from_fn(|i| bytes[i])) as usize;
    if message.is_empty() {
        return Ok((Vec::new(), message));
    }
    let (head, rest) = message.split_at_checked(COUNT_BYTES).ok_or(INVALID)?;
    let (runs, rest) = word(head).checked_mul(RUN_BYTES).and_then(|len| rest.split_at_checked(len)).ok_or(INVALID)?;
    let runs: Vec<_> = runs.chunks_exact(RUN_BYTES).map(|run| (word(run), word(&run[4..]))).collect();
    if runs.iter().all(|(begin, len)| begin + len <= window) { Ok((runs, rest)) } else { Err(INVALID) }
}

/// Keeps the first error: whoever fails goes on to take part.
fn note<T: Default>(result: &mut Result, step: Result<T>) -> T {
    step.unwrap_or_else(|error| {
        if result.is_ok() {
            *result = Err(error);
        }
        T::default()
    })
}

/// A collective write. Returns the bytes of this process's stream that are written.
pub fn write(cs: &mut Section, file: &File, view: &View, mut wanted: Wanted<'_, '_>) -> Result<u64> {
    let mine = hull(view, &wanted);
    let Some(division) = divide(cs, file, file.hints().cb_write, mine)? else {
        let (position, stream) = wanted?;
        return independent::write(file, view, position, stream);
    };
    let (ranks, mut buffer, mut result) = (file.comm.size() as usize, Vec::new(), Ok(()));
    for round in 0..division.rounds {
        let mut out = Blocks::none(ranks);
        let mut blocks: Vec<(usize, Range<u64>)> = division.windows(round).collect();
        blocks.sort_by_key(|(rank, _)| *rank);
        for (rank, window) in blocks {
            let part = part_in(view, &wanted, &window);
            let Ok((position, stream)) = &mut wanted else { continue };
            if part.is_empty() {
                continue;
            }
            let begin = out.bytes.len();
            put_runs(&mut out.bytes, view, &part, window.start);
            let (data, len) = (out.bytes.len(), (part.end - part.start) as usize);
            out.bytes.resize(data + len, 0);
            // SAFETY: there is room for `len` bytes, which the stream has.
            unsafe { stream.copy_out((part.start - *position) as usize, out.bytes[data..].as_mut_ptr(), len) };
            out.counts[rank] = (out.bytes.len() - begin) as i64;
        }
        let come = exchange(cs, file, out, None)?;
        if let (Some(window), Ok(())) = (division.own(file, round), result) {
            note(&mut result, write_window(file, &window, &come, &mut buffer));
        }
    }
    // Data of any process may be among what an aggregator could not write.
    agree(cs, &file.comm, result)?;
    let (position, stream) = wanted?;
    let len = stream.len();
    if is_common(view, position, len) { Ok(len) } else { independent::write(file, view, position, stream) }
}

/// Writes what has come for a window: all runs that touch in one piece.
fn write_window(file: &File, window: &Range<u64>, come: &Blocks, buffer: &mut Vec<u8>) -> Result {
    let room = (window.end - window.start) as usize;
    buffer.resize(room, 0);
    let mut runs = Vec::new();
    for message in come.each() {
        let (theirs, mut data) = take_runs(message, room)?;
        for &(begin, len) in &theirs {
            let (run, rest) = data.split_at_checked(len).ok_or(INVALID)?;
            buffer[begin..begin + len].copy_from_slice(run);
            data = rest;
        }
        runs.extend(theirs);
    }
    runs.sort_unstable();
    let pieces = joined(&runs);
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
    let at = |place: usize| window.start + place as u64;
    let _locked = independent::lock_write(file, at(first.start)..at(last.end))?;
    file.dirty.set(true);
    for piece in &pieces {
        let bytes = &buffer[piece.clone()];
        // SAFETY: a slice.
        unsafe { raw::write_at(&file.raw, bytes.as_ptr(), bytes.len(), at(piece.start))? };
    }
    Ok(())
}

/// Sorted runs, those that touch or overlap as one.
fn joined(runs: &[Run]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for &(begin, len) in runs {
        match pieces.last_mut() {
            Some(last) if begin <= last.end => last.end = last.end.max(begin + len),
            _ => pieces.push(begin..begin + len),
        }
    }
    pieces
}

/// A collective read. Returns the bytes of this process's stream before the end of the file.
pub fn read(cs: &mut Section, file: &File, view: &View, mut wanted: Wanted<'_, '_>) -> Result<u64> {
    let mine = hull(view, &wanted);
    let Some(division) = divide(cs, file, file.hints().cb_read, mine)? else {
        let (position, stream) = wanted?;
        return independent::read(file, view, position, stream);
    };
    let (ranks, mut buffer, mut result) = (file.comm.size() as usize, Vec::new(), Ok(()));
    let mut end = u64::MAX;
    for round in 0..division.rounds {
        let mut out = Blocks::none(ranks);
        let mut answers = vec![0i64; ranks];
        let mut parts = Vec::new();
        let mut blocks: Vec<(usize, Range<u64>)> = division.windows(round).collect();
        blocks.sort_by_key(|(rank, _)| *rank);
        for (rank, window) in blocks {
            let part = part_in(view, &wanted, &window);
            if part.is_empty() {
                continue;
            }
            let begin = out.bytes.len();
            put_runs(&mut out.bytes, view, &part, window.start);
            out.counts[rank] = (out.bytes.len() - begin) as i64;
            answers[rank] = END_BYTES as i64 + (part.end - part.start) as i64;
            parts.push((rank, window, part));
        }
        let come = exchange(cs, file, out, None)?;
        let mut replies = Blocks::none(ranks);
        if let Some(window) = division.own(file, round) {
            replies = read_window(file, &window, &come, &mut buffer, &mut result);
        }
        let come = exchange(cs, file, replies, Some(answers))?;
        let blocks: Vec<&[u8]> = come.each().collect();
        for (rank, window, part) in parts {
            let Ok((position, stream)) = &mut wanted else { continue };
            let (known, data) = blocks[rank].split_at_checked(END_BYTES).ok_or(INVALID)?;
            let known = u64::from_le_bytes(std::array::from_fn(|i| known[i]));
            let ended = view.position_of(window.start.saturating_add(known), part.clone());
            let len = ((ended - part.start) as usize).min(data.len());
            // SAFETY: the block has these bytes, for which the stream has room.
            unsafe { stream.copy_in((part.start - *position) as usize, data.as_ptr(), len) };
            if ended < part.end {
                end = end.min(ended);
            }
        }
    }
    agree(cs, &file.comm, result)?;
    let (position, stream) = wanted?;
    if !is_common(view, position, stream.len()) {
        return independent::read(file, view, position, stream);
    }
    Ok(end.min(position + stream.len()).saturating_sub(position))
}

/// Reads what is wanted of a window, and makes the answers. Those have their sizes also after an error, which `result` tells.
fn read_window(file: &File, window: &Range<u64>, come: &Blocks, buffer: &mut Vec<u8>, result: &mut Result) -> Blocks {
    let room = (window.end - window.start) as usize;
    buffer.resize(room, 0);
    let requests: Vec<Vec<Run>> =
        come.each().map(|message| note(result, take_runs(message, room).map(|(runs, _)| runs))).collect();
    let all = || requests.iter().flatten();
    let begin = all().map(|(begin, _)| *begin).min().unwrap_or(0);
    let end = all().map(|(begin, len)| begin + len).max().unwrap_or(0);
    let span = &mut buffer[begin..end];
    // SAFETY: a slice.
    let read = unsafe { raw::read_at(&file.raw, span.as_mut_ptr(), span.len(), window.start + begin as u64) };
    let known = begin + note(result, read);
    let mut replies = Blocks::none(requests.len());
    for (rank, runs) in requests.iter().enumerate().filter(|(_, runs)| !runs.is_empty()) {
        let before = replies.bytes.len();
        // The file may end behind the window.
        let known = if known == end { room } else { known };
        replies.bytes.extend((known as u64).to_le_bytes());
        for &(begin, len) in runs {
            replies.bytes.extend(&buffer[begin..begin + len]);
        }
        replies.counts[rank] = (replies.bytes.len() - before) as i64;
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_message_lie_in_the_window() {
        let mut message = Vec::new();
        put_runs(&mut message, &View::of_bytes(), &(105..110), 100);
        message.extend([1, 2, 3, 4, 5]);
        let (runs, data) = take_runs(&message, 10).expect("valid");
        assert_eq!((runs, data), (vec![(5, 5)], &[1, 2, 3, 4, 5][..]));
        assert_eq!(take_runs(&message, 9).err(), Some(INVALID));
        assert_eq!(take_runs(&message[..7], 10).err(), Some(INVALID));
    }

    #[test]
    fn touching_runs_are_written_together() {
        assert_eq!(joined(&[(0, 2), (2, 2), (5, 1), (5, 3)]), [0..4, 5..8]);
    }
}
