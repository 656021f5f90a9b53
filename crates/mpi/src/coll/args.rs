//! Arguments of collectives as the C functions have them, and their checks.

use super::blocks::Blocks;
use super::builder::Builder;
use super::ints::Ints;
use super::span::Span;
use crate::datatype::Datatype;
use crate::op::Op;
use base::{Result, ensure};
use std::rc::Rc;

/// Where [`IN_PLACE`] points.
pub const IN_PLACE_ADDRESS: usize = 1;
/// `MPI_IN_PLACE`, in this crate.
pub const IN_PLACE: *mut u8 = std::ptr::without_provenance_mut(IN_PLACE_ADDRESS);

/// Whether a buffer argument is `MPI_IN_PLACE`.
#[inline]
pub fn is_in_place(buf: *const u8) -> bool {
    buf == IN_PLACE.cast_const()
}

/// A buffer argument: address, count, datatype.
#[derive(Clone, Copy)]
pub struct Buffer<'a> {
    /// Address, perhaps `MPI_IN_PLACE`.
    pub ptr: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Their type.
    pub datatype: &'a Rc<Datatype>,
}

/// A buffer argument with one block for each process.
#[derive(Clone, Copy)]
pub enum BlockBuffer<'a> {
    /// `count` items for each process, as in `MPI_Gather`.
    Even(Buffer<'a>),
    /// Counts and displacements, as in `MPI_Gatherv`.
    Listed {
        /// Address.
        ptr: *mut u8,
        /// Items for each process.
        counts: Ints<'a>,
        /// Displacement of each block in extents.
        displs: Ints<'a>,
        /// Type of all items.
        datatype: &'a Rc<Datatype>,
    },
    /// Counts, displacements and types, as in `MPI_Alltoallw`.
    Typed {
        /// Address.
        ptr: *mut u8,
        /// Items for each process.
        counts: Ints<'a>,
        /// Displacement of each block in bytes.
        displs: Ints<'a>,
        /// Type of each block.
        datatypes: &'a [Rc<Datatype>],
    },
}

/// The arguments of a reduction.
#[derive(Clone, Copy)]
pub struct ReduceArgs<'a> {
    /// This process's operand, or `MPI_IN_PLACE`.
    pub send: *const u8,
    /// Where the result goes, if this process gets one.
    pub recv: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Their type.
    pub datatype: &'a Rc<Datatype>,
    /// The operation.
    pub op: &'a Rc<Op>,
}

