//! Neighbourhood collectives (MPI-5.0, 8.6): an exchange with the neighbours of the process topology.
//!
//! Everything is posted at once. Between two processes messages keep the order of the neighbour lists; in a Cartesian
//! topology a block sent in the negative direction arrives as the one from the positive direction, which matters
//! where both neighbours are the same process (periodic dimensions of size 1 or 2).

use super::args::{BlockBuffer, Buffer};
use super::blocks::Blocks;
use super::builder::Builder;
use super::comm_view::CommView;
use super::span::Span;
use crate::status::PROC_NULL;
use base::Result;

enum From<'a> {
    Same(Span),
    Each(Blocks<'a>),
}

/// The neighbours of a process, in the order of neighbourhood collectives (8.6); `MPI_PROC_NULL` where a grid ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbors {
    /// Who sends to this process.
    pub sources: Vec<i32>,
    /// To whom it sends.
    pub destinations: Vec<i32>,
    /// Whether neighbours come in pairs of opposite directions.
    pub cartesian: bool,
}

/// Adds the steps of `MPI_Neighbor_allgather(v)`.
pub fn allgather(
    b: &mut Builder,
    view: &CommView<'_>,
    neighbors: &Neighbors,
    send: Buffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result {
    let mut spans = Vec::new();
    let own = send.span(b)?;
    let into = recv.blocks(b, neighbors.sources.len(), &mut spans)?;
    exchange(b, view, neighbors, From::Same(own), into);
    Ok(())
}

/// Adds the steps of `MPI_Neighbor_alltoall(v,w)`.
pub fn alltoall(
    b: &mut Builder,
    view: &CommView<'_>,
    neighbors: &Neighbors,
    send: BlockBuffer<'_>,
    recv: BlockBuffer<'_>,
) -> Result {
    let (mut from_spans, mut into_spans) = (Vec::new(), Vec::new());
    let from = send.blocks(b, neighbors.destinations.len(), &mut from_spans)?;
    let into = recv.blocks(b, neighbors.sources.len(), &mut into_spans)?;
    exchange(b, view, neighbors, From::Each(from), into);
    Ok(())
}

fn exchange(b: &mut Builder, view: &CommView<'_>, neighbors: &Neighbors, from: From<'_>, into: Blocks<'_>) {
    let team = view.team();
    let sources = &neighbors.sources;
    for i in 0..sources.len() {
        let slot = if neighbors.cartesian { i ^ 1 } else { i };
        if sources[slot] != PROC_NULL {
            b.recv(&team, sources[slot] as usize, into.get(slot));
        }
    }
    for (i, &to) in neighbors.destinations.iter().enumerate().filter(|&(_, &to)| to != PROC_NULL) {
        let span = match &from {
            From::Same(span) => *span,
            From::Each(blocks) => blocks.get(i),
        };
        b.send(&team, to as usize, span);
    }
    b.fence();
}
