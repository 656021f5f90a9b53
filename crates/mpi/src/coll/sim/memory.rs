//! Typed memory of simulated ranks, with guards where no data is.

use super::super::args::{BlockBuffer, Buffer, ReduceArgs};
use super::super::ints::Ints;
use crate::cs::Section;
use crate::datatype::{self, Datatype, Form};
use crate::op::{self, Op};
use std::rc::Rc;

/// What an item is in the model: two numbers, the second unused by types with one.
pub type Item = [u64; 2];

const GUARD: u8 = 0xee;
/// What a data byte holds before anything has been stored.
const UNSET: u64 = 0x5555_5555_5555_5555;

/// A datatype and where its numbers are.
#[derive(Clone)]
pub struct Kind {
    pub name: &'static str,
    pub datatype: Rc<Datatype>,
    leaves: &'static [isize],
}

fn u64_type() -> Rc<Datatype> {
    Rc::clone(datatype::predefined(datatype::Name::MPI_UNSIGNED_LONG_LONG))
}

impl Kind {
    /// One number, predefined.
    pub fn plain() -> Kind {
        Kind { name: "plain", datatype: u64_type(), leaves: &[0] }
    }

    /// Two numbers without holes.
    pub fn pair() -> Kind {
        let datatype = datatype::contiguous(Form::Int, 2, &u64_type()).unwrap();
        Kind { name: "pair", datatype, leaves: &[0, 8] }
    }

    /// Two numbers with holes and a lower bound below zero.
    pub fn holed() -> Kind {
        let spread = datatype::hindexed_block(Form::Int, 1, &[8, 24], &u64_type()).unwrap();
        let datatype = datatype::resized(Form::Int, -8, 48, &spread).unwrap();
        Kind { name: "holed", datatype, leaves: &[8, 24] }
    }

    /// One number, no holes, but away from the origin.
    pub fn shifted() -> Kind {
        let away = datatype::hindexed_block(Form::Int, 1, &[16], &u64_type()).unwrap();
        let datatype = datatype::resized(Form::Int, 16, 8, &away).unwrap();
        Kind { name: "shifted", datatype, leaves: &[16] }
    }

    pub fn item(&self, seed: u64) -> Item {
        let second = if self.leaves.len() > 1 { seed.wrapping_mul(77) ^ 5 } else { 0 };
        [seed.wrapping_mul(2).wrapping_add(1), second]
    }

    pub fn unset(&self) -> Item {
        if self.leaves.len() > 1 { [UNSET; 2] } else { [UNSET, 0] }
    }
}

/// `items` items of a kind in guarded memory.
pub struct Memory {
    kind: Kind,
    bytes: Box<[u8]>,
    items: usize,
}

const MARGIN: usize = 64;

impl Memory {
    pub fn new(kind: &Kind, items: usize) -> Memory {
        let len = 2 * MARGIN + items * kind.datatype.extent() as usize + 64;
        let mut memory = Memory { kind: kind.clone(), bytes: vec![GUARD; len].into(), items };
        (0..items).for_each(|i| memory.set(i, memory.kind.unset()));
        memory
    }

    /// Items `seed..`
    pub fn filled(kind: &Kind, items: usize, seed: u64) -> Memory {
        let mut memory = Memory::new(kind, items);
        (0..items).for_each(|i| memory.set(i, kind.item(seed + i as u64)));
        memory
    }

