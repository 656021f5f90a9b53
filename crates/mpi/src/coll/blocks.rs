//! Where the blocks of a gathered or scattered buffer lie: one block for each process.

use super::ints::Ints;
use super::span::Span;

/// The blocks of one buffer.
#[derive(Clone, Copy)]
pub enum Blocks<'a> {
    /// Block `i` is items `i * count .. (i + 1) * count`.
    Even {
        /// Origin and type; its count is not used.
        base: Span,
        /// Items of a block.
        count: usize,
    },
    /// Block `i` is `counts[i]` items at displacement `displs[i]` extents.
    Listed {
        /// Origin and type; its count is not used.
        base: Span,
        /// Items of each block.
        counts: Ints<'a>,
        /// Displacement of each block in extents.
        displs: Ints<'a>,
    },
    /// Block `i` is items `starts[i] .. starts[i + 1]`.
    Starts {
        /// Origin and type; its count is not used.
        base: Span,
        /// Where blocks begin, and the end.
        starts: &'a [usize],
    },
    /// One span for each block.
    Spans(&'a [Span]),
}

impl Blocks<'_> {
    /// Block `i`.
    #[inline]
    pub fn get(&self, i: usize) -> Span {
        match self {
            Blocks::Even { base, count } => base.slice(i.wrapping_mul(*count), *count),
            Blocks::Listed { base, counts, displs } => base.displaced(displs.get(i), counts.count(i)),
            Blocks::Starts { base, starts } => base.slice(starts[i], starts[i + 1] - starts[i]),
            Blocks::Spans(spans) => spans[i],
        }
    }

    /// Whether all blocks have the same size and follow each other.
    pub fn is_even(&self) -> bool {
        matches!(self, Blocks::Even { .. })
    }

    /// Blocks `i .. j` as one span; only for even blocks.
    #[inline]
    pub fn range(&self, i: usize, j: usize) -> Span {
        match self {
            Blocks::Even { base, count } => base.slice(i.wrapping_mul(*count), (j - i).wrapping_mul(*count)),
            _ => unreachable!("only algorithms for even blocks ask for ranges"),
        }
    }
}
