//! The objects of the predefined types, by name; the parametrised ones of Fortran are cached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Datatype;
use super::builtin::{Builtin, INFOS, Name};
use super::contents::{Combiner, Form, Recipe};

/// Parametrised types by combiner and arguments.
type Parametrised = BTreeMap<(Combiner, Vec<i32>), Rc<Datatype>>;

struct Table {
    named: Vec<Rc<Datatype>>,
    parametrised: RefCell<Parametrised>,
}

impl Table {
    fn new() -> Table {
        let make = |info| {
            let dt = Datatype::fixed(Builtin(info), true, Recipe::new(Combiner::Named, Form::Int));
            dt.set_name(info.name);
            Rc::new(dt)
        };
        let named = INFOS.iter().map(make).collect();
        Table { named, parametrised: RefCell::default() }
    }
}

#[cfg(not(test))]
fn table() -> &'static Table {
    struct Shared(Table);
    // SAFETY: every caller in the library holds the critical section, so only one thread at a time touches the
    // reference counts and cells in here.
    unsafe impl Sync for Shared {}
    // SAFETY: as above; nothing in the table belongs to a particular thread.
    unsafe impl Send for Shared {}
    static TABLE: std::sync::LazyLock<Shared> = std::sync::LazyLock::new(|| Shared(Table::new()));
    &TABLE.0
}

/// Unit tests run on many threads without a critical section: one table each.
#[cfg(test)]
fn table() -> &'static Table {
    thread_local! {
        static TABLE: &'static Table = Box::leak(Box::new(Table::new()));
    }
    TABLE.with(|table| *table)
}

/// `MPI_BYTE`.
pub fn byte() -> &'static Rc<Datatype> {
    predefined(Name::MPI_BYTE)
}

/// The predefined type of this name.
#[inline]
pub fn predefined(name: Name) -> &'static Rc<Datatype> {
    &table().named[name as usize]
}

/// The one object for a parametrised Fortran type, made at its first use.
pub(super) fn parametrised(base: Builtin, recipe: Recipe) -> Rc<Datatype> {
    let key = (recipe.combiner, recipe.contents.integers.clone());
    let mut types = table().parametrised.borrow_mut();
    types.entry(key).or_insert_with(|| Rc::new(Datatype::fixed(base, false, recipe))).clone()
}
