//! `MPI_Type_create_subarray` (MPI-5.0, 5.1.3).

use std::rc::Rc;

use base::{Result, ensure, fail};

use super::dimensions;
use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::product;

/// The part of `subsizes` items from `starts` on, of an array with `sizes` items; its extent is the whole array.
pub fn subarray(
    form: Form,
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: i32,
    old: &Rc<Datatype>,
) -> Result<Rc<Datatype>> {
    let ndims = sizes.len();
    ensure!(ndims > 0, ERR_ARG, "subarray of no dimension");
    ensure!(subsizes.len() == ndims && starts.len() == ndims, ERR_ARG, "arrays of different lengths");
    for dim in 0..ndims {
        let (size, subsize, start) = (sizes[dim], subsizes[dim], starts[dim]);
        ensure!(size > 0 && subsize > 0 && subsize <= size, ERR_ARG, "wrong size or subsize");
        ensure!(start >= 0 && start <= size - subsize, ERR_ARG, "start outside of the array");
    }
    let Some(outwards) = dimensions(order, ndims) else { fail!(ERR_ARG, "unknown array order") };

    let mut layout = old.layout();
    let mut stride = layout.extent();
    let mut offset = 0;
    for dim in outwards {
        layout = layout.repeat(subsizes[dim], stride)?;
        // If this overflows, then so does the array's extent, which the next line checks.
        offset = i64::wrapping_add(offset, starts[dim].wrapping_mul(stride));
        stride = product(stride, sizes[dim])?;
    }
    let layout = layout.shift(offset)?.resized(0, stride)?;
    let recipe = Recipe::new(Combiner::Subarray, form).ints([ndims as i32]);
    let recipe = recipe.counts(sizes).counts(subsizes).counts(starts).ints([order]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}
