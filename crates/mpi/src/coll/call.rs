//! Which call a plan is for: everything that the plan depends on, so that the same call gets the same plan.

use super::args::{BlockBuffer, Buffer, ReduceArgs};
use super::ints::Ints;
use crate::datatype::Datatype;
use crate::op::Op;
use std::rc::Rc;

/// Plans that are remembered.
pub const MEMO_PLANS: usize = 16;
/// Calls with longer arrays of counts are not remembered: to compare them costs as much as to plan.
const LIST_MAX: usize = 64;

/// The collectives whose plans are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "MPI's names")]
pub enum Kind {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
}

/// A buffer argument, as far as a plan depends on it.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    ptr: *const u8,
    count: usize,
    datatype: Option<&'a Rc<Datatype>>,
    lists: [Ints<'a>; 2],
}

/// One call of a collective on a communicator.
pub struct Call<'a> {
    key: Key,
    types: [Option<&'a Rc<Datatype>>; 2],
    lists: [[Ints<'a>; 2]; 2],
}

/// What can be compared at once.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    kind: Kind,
    root: i32,
    buffers: [*const u8; 2],
    counts: [usize; 2],
    types: [*const Datatype; 2],
    /// The plan's objects keep it alive.
    op: *const Op,
    /// Whether there are arrays of counts.
    listed: bool,
}

/// The call of a plan that is kept.
#[derive(Default)]
pub struct Remembered {
    key: Option<Key>,
    /// The arrays, one after the other.
    lists: Vec<isize>,
    /// So that no other type gets their address.
    types: [Option<Rc<Datatype>>; 2],
}

const NO_LISTS: [Ints<'static>; 2] = [Ints::I32(&[]); 2];

impl<'a> Operand<'a> {
    /// An argument without a meaning on this process, or `MPI_IN_PLACE`.
    pub const NONE: Operand<'static> =
        Operand { ptr: std::ptr::null(), count: usize::MAX, datatype: None, lists: NO_LISTS };

    /// A plain buffer.
    #[inline]
    pub fn buffer(buffer: Option<Buffer<'a>>) -> Operand<'a> {
        buffer.map_or(Operand::NONE, |b| Operand {
            ptr: b.ptr.cast_const(),
            count: b.count,
            datatype: Some(b.datatype),
            lists: NO_LISTS,
        })
    }

    /// Blocks; `None` if they are of different types, which are not remembered.
    #[inline]
    pub fn blocks(blocks: Option<BlockBuffer<'a>>) -> Option<Operand<'a>> {
        Some(match blocks {
            None => Operand::NONE,
            Some(BlockBuffer::Even(buffer)) => Operand::buffer(Some(buffer)),
            Some(BlockBuffer::Listed { ptr, counts, displs, datatype }) => {
                let lists = [counts, displs];
                if lists.iter().any(|list| list.len() > LIST_MAX) {
                    return None;
                }
                Operand { ptr: ptr.cast_const(), count: counts.len(), datatype: Some(datatype), lists }
            }
            Some(BlockBuffer::Typed { .. }) => return None,
        })
    }
}

impl<'a> Call<'a> {
    /// A call without a reduction.
    #[inline]
    pub fn new(kind: Kind, root: i32, [a, b]: [Operand<'a>; 2]) -> Call<'a> {
        let at = |datatype: Option<&Rc<Datatype>>| datatype.map_or(std::ptr::null(), Rc::as_ptr);
        Call {
            key: Key {
                kind,
                root,
                buffers: [a.ptr, b.ptr],
                counts: [a.count, b.count],
                types: [at(a.datatype), at(b.datatype)],
                op: std::ptr::null(),
                listed: !a.lists[0].is_empty() || !b.lists[0].is_empty(),
            },
            types: [a.datatype, b.datatype],
            lists: [a.lists, b.lists],
        }
    }

    /// A call of a reduction.
    #[inline]
    pub fn reduction(kind: Kind, root: i32, args: &ReduceArgs<'a>) -> Call<'a> {
        let send = Buffer { ptr: args.send.cast_mut(), count: args.count, datatype: args.datatype };
        let recv = Operand { ptr: args.recv.cast_const(), ..Operand::NONE };
        let call = Call::new(kind, root, [Operand::buffer(Some(send)), recv]);
        Call { key: Key { op: Rc::as_ptr(args.op), ..call.key }, ..call }
    }

    /// The same call with the counts of `MPI_Reduce_scatter`; `None` if they are too many.
    #[inline]
    pub fn with_counts(self, counts: Ints<'a>) -> Option<Call<'a>> {
        let lists = [[counts, NO_LISTS[0]], NO_LISTS];
        (counts.len() <= LIST_MAX).then_some(Call { key: Key { listed: true, ..self.key }, lists, ..self })
    }

    /// Where a plan for the call is remembered.
    #[inline]
    pub fn place(&self) -> usize {
        self.key.place()
    }

    fn numbers(&self) -> impl Iterator<Item = isize> {
        self.lists.as_flattened().iter().flat_map(|list| list.iter())
    }
}

impl Key {
    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.buffers[0].addr() >> 3) ^ (self.buffers[1].addr() >> 4) ^ self.counts[0];
        (mixed ^ mixed >> 4 ^ self.kind as usize) % MEMO_PLANS
    }
}

impl Remembered {
    /// Remembers `call`.
    pub fn remember(&mut self, call: &Call<'_>) {
        self.key = Some(call.key);
        self.types = call.types.map(Option::<&Rc<Datatype>>::cloned);
        self.lists.clear();
        self.lists.extend(call.numbers());
    }

    /// No call any more.
    #[inline]
    pub fn forget(&mut self) {
        self.key = None;
        self.types = [None, None];
    }

    /// Whether it is the same call.
    #[inline]
    pub fn is(&self, call: &Call<'_>) -> bool {
        self.key == Some(call.key) && (!call.key.listed || call.numbers().eq(self.lists.iter().copied()))
    }

    /// Where the plan is remembered, if it is to be.
    #[inline]
    pub fn place(&self) -> Option<usize> {
        self.key.as_ref().map(Key::place)
    }
}
