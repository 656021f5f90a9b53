//! Views (MPI-5.0, 14.3): where the bytes of a stream lie in the file.
//!
//! The stream of a view is its data bytes without the holes, tile after tile. The runs of a tile ascend, so a later byte of the stream has
//! a larger offset, and an offset is found by bisection. That is not so where runs overlap, which they may in a view that is only read, nor from one tile to the
//! next if the filetype's extent is smaller than its data: HDF5 has such types, of which it uses one tile ([`View::ascends`]).

use super::representation::{self, Representation};
use crate::cs::Section;
use crate::datatype::{self, Datatype};
use base::{Result, ensure};
use std::ops::Range;
use std::rc::Rc;

/// `MPI_DISPLACEMENT_CURRENT`, in this crate.
pub const DISPLACEMENT_CURRENT: i64 = -1;

/// A view of a file.
pub struct View {
    /// Displacement in bytes.
    pub disp: u64,
    /// Elementary type, as the program has given it.
    pub etype: Rc<Datatype>,
    /// File type, as the program has given it.
    pub filetype: Rc<Datatype>,
    /// How the data look in the file.
    pub representation: Representation,
    /// The file type as it lies in the file.
    tile: Rc<Datatype>,
    /// Bytes of data of an etype in the file.
    etype_bytes: u64,
    /// Where the stream begins, if it is one run of bytes.
    dense: Option<u64>,
    /// Runs of a tile overlap.
    runs_overlap: bool,
    /// Tiles overlap.
    tiles_overlap: bool,
}

impl View {
    /// The view of a file that has just been opened: its bytes.
    pub fn of_bytes() -> View {
        let byte = Rc::clone(datatype::byte());
        View {
            disp: 0,
            etype: Rc::clone(&byte),
            filetype: Rc::clone(&byte),
            representation: Representation::Native,
            tile: byte,
            etype_bytes: 1,
            dense: Some(0),
            runs_overlap: false,
            tiles_overlap: false,
        }
    }

    /// A view of the program. A file that is written must not show a byte twice.
    pub fn new(
        cs: &mut Section,
        disp: i64,
        etype: &Rc<Datatype>,
        filetype: &Rc<Datatype>,
        representation: Representation,
        writes: bool,
    ) -> Result<View> {
        ensure!(disp >= 0, ERR_ARG, "the displacement of a view is negative");
        ensure!(etype.is_committed() && filetype.is_committed(), ERR_TYPE, "datatype is not committed");
        let unit = representation::in_file(cs, &representation, etype)?;
        let tile = representation::in_file(cs, &representation, filetype)?;
        View::of_tiles(disp, (etype, filetype), (&unit, &tile), representation, writes)
    }

    /// A view whose types, `unit` and `tile`, lie in the file as they are given.
    pub fn of_tiles(
        disp: i64,
        (etype, filetype): (&Rc<Datatype>, &Rc<Datatype>),
        (unit, tile): (&Rc<Datatype>, &Rc<Datatype>),
        representation: Representation,
        writes: bool,
    ) -> Result<View> {
        ensure!(unit.size() > 0, ERR_TYPE, "the etype has no data");
        ensure!(tile.size().is_multiple_of(unit.size()), ERR_TYPE, "the filetype is not made of whole etypes");
        check_order(unit, writes)?;
        check_order(tile, writes)?;
        let dense = tile.dense_offset(2).filter(|_| tile.size() > 0).map(|begin| disp as u64 + begin as u64);
        Ok(View {
            disp: disp as u64,
            etype: Rc::clone(etype),
            filetype: Rc::clone(filetype),
            representation,
            etype_bytes: unit.size() as u64,
            tile: Rc::clone(tile),
            dense,
            runs_overlap: tile.order().overlaps,
            tiles_overlap: tile.true_extent() > tile.extent(),
        })
    }

    /// Bytes of data of an etype in the file.
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// The position in the stream of an offset in etypes.
    pub fn position(&self, etypes: i64) -> Result<u64> {
        ensure!(etypes >= 0, ERR_ARG, "the offset in a file is negative");
        let position = (etypes as u64).checked_mul(self.etype_bytes).filter(|bytes| *bytes <= i64::MAX as u64);
        position.ok_or(base::Error::new(base::Class::ERR_ARG, "the offset in a file is too large"))
    }

    /// Whether the `len` bytes from `position` on exist in the largest file.
    pub fn check(&self, position: u64, len: u64) -> Result {
        if len == 0 {
            return Ok(());
        }
        ensure!(self.tile.size() > 0, ERR_IO, "the view shows no byte of the file");
        let last = u128::from(position) + u128::from(len) - 1;
        let tile = last / self.tile.size() as u128;
        let end = tile
            .checked_mul(self.tile.extent() as u128)
            .and_then(|begin| begin.checked_add(u128::from(self.disp) + self.tile.true_extent() as u128))
            .and_then(|end| end.checked_add(self.tile.true_lb() as u128));
        let fits = end.is_some_and(|end| end <= i64::MAX as u128);
        ensure!(fits, ERR_ARG, "the access lies behind the end of the largest file");
        Ok(())
    }

