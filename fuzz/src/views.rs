//! Random views of a file: where their bytes lie, by the view and by what packing memory with the filetype shows.

use crate::datatypes::any_type;
use crate::input::Input;
use mpi::datatype::{self as d, Datatype};
use mpi::io::Representation;
use mpi::io::view::View;
use std::rc::Rc;

/// How far a filetype may reach; its memory is allocated.
const REACH_MAX: isize = 1 << 16;
/// Tiles that are looked at.
const TILES: u64 = 3;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (Some(etype), Some(old)) = (any_type(&mut input, 1), any_type(&mut input, 3)) else { return };
    let disp = input.between(0, 50);
    let filetype = if input.flag() { old } else { repeated(&etype, &mut input).unwrap_or(old) };
    let types = (&etype, &filetype);
    let Ok(view) = View::of_tiles(disp, types, types, Representation::Native, false) else { return };
    let is_for_writing = View::of_tiles(disp, types, types, Representation::Native, true).is_ok();
    let reach = filetype.true_lb() + filetype.true_extent();
    if filetype.size() == 0 || reach > REACH_MAX || filetype.extent() > REACH_MAX {
        return;
    }
    assert!(filetype.true_lb() >= 0, "a view before the beginning of its file");
    let tile = offsets_of(&filetype, reach as usize);
    let extent = filetype.extent() as u64;
    let all: Vec<u64> = (0..TILES).flat_map(|i| tile.iter().map(move |at| disp as u64 + i * extent + at)).collect();
    let ascends = all.windows(2).all(|pair| pair[0] < pair[1]);
    let one_tile = tile.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(one_tile || !is_for_writing, "the bytes of a view for writing ascend, and none is there twice");
    assert_eq!(ascends, view.ascends(0..all.len() as u64), "whether the bytes of a view ascend");
    compare(&view, &all, etype.size() as u64, &mut input);
}

/// The etype, again and again with holes: views that are accepted are rare among random types.
fn repeated(etype: &Rc<Datatype>, input: &mut Input<'_>) -> Option<Rc<Datatype>> {
    let step = etype.true_extent() as i64;
    let mut at = 0;
    let places: Vec<i64> = (0..1 + input.below(5))
        .map(|_| {
            at += step + input.between(0, 30);
            at - step
        })
        .collect();
    let list = d::hindexed_block(d::Form::Count, 1, &places, etype).ok()?;
    d::resized(d::Form::Count, 0, at + etype.true_lb() as i64 + input.between(0, 40), &list).ok()
}

/// Where each byte of one item lies, by packing memory that holds the low, and the high byte of each place.
fn offsets_of(filetype: &Datatype, reach: usize) -> Vec<u64> {
    let half = |shift: usize| {
        let memory: Vec<u8> = (0..reach).map(|at| (at >> shift) as u8).collect();
        let mut packed = vec![0; filetype.size()];
        // SAFETY: the memory covers all data of the item, which begin behind its address; the vector has room for them.
        unsafe { d::pack(filetype, memory.as_ptr(), 1, 0, packed.as_mut_ptr(), packed.len()) };
        packed
    };
    half(0).iter().zip(half(8)).map(|(low, high)| u64::from(*low) | u64::from(high) << 8).collect()
}

fn compare(view: &View, all: &[u64], etype_bytes: u64, input: &mut Input<'_>) {
    let from = input.below(all.len());
    let len = 1 + input.below(all.len() - from);
    view.check(from as u64, len as u64).expect("a small file");
    let mut seen = Vec::new();
    view.each_run(from as u64, len as u64, |at, run| seen.extend(at..at + run as u64));
    assert_eq!(seen, all[from..from + len], "the runs of {len} bytes from {from} on");
    let (begin, end) = (seen.iter().min().expect("a byte"), seen.iter().max().expect("a byte"));
    assert_eq!(view.hull(from as u64, len as u64), *begin..end + 1);
    assert_eq!(view.offset_of(from as u64), all[from]);
    let probe = all[from] + input.below(40) as u64;
    let position = all.iter().position(|at| *at >= probe).unwrap_or(all.len());
    assert_eq!(view.position_of(probe, 0..all.len() as u64), position as u64, "the position of {probe}");
    if position < all.len() {
        assert_eq!(view.etypes_in(probe), (position as u64).div_ceil(etype_bytes), "etypes before {probe}");
    }
}
