//! The objects of the predefined types, by ABI handle value; parametrised and unnamed ones are cached for the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Datatype;
use super::builtin::{Builtin, Family, INFOS, Info, Repr};
use super::contents::{Form, Recipe, combiner};

/// `MPI_DATATYPE_NULL`; the named types follow it.
pub const DATATYPE_NULL: usize = 0x200;

const HANDLES: usize = 0xec;

/// Predefined types that have no handle value of their own, by combiner and two parameters.
type Unnamed = BTreeMap<(i32, usize, usize), Rc<Datatype>>;

struct Table {
    named: [Option<Rc<Datatype>>; HANDLES],
    unnamed: RefCell<Unnamed>,
}

impl Table {
    fn new() -> Table {
        let mut named = [const { None }; HANDLES];
        for info in INFOS {
            let dt = Datatype::fixed(Builtin(info), info.handle, Recipe::new(combiner::NAMED, Form::Int));
            dt.set_name(info.name);
            named[info.handle - DATATYPE_NULL] = Some(Rc::new(dt));
        }
        Table { named, unnamed: RefCell::default() }
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

/// The named predefined type with this ABI handle value; none for `MPI_DATATYPE_NULL` and any other number.
#[inline]
pub fn predefined(handle_value: usize) -> Option<&'static Rc<Datatype>> {
    table().named.get(handle_value.wrapping_sub(DATATYPE_NULL))?.as_ref()
}

/// The one object for a parametrised Fortran type, made at its first use.
pub(super) fn parametrised(base: Builtin, recipe: Recipe) -> Rc<Datatype> {
    let parameter = |at: usize| recipe.contents.integers.get(at).copied().unwrap_or(0) as usize;
    let key = (recipe.combiner, parameter(0), parameter(1));
    let mut unnamed = table().unnamed.borrow_mut();
    unnamed.entry(key).or_insert_with(|| Rc::new(Datatype::fixed(base, 0, recipe))).clone()
}

/// The one object for a pair without a name, made at its first use.
pub(super) fn pair(value: &Rc<Datatype>, index: &Rc<Datatype>, value_of: Builtin, index_of: Builtin) -> Rc<Datatype> {
    let recipe = Recipe::new(combiner::VALUE_INDEX, Form::Int).types([value, index]);
    let key = (recipe.combiner, Rc::as_ptr(value) as usize, Rc::as_ptr(index) as usize);
    let make = || {
        // One per pair of predefined types, so the leak is bounded.
        let info: &'static Info = Box::leak(Box::new(Info {
            handle: 0,
            name: "",
            family: Family::Pair,
            repr: value_of.repr,
            index: Some::<Repr>(index_of.repr),
            external: value_of.external,
            external_index: index_of.external,
        }));
        Rc::new(Datatype::fixed(Builtin(info), 0, recipe))
    };
    table().unnamed.borrow_mut().entry(key).or_insert_with(make).clone()
}
