//! `MPI_Type_vector` and `MPI_Type_create_hvector` (MPI-5.0, 5.1.2).

use std::rc::Rc;

use base::Result;

use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::{Layout, natural, product};

/// `count` blocks of `blocklength` items, `stride` items apart.
pub fn vector(form: Form, count: i64, blocklength: i64, stride: i64, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let (count, blocklength) = (natural(count)?, natural(blocklength)?);
    // The stride of less than two blocks is never used, so it can't overflow.
    let stride_bytes = if count < 2 { 0 } else { product(stride, old.extent() as i64)? };
    let layout = blocks(old, count, blocklength, stride_bytes)?;
    let recipe = Recipe::new(Combiner::Vector, form).counts(&[count, blocklength, stride]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}

/// `count` blocks of `blocklength` items, `stride` bytes apart.
pub fn hvector(form: Form, count: i64, blocklength: i64, stride: i64, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let (count, blocklength) = (natural(count)?, natural(blocklength)?);
    let layout = blocks(old, count, blocklength, stride)?;
    let recipe = Recipe::new(Combiner::Hvector, form).counts(&[count, blocklength]).addresses(&[stride]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}

fn blocks(old: &Datatype, count: i64, blocklength: i64, stride_bytes: i64) -> Result<Layout> {
    let layout = old.layout();
    layout.repeat(blocklength, layout.extent())?.repeat(count, stride_bytes)
}
