//! `MPI_Type_contiguous`, `MPI_Type_create_resized`, `MPI_Type_dup` (MPI-5.0, 5.1.2, 5.1.7, 5.1.10).

use std::rc::Rc;

use base::Result;

use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::natural;

/// `count` items in a row.
pub fn contiguous(form: Form, count: i64, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let layout = old.layout();
    let layout = layout.repeat(natural(count)?, layout.extent())?;
    let recipe = Recipe::new(Combiner::Contiguous, form).counts(&[count]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}

/// `old` with other bounds.
pub fn resized(form: Form, lb: i64, extent: i64, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let layout = old.layout().resized(lb, extent)?;
    let recipe = Recipe::new(Combiner::Resized, form).addresses(&[lb, extent]).types([old]);
    Ok(Rc::new(Datatype::new(layout, recipe)))
}

/// The same type once more, committed if `old` is. Attributes are copied by the caller, whose callbacks decide.
pub fn dup(old: &Rc<Datatype>) -> Rc<Datatype> {
    let recipe = Recipe::new(Combiner::Dup, Form::Int).types([old]);
    let dt = Datatype::new(old.layout(), recipe);
    dt.committed.set(old.is_committed());
    Rc::new(dt)
}
