//! `MPI_Type_create_darray` (MPI-5.0, 5.1.4): the part of a block-cyclic distributed array that one process holds.

use std::rc::Rc;

use base::{Result, ensure, fail};

use super::dimensions;
use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::{Layout, product};

/// `MPI_DISTRIBUTE_NONE`.
pub const DISTRIBUTE_NONE: i32 = 0;
/// `MPI_DISTRIBUTE_BLOCK`.
pub const DISTRIBUTE_BLOCK: i32 = 1;
/// `MPI_DISTRIBUTE_CYCLIC`.
pub const DISTRIBUTE_CYCLIC: i32 = 2;
/// `MPI_DISTRIBUTE_DFLT_DARG`.
pub const DISTRIBUTE_DFLT_DARG: i32 = i32::MIN;

/// The arguments, named as in the standard.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct DarrayArgs<'a> {
    pub size: i32,
    pub rank: i32,
    pub gsizes: &'a [i64],
    pub distribs: &'a [i32],
    pub dargs: &'a [i32],
    pub psizes: &'a [i32],
    pub order: i32,
}

/// One dimension of the distribution, seen from one process: blocks of `block` indices, every `procs`-th is ours.
struct Dimension {
    gsize: i64,
    block: i64,
    procs: i64,
    coord: i64,
}

/// The items of rank `args.rank`; the extent is the whole array.
pub fn darray(form: Form, args: DarrayArgs<'_>, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let ndims = args.gsizes.len();
    ensure!(ndims > 0, ERR_ARG, "darray of no dimension");
    let lengths = [args.distribs.len(), args.dargs.len(), args.psizes.len()];
    ensure!(lengths.iter().all(|length| *length == ndims), ERR_ARG, "arrays of different lengths");
    let Some(outwards) = dimensions(args.order, ndims) else { fail!(ERR_ARG, "unknown array order") };
    let coords = coordinates(args)?;

    let mut layout = old.layout();
    let mut stride = layout.extent();
    for dim in outwards {
        layout = dimension(args, dim, coords[dim])?.apply(&layout, stride)?;
        stride = product(stride, args.gsizes[dim])?;
    }
    let layout = layout.resized(0, stride)?;
    let recipe = Recipe::new(Combiner::Darray, form).ints([args.size, args.rank, ndims as i32]);
    let recipe = recipe.counts(args.gsizes).ints(args.distribs.iter().copied()).ints(args.dargs.iter().copied());
    let recipe = recipe.ints(args.psizes.iter().copied()).ints([args.order]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}

/// Position in the process grid, which is row-major whatever the order of the array.
fn coordinates(args: DarrayArgs<'_>) -> Result<Vec<i64>> {
    ensure!(args.psizes.iter().all(|procs| *procs > 0), ERR_ARG, "process grid without processes");
    let total = args.psizes.iter().try_fold(1i32, |product, procs| product.checked_mul(*procs));
    ensure!(total == Some(args.size), ERR_ARG, "process grid does not match the number of processes");
    ensure!(args.rank >= 0 && args.rank < args.size, ERR_ARG, "rank outside of the process grid");
    let mut rest = args.rank;
    let mut coords = vec![0; args.psizes.len()];
    for (coord, procs) in coords.iter_mut().zip(args.psizes).rev() {
        *coord = i64::from(rest % procs);
        rest /= procs;
    }
    Ok(coords)
}

fn dimension(args: DarrayArgs<'_>, dim: usize, coord: i64) -> Result<Dimension> {
    let (gsize, procs, darg) = (args.gsizes[dim], i64::from(args.psizes[dim]), args.dargs[dim]);
    ensure!(gsize > 0, ERR_ARG, "wrong global size");
    let default = darg == DISTRIBUTE_DFLT_DARG;
    ensure!(default || darg > 0, ERR_ARG, "wrong distribution argument");
    let darg = i64::from(darg);
    let block = match args.distribs[dim] {
        DISTRIBUTE_NONE => {
            ensure!(procs == 1, ERR_ARG, "a dimension that is not distributed has one process");
            gsize
        }
        DISTRIBUTE_BLOCK if default => (gsize - 1) / procs + 1,
        DISTRIBUTE_BLOCK => {
            // At most 2^62: both factors came as int.
            ensure!(darg * procs >= gsize, ERR_ARG, "blocks do not cover the dimension");
            darg
        }
        DISTRIBUTE_CYCLIC if default => 1,
        DISTRIBUTE_CYCLIC => darg,
        _ => fail!(ERR_ARG, "unknown distribution"),
    };
    Ok(Dimension { gsize, block, procs, coord })
}

impl Dimension {
    /// Our indices of this dimension, `stride` bytes apart, each holding `inner`.
    fn apply(&self, inner: &Layout, stride: i64) -> Result<Layout> {
        let first = self.coord.saturating_mul(self.block);
        if first >= self.gsize {
            return Ok(Layout::void());
        }
        let period = self.block.saturating_mul(self.procs);
        let left = self.gsize - first;
        let (full, rest) = (left / period, (left % period).min(self.block));
        let block = inner.repeat(self.block.min(left), stride)?;
        // A last block is whole or partial; a whole one joins the loop.
        let (full, rest) = if rest == self.block { (full + 1, 0) } else { (full, rest) };
        let step = if full > 1 { product(period, stride)? } else { 0 };
        let start = product(first, stride)?;
        let mut parts = vec![block.repeat(full, step)?.shift(start)?];
        if rest > 0 {
            let at = product(first + full * period, stride)?;
            parts.push(inner.repeat(rest, stride)?.shift(at)?);
        }
        Layout::concat(&parts)
    }
}
