//! Random nested datatypes: what is packed, walked, copied and rebuilt must be the same bytes.

use crate::input::Input;
use mpi::datatype::{self as d, Datatype, Form, Name};
use std::rc::Rc;

/// Bytes of data of a type that is played with; larger ones only take longer.
const SIZE_MAX: usize = 20_000;
/// How far from its address a type may reach.
const REACH_MAX: i64 = 1 << 17;
/// Byte, short, int, double, long double, and pairs with gaps.
const NAMED: [Name; 11] = [
    Name::MPI_CHAR,
    Name::MPI_SHORT,
    Name::MPI_INT,
    Name::MPI_DOUBLE,
    Name::MPI_C_DOUBLE_COMPLEX,
    Name::MPI_LONG_DOUBLE,
    Name::MPI_FLOAT_INT,
    Name::MPI_DOUBLE_INT,
    Name::MPI_SHORT_INT,
    Name::MPI_LONG_DOUBLE_INT,
    Name::MPI_BYTE,
];

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(dt) = any_type(&mut input, 4) else { return };
    let count = input.below(4);
    let Some(mut memory) = Memory::around(&dt, count, 1) else { return };
    let stream = whole(&dt, count, &mut memory);
    walk(&dt, count, &mut memory, &stream);
    pieces(&dt, count, &mut memory, &stream, &mut input);
    back(&dt, count, &memory, &stream);
    external(&dt, count, &mut memory, &stream);
    if let Some(other) = any_type(&mut input, 3) {
        copy_to(&dt, count, &mut memory, &other, input.below(4), &stream);
    }
}

/// A type, if the constructors agree.
pub fn any_type(input: &mut Input<'_>, depth: usize) -> Option<Rc<Datatype>> {
    let form = if input.flag() { Form::Count } else { Form::Int };
    let choice = if depth == 0 { 0 } else { input.below(13) };
    if choice == 0 {
        return Some(d::predefined(NAMED[input.below(NAMED.len())]).clone());
    }
    let old = any_type(input, depth - 1)?;
    let n = input.below(6);
    let lengths: Vec<i64> = (0..n).map(|_| input.between(0, 4)).collect();
    let disps: Vec<i64> = (0..n).map(|_| input.between(-40, 90)).collect();
    let made = match choice {
        1 => d::contiguous(form, input.between(0, 6), &old),
        2 => d::vector(form, input.between(0, 9), input.between(0, 4), input.between(-5, 9), &old),
        3 => d::hvector(form, input.between(0, 9), input.between(0, 4), input.between(-60, 90), &old),
        4 => d::indexed(form, &lengths, &disps, &old),
        5 => d::hindexed(form, &lengths, &disps, &old),
        6 => d::indexed_block(form, input.between(0, 4), &disps, &old),
        7 => d::hindexed_block(form, input.between(0, 4), &disps, &old),
        8 => {
            let types: Option<Vec<_>> = (0..n).map(|_| any_type(input, depth.min(2) - 1)).collect();
            d::structure(form, &lengths, &disps, &types?)
        }
        9 => d::resized(form, input.between(-40, 90), input.between(-40, 90), &old),
        10 => Ok(d::dup(&old)),
        11 => {
            let sizes: Vec<i64> = (0..1 + n.min(3)).map(|_| input.between(1, 7)).collect();
            let subsizes: Vec<i64> = sizes.iter().map(|size| input.between(1, size + 1)).collect();
            let starts: Vec<i64> = sizes.iter().zip(&subsizes).map(|(s, sub)| input.between(0, s - sub + 1)).collect();
            d::subarray(form, &sizes, &subsizes, &starts, order(input), &old)
        }
        _ => {
            let gsizes: Vec<i64> = (0..1 + n.min(2)).map(|_| input.between(1, 12)).collect();
            let distribs: Vec<i32> = gsizes.iter().map(|_| d::DISTRIBUTE_NONE + input.below(3) as i32).collect();
            let dargs: Vec<i32> =
                gsizes.iter().map(|_| [d::DISTRIBUTE_DFLT_DARG, 1, 2, 3, 12][input.below(5)]).collect();
            let psizes: Vec<i32> = gsizes.iter().map(|_| 1 + input.below(3) as i32).collect();
            let size = psizes.iter().product();
            let (rank, order) = (input.below(size as usize) as i32, order(input));
            let (gsizes, distribs, dargs, psizes) = (&gsizes[..], &distribs[..], &dargs[..], &psizes[..]);
            d::darray(form, d::DarrayArgs { size, rank, gsizes, distribs, dargs, psizes, order }, &old)
        }
    };
    made.ok().filter(|dt| dt.size() <= SIZE_MAX)
}

fn order(input: &mut Input<'_>) -> i32 {
    if input.flag() { d::ORDER_C } else { d::build::ORDER_FORTRAN }
}

/// Memory around the address of a buffer, exactly as large as its data reach.
struct Memory {
    bytes: Box<[u8]>,
    origin: usize,
}