impl<'a> Buffer<'a> {
    /// An argument that may be `MPI_IN_PLACE`, in which case there is no buffer.
    #[inline]
    pub fn or_in_place(ptr: *const u8, count: usize, datatype: &'a Rc<Datatype>) -> Option<Buffer<'a>> {
        (!is_in_place(ptr)).then_some(Buffer { ptr: ptr.cast_mut(), count, datatype })
    }

    /// Enters the buffer in a schedule; `ERR_BUFFER` for `MPI_IN_PLACE`.
    #[inline]
    pub fn span(&self, b: &mut Builder) -> Result<Span> {
        ensure!(!is_in_place(self.ptr), ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer");
        self.datatype.bytes(self.count)?;
        Ok(Span { ptr: self.ptr, count: self.count, shape: b.shape(self.datatype) })
    }
}

impl<'a> BlockBuffer<'a> {
    /// Enters the buffer in a schedule, for `n` processes. `spans` keeps what a list of types becomes.
    #[inline]
    pub fn blocks<'b>(&self, b: &mut Builder, n: usize, spans: &'b mut Vec<Span>) -> Result<Blocks<'b>>
    where
        'a: 'b,
    {
        match *self {
            BlockBuffer::Even(buffer) => {
                check_total(buffer.datatype.bytes(buffer.count)?.checked_mul(n))?;
                Ok(Blocks::Even { base: buffer.span(b)?, count: buffer.count })
            }
            BlockBuffer::Listed { ptr, counts, displs, datatype } => {
                check_counts(counts, n)?;
                check_total(sum((0..n).map(|i| datatype.bytes(counts.count(i)))))?;
                ensure!(displs.len() >= n, ERR_ARG, "fewer displacements than processes");
                let base = Buffer { ptr, count: 0, datatype }.span(b)?;
                Ok(Blocks::Listed { base, counts, displs })
            }
            BlockBuffer::Typed { ptr, counts, displs, datatypes } => {
                check_counts(counts, n)?;
                ensure!(!is_in_place(ptr), ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer");
                ensure!(displs.len() >= n && datatypes.len() >= n, ERR_ARG, "fewer types than processes");
                check_total(sum((0..n).map(|i| datatypes[i].bytes(counts.count(i)))))?;
                spans.extend((0..n).map(|i| {
                    let ptr = ptr.wrapping_offset(displs.get(i));
                    Span { ptr, count: counts.count(i), shape: b.shape(&datatypes[i]) }
                }));
                Ok(Blocks::Spans(spans))
            }
        }
    }

    /// Bytes of a block if all are equal.
    pub fn block_bytes(&self) -> Option<usize> {
        match self {
            BlockBuffer::Even(b) => b.datatype.bytes(b.count).ok(),
            _ => None,
        }
    }
}

/// There are `n` counts and none is negative.
pub fn check_counts(counts: Ints<'_>, n: usize) -> Result {
    ensure!(counts.len() >= n, ERR_ARG, "fewer counts than processes");
    ensure!((0..n).all(|i| counts.get(i) >= 0), ERR_COUNT, "a count is negative");
    Ok(())
}

/// All blocks together are not more than memory can hold.
#[inline]
fn check_total(total: Option<usize>) -> Result {
    let fits = total.is_some_and(|total| total <= isize::MAX as usize);
    ensure!(fits, ERR_COUNT, "the blocks are more than memory can hold");
    Ok(())
}

/// `None` if a block or the sum is too large.
fn sum(mut blocks: impl Iterator<Item = Result<usize>>) -> Option<usize> {
    blocks.try_fold(0usize, |total, bytes| total.checked_add(bytes.ok()?))
}

/// Operand and result of a reduction must not be the same memory. (At `MPI_BOTTOM` types say where they are.)
#[inline]
pub fn check_apart(send: *const u8, recv: *const u8, bytes: usize) -> Result {
    let same = send == recv && bytes > 0 && !send.is_null();
    ensure!(!same, ERR_BUFFER, "operand and result are the same buffer; MPI_IN_PLACE says that");
    Ok(())
}

/// A process's own block must not be the same memory in the send and the receive buffer.
#[inline]
pub fn check_own_block(send: &Span, recv: &Span) -> Result {
    let same = send.start() == recv.start() && send.bytes() > 0 && recv.bytes() > 0;
    ensure!(!same, ERR_BUFFER, "this process's block is the same memory in both buffers; MPI_IN_PLACE says that");
    Ok(())
}

impl ReduceArgs<'_> {
    /// Checks operation and type and enters them.
    #[inline]
    pub fn set_up(&self, b: &mut Builder) -> Result {
        ensure!(!self.op.is_one_sided_only(), ERR_OP, "the operation is for one-sided communication only");
        self.op.check(self.datatype)?;
        b.set_reduction(self.op, self.datatype);
        Ok(())
    }

    /// The operand where `MPI_IN_PLACE` isn't allowed.
    #[inline]
    pub fn operand(&self, b: &mut Builder) -> Result<Span> {
        Buffer { ptr: self.send.cast_mut(), count: self.count, datatype: self.datatype }.span(b)
    }

    /// Operand and result, which are the same memory for `MPI_IN_PLACE`.
    #[inline]
    pub fn both(&self, b: &mut Builder) -> Result<(Span, Span)> {
        let result = Buffer { ptr: self.recv, count: self.count, datatype: self.datatype }.span(b)?;
        check_apart(self.send, self.recv, result.bytes())?;
        let own = if is_in_place(self.send) { result } else { Span { ptr: self.send.cast_mut(), ..result } };
        Ok((own, result))
    }
}
