//! `MPI_Type_indexed`, `hindexed`, `indexed_block`, `hindexed_block` (MPI-5.0, 5.1.2).

use std::rc::Rc;

use base::{Result, ensure};

use crate::datatype::Datatype;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::layout::{natural, product};

/// Blocks of `blocklengths[i]` items at `displacements[i]` items.
pub fn indexed(form: Form, blocklengths: &[i64], displacements: &[i64], old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let unit = old.extent() as i64;
    let recipe = listed(Combiner::Indexed, form, blocklengths.len()).counts(blocklengths).counts(displacements);
    build(recipe, pairs(blocklengths, displacements, unit)?, old)
}

/// Blocks of `blocklengths[i]` items at `displacements[i]` bytes.
pub fn hindexed(form: Form, blocklengths: &[i64], displacements: &[i64], old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let recipe = listed(Combiner::Hindexed, form, blocklengths.len()).counts(blocklengths).addresses(displacements);
    build(recipe, pairs(blocklengths, displacements, 1)?, old)
}

/// Blocks of `blocklength` items at `displacements[i]` items.
pub fn indexed_block(form: Form, blocklength: i64, displacements: &[i64], old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let recipe = listed(Combiner::IndexedBlock, form, displacements.len());
    let recipe = recipe.counts(&[natural(blocklength)?]).counts(displacements);
    build(recipe, equal(blocklength, displacements, old.extent() as i64)?, old)
}

/// Blocks of `blocklength` items at `displacements[i]` bytes.
pub fn hindexed_block(form: Form, blocklength: i64, displacements: &[i64], old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let recipe = listed(Combiner::HindexedBlock, form, displacements.len());
    let recipe = recipe.counts(&[natural(blocklength)?]).addresses(displacements);
    build(recipe, equal(blocklength, displacements, 1)?, old)
}

fn listed(combiner: Combiner, form: Form, count: usize) -> Recipe {
    Recipe::new(combiner, form).counts(&[count as i64])
}

/// (displacement in bytes, length) of each block; displacements count in `unit` bytes.
fn pairs(blocklengths: &[i64], displacements: &[i64], unit: i64) -> Result<Vec<(i64, i64)>> {
    ensure!(blocklengths.len() == displacements.len(), ERR_ARG, "arrays of different lengths");
    blocklengths.iter().zip(displacements).map(|(&length, &disp)| block(length, disp, unit)).collect()
}

fn equal(blocklength: i64, displacements: &[i64], unit: i64) -> Result<Vec<(i64, i64)>> {
    displacements.iter().map(|&disp| block(blocklength, disp, unit)).collect()
}

fn block(length: i64, disp: i64, unit: i64) -> Result<(i64, i64)> {
    // An empty block's displacement is never used.
    let disp = if natural(length)? == 0 { 0 } else { product(disp, unit)? };
    Ok((disp, length))
}

fn build(recipe: Recipe, blocks: Vec<(i64, i64)>, old: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let layout = old.layout().blocks(&blocks)?;
    Ok(Rc::new(Datatype::new(layout, recipe.types([old]))))
}
