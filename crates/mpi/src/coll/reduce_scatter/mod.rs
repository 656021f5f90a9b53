//! Reduction whose result is scattered (MPI-5.0, 6.10).

pub mod direct;
pub mod pairwise;
pub mod recursive_halving;

use super::args::{ReduceArgs, check_counts, is_in_place};
use super::blocks::Blocks;
use super::ints::Ints;
use super::program::Program;
use super::select::Situation;
use super::select::rules::ReduceScatter;
use super::site::Site;
use super::span::Span;
use super::{reduce, scatter};
use base::{Result, ensure};

/// How the result is cut.
#[derive(Clone, Copy)]
pub enum Counts<'a> {
    /// `MPI_Reduce_scatter_block`: this number of items for each process.
    Block(usize),
    /// `MPI_Reduce_scatter`: these numbers of items.
    List(Ints<'a>),
}

/// Adds the steps of this process. The count in `args` isn't used.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, args: ReduceArgs<'_>, counts: Counts<'_>) -> Result {
    let n = site.size;
    let mut starts = Vec::with_capacity(n + 1);
    starts.push(0);
    match counts {
        Counts::Block(count) => starts.extend((1..=n).map(|i| i.saturating_mul(count))),
        Counts::List(counts) => {
            check_counts(counts, n)?;
            starts.extend((0..n).scan(0usize, |sum, i| {
                *sum = sum.saturating_add(counts.count(i));
                Some(*sum)
            }));
        }
    }
    args.set_up(p)?;
    // A sum that was too large fails here.
    let (own, result) = ReduceArgs { count: starts[n], ..args }.both(p)?;
    let result = result.slice(0, starts[site.rank + 1] - starts[site.rank]);
    let in_place = is_in_place(args.send);
    match site.remote {
        None => local(p, site, own, &starts, result, in_place),
        Some(remote) => {
            ensure!(!in_place, ERR_BUFFER, "MPI_IN_PLACE is not allowed on inter-communicators");
            inter(p, site, remote, own, &starts, result);
        }
    }
    Ok(())
}

fn local(p: &mut Program, site: &Site<'_>, own: Span, starts: &[usize], result: Span, in_place: bool) {
    let team = site.team();
    if own.bytes() == 0 || team.size == 1 {
        p.copy(own, result);
        return;
    }
    let blocks = Blocks::Starts { base: own, starts };
    let situation = Situation { commutative: p.is_commutative(), ..site.situation(own.bytes()) };
    match site.choose(&situation) {
        ReduceScatter::Direct => direct::build(p, &team, blocks, result, in_place),
        ReduceScatter::Pairwise => pairwise::build(p, &team, blocks, result, in_place),
        ReduceScatter::RecursiveHalving => recursive_halving::build(p, &team, own, starts, result),
    }
}

/// Each group gets the other group's result: the leaders exchange them and scatter what they get.
fn inter(p: &mut Program, site: &Site<'_>, remote: usize, own: Span, starts: &[usize], result: Span) {
    let (team, others) = (site.team(), site.remote_team(remote));
    let combined = reduce::to_leader(p, site, own);
    let theirs = if site.rank == 0 { p.temp_like(own) } else { own };
    if site.rank == 0 {
        p.recv(&others, 0, theirs);
        p.send(&others, 0, combined);
        p.fence();
    }
    scatter::linear::build(p, &team, 0, Some(Blocks::Starts { base: theirs, starts }), Some(result));
}