    /// Where the byte at `position` lies; [`View::check`] has agreed.
    pub fn offset_of(&self, position: u64) -> u64 {
        let mut found = self.disp;
        self.each_run(position, 1, |offset, _| found = offset);
        found
    }

    /// Between which offsets the `len > 0` bytes from `position` on lie.
    pub fn hull(&self, position: u64, len: u64) -> Range<u64> {
        if !self.ascends(position..position + len) {
            let (mut begin, mut end) = (u64::MAX, 0);
            self.each_run(position, len, |at, run| (begin, end) = (begin.min(at), end.max(at + run as u64)));
            return begin..end;
        }
        self.offset_of(position)..self.offset_of(position + len - 1) + 1
    }

    /// The first position of `within` whose byte lies at `offset` or behind.
    pub fn position_of(&self, offset: u64, within: Range<u64>) -> u64 {
        if let Some(begin) = self.dense {
            return offset.saturating_sub(begin).clamp(within.start, within.end);
        }
        if !self.ascends(within.clone()) {
            let (mut before, mut is_found) = (within.start, false);
            self.each_run(within.start, within.end - within.start, |at, run| {
                before += if is_found { 0 } else { offset.saturating_sub(at).min(run as u64) };
                is_found |= at + run as u64 > offset;
            });
            return before;
        }
        let (mut low, mut high) = (within.start, within.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.offset_of(middle) < offset { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// How many etypes a file of `size` bytes shows; one that the end cuts counts.
    pub fn etypes_in(&self, size: u64) -> u64 {
        let begin = self.disp + self.tile.true_lb() as u64;
        if size <= begin || self.tile.size() == 0 {
            return 0;
        }
        // All data of the tiles before this one lie before `size`, and its own don't.
        let behind = (size - begin).checked_sub(self.tile.true_extent() as u64);
        let whole = behind.map_or(0, |behind| behind / self.tile.extent() as u64 + 1);
        let first = whole.saturating_mul(self.tile.size() as u64).min(i64::MAX as u64);
        let last = first.saturating_add(self.tile.size() as u64).min(i64::MAX as u64);
        self.position_of(size, first..last).div_ceil(self.etype_bytes)
    }

    /// Calls `visit(offset, length)` for each run of the file that holds the `len` bytes of the stream from `position` on, in the stream's order.
    pub fn each_run(&self, position: u64, len: u64, mut visit: impl FnMut(u64, usize)) {
        if len == 0 {
            return;
        }
        if let Some(begin) = self.dense {
            return visit(begin + position, len as usize);
        }
        let size = self.tile.size() as u64;
        let (first, from) = (position / size, position % size);
        let base = self.disp + first * self.tile.extent() as u64;
        let tiles = (from + len).div_ceil(size) as usize;
        datatype::runs_in(&self.tile, base as usize, tiles, from as usize, len as usize, |offset, len| {
            visit(offset as u64, len);
        });
    }

    /// Whether each byte of a part of the stream lies behind the one before it.
    pub fn ascends(&self, part: Range<u64>) -> bool {
        let size = self.tile.size().max(1) as u64;
        !self.runs_overlap && (!self.tiles_overlap || part.is_empty() || part.start / size == (part.end - 1) / size)
    }

    /// Whether the stream is one run of the file.
    pub fn is_dense(&self) -> bool {
        self.dense.is_some()
    }
}

/// `ERR_TYPE` unless displacements are not negative and ascend (14.3).
fn check_order(datatype: &Datatype, writes: bool) -> Result {
    if datatype.size() == 0 {
        return Ok(());
    }
    ensure!(datatype.true_lb() >= 0, ERR_TYPE, "a type of a view has a negative displacement");
    let order = datatype.order();
    ensure!(order.ascends, ERR_TYPE, "the displacements in a type of a view do not ascend");
    ensure!(!writes || !order.overlaps, ERR_TYPE, "a type in the view of a file that is written overlaps itself");
    ensure!(datatype.extent() > 0, ERR_TYPE, "a type of a view has no extent");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cs::enter_test;
    use crate::datatype::{Form, hindexed, hvector, resized};
    use proptest::prelude::*;

    /// A filetype of blocks (gap before, length), repeated with a stride, with a hole at its end.
    fn filetype(blocks: &[(i64, i64)], repeat: i64, hole: i64) -> Rc<Datatype> {
        let mut at = 0;
        let begins = blocks.iter().map(|(gap, len)| {
            at += gap + len;
            at - len
        });
        let begins: Vec<i64> = begins.collect();
        let lengths: Vec<i64> = blocks.iter().map(|(_, len)| *len).collect();
        let list = hindexed(Form::Int, &lengths, &begins, datatype::byte()).expect("valid");
        let many = hvector(Form::Int, repeat, 1, at + 1, &list).expect("valid");
        let tile = resized(Form::Int, 0, (at + 1) * repeat + hole, &many).expect("valid");
        tile.commit();
        tile
    }

    /// Offsets of the first `len` bytes of the stream, by a walk over the file.
    fn naive(disp: u64, tile: &Datatype, len: usize) -> Vec<u64> {
        let runs = datatype::runs(tile, 0, 1);
        let bytes: Vec<u64> = runs.iter().flat_map(|(at, len)| *at as u64..(at + len) as u64).collect();
        (0..).flat_map(|i| bytes.iter().map(move |at| disp + i * tile.extent() as u64 + at)).take(len).collect()
    }

    proptest! {
        #[test]
        fn a_view_shows_what_a_naive_walk_shows(
            blocks in prop::collection::vec((0..5i64, 1..6i64), 1..8),
            repeat in 1..5i64,
            hole in 0..9i64,
            disp in 0..20i64,
            from in 0..150u64,
            len in 1..100u64,
            probe in 0..2000u64,
        ) {
            let mut inside = enter_test();
            let cs = inside.section();
            let tile = filetype(&blocks, repeat, hole);
            let view = View::new(cs, disp, datatype::byte(), &tile, Representation::Native, true).expect("valid");
            let all = naive(disp as u64, &tile, (from + len) as usize);
            let mut seen = Vec::new();
            view.each_run(from, len, |at, run| seen.extend(at..at + run as u64));
            prop_assert_eq!(&seen[..], &all[from as usize..]);
            prop_assert_eq!(view.hull(from, len), all[from as usize]..all[(from + len) as usize - 1] + 1);
            let position = all.iter().filter(|at| **at < probe).count() as u64;
            prop_assert_eq!(view.position_of(probe, 0..from + len), position);
            let end = all[from as usize];
            prop_assert_eq!(view.etypes_in(end), from);
            prop_assert_eq!(view.etypes_in(end + 1), from + 1);
        }
    }

    proptest! {
        #[test]
        fn a_view_may_show_bytes_twice_when_it_is_read(
            blocks in prop::collection::vec((0..4i64, 1..9i64), 2..8),
            hole in -25..9i64,
            from in 0..60u64,
            len in 1..60u64,
            probe in 0..200u64,
        ) {
            let mut inside = enter_test();
            let cs = inside.section();
            let mut at = 0;
            let begins: Vec<i64> = blocks.iter().map(|(step, _)| { at += step; at }).collect();
            let lengths: Vec<i64> = blocks.iter().map(|(_, len)| *len).collect();
            let list = hindexed(Form::Int, &lengths, &begins, datatype::byte()).expect("valid");
            let extent = list.true_lb() as i64 + list.true_extent() as i64 + hole;
            let tile = resized(Form::Int, 0, extent.max(1), &list).expect("valid");
            tile.commit();
            let view = View::new(cs, 3, datatype::byte(), &tile, Representation::Native, false).expect("valid");
            let all = naive(3, &tile, (from + len) as usize);
            let part = &all[from as usize..];
            let mut seen = Vec::new();
            view.each_run(from, len, |at, run| seen.extend(at..at + run as u64));
            prop_assert_eq!(&seen[..], part);
            let (begin, end) = (part.iter().min().expect("one"), part.iter().max().expect("one"));
            prop_assert_eq!(view.hull(from, len), *begin..end + 1);
            let position = part.iter().position(|at| *at >= probe).map_or(from + len, |i| from + i as u64);
            prop_assert_eq!(view.position_of(probe, from..from + len), position);
            let long = naive(3, &tile, 20_000);
            let ended = long.iter().position(|at| *at >= probe).expect("the stream is long enough");
            prop_assert_eq!(view.etypes_in(probe), ended as u64);
        }
    }

    #[test]
    fn types_that_descend_or_overlap_are_refused() {
        let mut inside = enter_test();
        let cs = inside.section();
        let mut view = |lengths: &[i64], begins: &[i64], writes| {
            let tile = hindexed(Form::Int, lengths, begins, datatype::byte()).expect("valid");
            tile.commit();
            View::new(cs, 0, datatype::byte(), &tile, Representation::Native, writes).map(drop).map_err(|e| e.class)
        };
        assert_eq!(view(&[1, 1], &[0, 4], true), Ok(()));
        assert_eq!(view(&[1, 1], &[4, 0], false), Err(base::Class::ERR_TYPE));
        assert_eq!(view(&[3, 3], &[0, 2], true), Err(base::Class::ERR_TYPE));
        assert_eq!(view(&[3, 3], &[0, 2], false), Ok(()));
        assert_eq!(view(&[1], &[-1], false), Err(base::Class::ERR_TYPE));
    }
}
