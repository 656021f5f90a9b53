//! `MPI_Type_create_struct` (MPI-5.0, 5.1.2): the only constructor that pads to the strictest alignment.

use std::rc::Rc;

use base::{Result, ensure};

use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::{Layout, natural};

/// Blocks of `blocklengths[i]` items of `types[i]` at `displacements[i]` bytes.
pub fn structure(
    form: Form,
    blocklengths: &[i64],
    displacements: &[i64],
    types: &[Rc<Datatype>],
) -> Result<Rc<Datatype>> {
    let count = types.len();
    ensure!(blocklengths.len() == count && displacements.len() == count, ERR_ARG, "arrays of different lengths");
    let mut parts = Vec::with_capacity(count);
    for ((&length, &disp), old) in blocklengths.iter().zip(displacements).zip(types) {
        if natural(length)? != 0 {
            let old = old.layout();
            parts.push(old.repeat(length, old.extent())?.shift(disp)?);
        }
    }
    let layout = Layout::concat(&parts)?.padded()?;
    let recipe = Recipe::new(Combiner::Struct, form).counts(&[count as i64]).counts(blocklengths);
    Ok(Rc::new(Datatype::new(layout, recipe.addresses(displacements).types(types))))
}