impl Memory {
    /// None if `count` items reach too far.
    fn around(dt: &Datatype, count: usize, seed: u8) -> Option<Memory> {
        let (first, extent) = (dt.true_lb() as i64, dt.extent() as i64);
        let last = extent * (count.max(1) as i64 - 1);
        let low = (first + last.min(0)).min(0);
        let high = (first + dt.true_extent() as i64 + last.max(0)).max(0);
        let near = low > -REACH_MAX && high < REACH_MAX;
        let fill = |i: i64| (i as u8).wrapping_mul(37).wrapping_add((i >> 8) as u8).wrapping_mul(seed);
        near.then(|| Memory { bytes: (0..high - low).map(fill).collect(), origin: -low as usize })
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.origin)
    }
}

fn whole(dt: &Datatype, count: usize, memory: &mut Memory) -> Vec<u8> {
    let mut stream = vec![0xee; dt.size() * count];
    // SAFETY: `memory` covers all data of the items, `stream` is as long as they are.
    unsafe { d::pack(dt, memory.base(), count, 0, stream.as_mut_ptr(), stream.len()) };
    stream
}

/// The runs hold the same bytes in the same order.
fn walk(dt: &Datatype, count: usize, memory: &mut Memory, stream: &[u8]) {
    let base = memory.base() as usize;
    let start = memory.bytes.as_ptr() as usize;
    let runs = d::runs(dt, base, count);
    assert!(runs.len() <= d::run_count(dt, count).max(1));
    let walked: Vec<u8> = runs.iter().flat_map(|(at, len)| memory.bytes[at - start..][..*len].to_vec()).collect();
    assert_eq!(walked, stream);
    if let Some(offset) = dt.dense_offset(count) {
        assert!(stream.is_empty() || runs == [(base.wrapping_add_signed(offset), stream.len())]);
    }
    let elements = dt.elements_per_item() * count;
    assert_eq!(dt.elements_in(stream.len()), Some(elements));
    assert_eq!(dt.bytes_of_elements(elements), Some(stream.len()));
}

/// Any range of the stream can be packed by itself.
fn pieces(dt: &Datatype, count: usize, memory: &mut Memory, stream: &[u8], input: &mut Input<'_>) {
    let mut at = 0;
    for _ in 0..6 {
        let len = (1 + input.below(2000)).min(stream.len() - at);
        let mut piece = vec![0xee; len];
        // SAFETY: as in `whole`, and the range is inside the stream.
        unsafe { d::pack(dt, memory.base(), count, at, piece.as_mut_ptr(), len) };
        assert_eq!(piece, stream[at..at + len]);
        at += len;
    }
}

/// Unpacking in two pieces restores the data and touches nothing else.
fn back(dt: &Datatype, count: usize, memory: &Memory, stream: &[u8]) {
    let mut again = Memory { bytes: memory.bytes.iter().map(|b| !b).collect(), origin: memory.origin };
    let half = stream.len() / 3;
    // SAFETY: as in `whole`.
    unsafe {
        d::unpack(dt, again.base(), count, half, stream[half..].as_ptr(), stream.len() - half);
        d::unpack(dt, again.base(), count, 0, stream.as_ptr(), half);
    }
    let (start, base) = (again.bytes.as_ptr() as usize, again.base() as usize);
    let mut data = vec![false; again.bytes.len()];
    d::runs_in(dt, base, count, 0, stream.len(), |at, len| data[at - start..][..len].fill(true));
    for (at, is_data) in data.into_iter().enumerate() {
        assert_eq!(again.bytes[at], if is_data { memory.bytes[at] } else { !memory.bytes[at] }, "byte {at} of {dt:?}");
    }
}

/// The portable form has the announced size, and what it can hold comes back.
fn external(dt: &Datatype, count: usize, memory: &mut Memory, stream: &[u8]) {
    let size = d::pack_external_size(dt, count).expect("it is small");
    let mut wire = vec![0; size];
    // SAFETY: `memory` covers all data, the room is given.
    let packed = unsafe { d::pack_external(dt, memory.base(), count, wire.as_mut_ptr(), size) };
    // SAFETY: as above.
    let too_small = unsafe { d::pack_external(dt, memory.base(), count, wire.as_mut_ptr(), size.saturating_sub(1)) };
    assert!(size == 0 || too_small.is_err());
    if packed.is_err() {
        return;
    }
    assert_eq!(packed.expect("checked"), size);
    let mut again = Memory { bytes: memory.bytes.clone(), origin: memory.origin };
    // SAFETY: as above.
    let read = unsafe { d::unpack_external(dt, again.base(), count, wire.as_ptr(), size) };
    assert_eq!(read.expect("it was written by us"), size);
    if dt.uniform_builtin().is_some_and(|b| b.size() <= 8 && b.index.is_none()) {
        assert_eq!(whole(dt, count, &mut again), stream, "{dt:?}");
    }
}

/// A copy between two types is a copy of the stream.
fn copy_to(dt: &Datatype, count: usize, memory: &mut Memory, other: &Datatype, items: usize, stream: &[u8]) {
    let (Some(mut real), Some(mut naive)) = (Memory::around(other, items, 0), Memory::around(other, items, 0)) else {
        return;
    };
    let len = stream.len().min(other.size() * items);
    // SAFETY: both memories cover the data of their types; they don't overlap.
    unsafe {
        assert_eq!(d::copy(memory.base(), count, dt, real.base(), items, other), len);
        d::unpack(other, naive.base(), items, 0, stream.as_ptr(), len);
    }
    assert_eq!(real.bytes, naive.bytes);
}
