//! Datatypes (MPI-5.0, chapter 5).
//!
//! A [`Datatype`] is immutable once built, except for its committed flag, name and attributes. The constructor compiles the
//! typemap into a normal form at once, so `MPI_Type_commit` only sets a flag and types cost nothing per item.
//! Not thread-safe: all users hold the library's critical section.

use crate::attr::{AttrSet, Attributed, Holder, ObjectKind};
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use base::{Result, fail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub mod build;
mod builtin;
mod contents;
mod external32;
pub mod flat;
mod kernel;
mod layout;
mod order;
mod pack;
mod predefined;
mod shape;
mod signature;
#[cfg(test)]
mod tests;
mod walk;

pub use build::{
    DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE, DarrayArgs, ORDER_C, ORDER_FORTRAN,
    TypeClass, contiguous, create_f90_complex, create_f90_integer, create_f90_real, darray, dup, hindexed,
    hindexed_block, hvector, indexed, indexed_block, match_size, resized, structure, subarray, value_index, vector,
};
pub use builtin::{Builtin, Family, Info, Name, Repr};
pub use contents::{Combiner, Contents, Envelope, Form};
pub use external32::{pack_external, pack_external_size, unpack_external};
pub use pack::{copy, pack, run_count, runs, runs_in, unpack};
pub use predefined::{byte, predefined};

use contents::Recipe;
use layout::Layout;
use shape::Placed;
use signature::Signature;

const _: () = assert!(size_of::<usize>() == 8, "addresses are 64 bits");

/// Live derived datatypes.
pub static DATATYPES: Inside<Table<Rc<Datatype>>> = Inside::new(Table::new(Kind::Datatype));

/// An MPI datatype.
pub struct Datatype {
    size: usize,
    extent: isize,
    contiguous: bool,
    committed: Cell<bool>,
    predefined: bool,
    /// Whether it has a name in the standard.
    named: bool,
    lb: isize,
    true_lb: isize,
    true_extent: isize,
    place: Placed,
    signature: Rc<Signature>,
    marked: bool,
    align: usize,
    builtin: Option<Builtin>,
    handle: Cell<Handle>,
    recipe: Recipe,
    name: RefCell<String>,
    /// Attributes.
    pub attributes: AttrSet,
}

impl Datatype {
    /// A new type, not committed.
    fn new(layout: Layout, recipe: Recipe) -> Datatype {
        let (low, high) = layout.data.unwrap_or((0, 0));
        let dense = match layout.place.as_run() {
            Some((disp, len)) => disp == 0 && len == layout.size,
            None => layout.size == 0,
        };
        Datatype {
            size: layout.size,
            extent: layout.extent() as isize,
            contiguous: dense && layout.lb == 0 && layout.ub == layout.size as i64,
            committed: Cell::new(false),
            predefined: false,
            named: false,
            lb: layout.lb as isize,
            true_lb: low as isize,
            true_extent: (high - low) as isize,
            place: layout.place,
            signature: layout.signature,
            marked: layout.marked,
            align: layout.align,
            builtin: None,
            handle: Cell::default(),
            recipe,
            name: RefCell::new(String::new()),
            attributes: AttrSet::default(),
        }
    }

    /// A committed type that the user can't free; a named one has a name in the standard.
    fn fixed(builtin: Builtin, named: bool, recipe: Recipe) -> Datatype {
        let mut dt = Datatype::new(Layout::builtin(builtin), recipe);
        dt.committed.set(true);
        dt.predefined = true;
        dt.builtin = Some(builtin);
        dt.named = named;
        dt
    }

    /// The typemap again, to build on.
    fn layout(&self) -> Layout {
        let (low, high) = (self.true_lb as i64, (self.true_lb + self.true_extent) as i64);
        Layout {
            size: self.size,
            lb: self.lb as i64,
            ub: self.ub() as i64,
            marked: self.marked,
            data: (self.size != 0).then_some((low, high)),
            align: self.align,
            place: self.place.clone(),
            signature: self.signature.clone(),
        }
    }

    /// Bytes of data in one item (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of data in `count` items; `ERR_COUNT` if no memory can hold so many.
    #[inline]
    pub fn bytes(&self, count: usize) -> Result<usize> {
        match self.size.checked_mul(count) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
            _ => fail!(ERR_COUNT, "count times the size of the datatype is more than memory can hold"),
        }
    }

    /// Distance between consecutive items in bytes.
    #[inline]
    pub fn extent(&self) -> isize {
        self.extent
    }

    /// Lower bound in bytes.
    #[inline]
    pub fn lb(&self) -> isize {
        self.lb
    }

    /// Upper bound in bytes.
    #[inline]
    pub fn ub(&self) -> isize {
        // No overflow: constructors check `lb + extent`.
        self.lb + self.extent
    }

    /// Offset of the first data byte.
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.true_lb
    }

    /// Bytes from the first data byte to the end of the last.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.true_extent
    }

    /// Whether any number of items is one run of memory, in order, that starts at the buffer's address.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// Where `count` items begin, if they are one run of memory (also `count` 1 of a type that isn't contiguous).
    #[inline]
    pub fn dense_offset(&self, count: usize) -> Option<isize> {
        if self.contiguous || count == 0 {
            return Some(0);
        }
        match self.place.as_run() {
            Some((disp, len)) if count == 1 || len as isize == self.extent => Some(disp),
            _ => None,
        }
    }

    /// Whether the type may be used for communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.get()
    }

    /// Allows the type for communication (`MPI_Type_commit`).
    pub fn commit(&self) {
        self.committed.set(true);
    }

    /// Whether the user may not free it: named types and parametrised Fortran types.
    #[inline]
    pub fn is_predefined(&self) -> bool {
        self.predefined
    }

    /// The basic type that this predefined type is; none for derived types, also for a `dup`.
    #[inline]
    pub fn builtin(&self) -> Option<Builtin> {
        self.builtin
    }

    /// The name of a named predefined type.
    pub fn named(&self) -> Option<Name> {
        self.builtin.filter(|_| self.named).map(|builtin| builtin.which)
    }

    /// The type of all basic elements, if there is only one.
    pub fn uniform_builtin(&self) -> Option<Builtin> {
        self.signature.uniform()
    }

    /// Basic elements in one item; a pair counts as two.
    pub fn elements_per_item(&self) -> usize {
        self.signature.elements
    }

    /// Calls `visit(type, number)` for each run of equal predefined types in the signature of `count` items, in order, until it fails.
    pub fn each_predefined<E>(
        &self,
        count: usize,
        visit: &mut impl FnMut(Name, usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.signature.each_of(count, &mut |builtin, number| visit(builtin.which, number))
    }

    /// `MPI_Get_elements`: basic elements in the first `bytes` packed bytes; none if they end inside an element.
    pub fn elements_in(&self, bytes: usize) -> Option<usize> {
        if self.size == 0 {
            return (bytes == 0).then_some(0);
        }
        let (items, rest) = (bytes / self.size, bytes % self.size);
        items.checked_mul(self.signature.elements)?.checked_add(self.signature.elements_in(rest)?)
    }

    /// Packed bytes of the first `elements` basic elements (`MPI_Status_set_elements`); none if that overflows.
    pub fn bytes_of_elements(&self, elements: usize) -> Option<usize> {
        if self.signature.elements == 0 {
            return Some(0);
        }
        let (items, rest) = (elements / self.signature.elements, elements % self.signature.elements);
        items.checked_mul(self.size)?.checked_add(self.signature.bytes_of(rest))
    }

    /// Combiner and numbers of arguments (`MPI_Type_get_envelope`).
    pub fn envelope(&self) -> Envelope {
        self.recipe.envelope()
    }

    /// Arguments of the constructor (`MPI_Type_get_contents`); empty for a named type.
    pub fn contents(&self) -> &Contents {
        &self.recipe.contents
    }

    /// The name, at first that of the constant, or empty.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// `MPI_Type_set_name`.
    pub fn set_name(&self, name: &str) {
        *self.name.borrow_mut() = name.to_owned();
    }
}

/// Unlinks a chain of derived types one by one: recursion would overflow the stack on a very long one.
impl Drop for Datatype {
    fn drop(&mut self) {
        let mut orphans = std::mem::take(&mut self.recipe.contents.datatypes);
        while let Some(parent) = orphans.pop() {
            if let Ok(mut parent) = Rc::try_unwrap(parent) {
                orphans.append(&mut parent.recipe.contents.datatypes);
            }
        }
    }
}

impl Named for Datatype {
    #[inline]
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Attributed for Datatype {
    const KIND: ObjectKind = ObjectKind::Datatype;
    fn attributes(&self) -> &AttrSet {
        &self.attributes
    }
    fn holder(&self) -> Holder<'_> {
        Holder::Datatype(self)
    }
}

impl std::fmt::Debug for Datatype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Datatype { size, extent, lb, .. } = self;
        write!(
            f,
            "Datatype(combiner {:?}, size {size}, lb {lb}, extent {extent}, {:?})",
            self.recipe.combiner, self.place
        )
    }
}