    pub fn ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(MARGIN)
    }

    fn at(&self, item: usize, leaf: isize) -> std::ops::Range<usize> {
        let start = (MARGIN as isize + item as isize * self.kind.datatype.extent() + leaf) as usize;
        start..start + 8
    }

    pub fn set(&mut self, item: usize, value: Item) {
        for (i, &leaf) in self.kind.leaves.iter().enumerate() {
            let range = self.at(item, leaf);
            self.bytes[range].copy_from_slice(&value[i].to_le_bytes());
        }
    }

    pub fn get(&self, item: usize) -> Item {
        let mut value = [0; 2];
        for (i, &leaf) in self.kind.leaves.iter().enumerate() {
            value[i] = u64::from_le_bytes(self.bytes[self.at(item, leaf)].try_into().unwrap());
        }
        value
    }

    pub fn all(&self) -> Vec<Item> {
        self.check_guards();
        (0..self.items).map(|i| self.get(i)).collect()
    }

    fn check_guards(&self) {
        let mut rest = self.bytes.clone();
        for i in 0..self.items {
            for &leaf in self.kind.leaves {
                rest[self.at(i, leaf)].fill(GUARD);
            }
        }
        assert!(rest.iter().all(|&b| b == GUARD), "bytes outside of the data were written");
    }

    pub fn buffer<'a>(&mut self, count: usize, kind: &'a Kind) -> Buffer<'a> {
        Buffer { ptr: self.ptr(), count, datatype: &kind.datatype }
    }

    pub fn even<'a>(&mut self, count: usize, kind: &'a Kind) -> BlockBuffer<'a> {
        BlockBuffer::Even(self.buffer(count, kind))
    }

    pub fn listed<'a>(&mut self, counts: &'a [i32], displs: &'a [i32], kind: &'a Kind) -> BlockBuffer<'a> {
        let (counts, displs) = (Ints::I32(counts), Ints::I32(displs));
        BlockBuffer::Listed { ptr: self.ptr(), counts, displs, datatype: &kind.datatype }
    }
}

/// An operation and its model.
pub struct Operation {
    pub name: &'static str,
    pub op: Rc<Op>,
    pub model: fn(Item, Item) -> Item,
}

fn add(a: Item, b: Item) -> Item {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
}

/// First x -> a0 x + a1, then x -> b0 x + b1: associative, not commutative.
fn compose(a: Item, b: Item) -> Item {
    [a[0].wrapping_mul(b[0]), b[0].wrapping_mul(a[1]).wrapping_add(b[1])]
}

/// A function of the program for pairs, with and without holes.
struct OfPairs(fn(Item, Item) -> Item);

impl op::Function for OfPairs {
    unsafe fn combine(
        &self,
        _cs: &mut Section,
        input: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) {
        let kind = if datatype.extent() == 48 { (48, [8, 24]) } else { (16, [0, 8]) };
        assert_eq!((datatype.extent(), datatype.size()), (kind.0, 16));
        for i in 0..count as isize {
            let at = |base: *mut u8, leaf: usize| base.wrapping_offset(i * kind.0 + kind.1[leaf]).cast::<u64>();
            // SAFETY: both buffers hold `count` items of the kind.
            unsafe {
                let read = |base| [at(base, 0).read_unaligned(), at(base, 1).read_unaligned()];
                let value = (self.0)(read(input.cast_mut()), read(inout));
                at(inout, 0).write_unaligned(value[0]);
                at(inout, 1).write_unaligned(value[1]);
            }
        }
    }
}

impl Operation {
    pub fn sum() -> Operation {
        Operation { name: "sum", op: Rc::clone(op::predefined(op::Predefined::Sum)), model: add }
    }

    pub fn user_add() -> Operation {
        Operation { name: "user add", op: Op::user(Box::new(OfPairs(add)), true), model: add }
    }

    pub fn compose() -> Operation {
        Operation { name: "compose", op: Op::user(Box::new(OfPairs(compose)), false), model: compose }
    }

    pub fn args<'a>(&'a self, send: *const u8, recv: *mut u8, count: usize, kind: &'a Kind) -> ReduceArgs<'a> {
        ReduceArgs { send, recv, count, datatype: &kind.datatype, op: &self.op }
    }

    /// Combination of the operands in order.
    pub fn fold(&self, operands: impl Iterator<Item = Item>) -> Option<Item> {
        operands.reduce(|a, b| (self.model)(a, b))
    }
}
