//! The objects of the predefined types, by ABI handle value; the parametrised ones of Fortran are cached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Datatype;
use super::builtin::{Builtin, INFOS};
use super::contents::{Form, Recipe, combiner};

/// `MPI_DATATYPE_NULL`; the named types follow it.
pub const DATATYPE_NULL: usize = 0x200;

const HANDLES: usize = 0xec;

/// Parametrised types by combiner and arguments.
type Parametrised = BTreeMap<(i32, Vec<i32>), Rc<Datatype>>;

struct Table {
    named: [Option<Rc<Datatype>>; HANDLES],
    parametrised: RefCell<Parametrised>,
}

impl Table {
    fn new() -> Table {
        let mut named = [const { None }; HANDLES];
        for info in INFOS {
            let dt = Datatype::fixed(Builtin(info), info.handle, Recipe::new(combiner::NAMED, Form::Int));
            dt.set_name(info.name);
            named[info.handle - DATATYPE_NULL] = Some(Rc::new(dt));
        }
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
    const MPI_BYTE: usize = 0x247;
    predefined(MPI_BYTE).expect("MPI_BYTE is predefined")
}

/// The named predefined type with this ABI handle value; none for `MPI_DATATYPE_NULL` and any other number.
#[inline]
pub fn predefined(handle_value: usize) -> Option<&'static Rc<Datatype>> {
    table().named.get(handle_value.wrapping_sub(DATATYPE_NULL))?.as_ref()
}

/// The one object for a parametrised Fortran type, made at its first use.
pub(super) fn parametrised(base: Builtin, recipe: Recipe) -> Rc<Datatype> {
    let key = (recipe.combiner, recipe.contents.integers.clone());
    let mut types = table().parametrised.borrow_mut();
    types.entry(key).or_insert_with(|| Rc::new(Datatype::fixed(base, 0, recipe))).clone()
}
