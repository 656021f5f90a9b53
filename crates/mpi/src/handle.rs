//! MPI handles and the tables behind them.
//!
//! The ABI makes handles pointers; values under 4096 are predefined objects (MPI-5.0, 20.3). Ours are small integers, so that
//! `_toint` is the identity and a stale or invented handle is recognised instead of followed:
//! bits 27-30 kind, 20-26 generation of the slot, 0-19 slot.

use std::cell::{Cell, UnsafeCell};
use std::rc::Rc;

/// A handle as the program holds it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Handle(pub usize);

/// Handle values below this are predefined by the ABI.
pub const PREDEFINED_END: usize = 4096;

/// `MPI_COMM_NULL`.
pub const COMM_NULL: Handle = Handle(0x100);
/// `MPI_COMM_WORLD`.
pub const COMM_WORLD: Handle = Handle(0x101);
/// `MPI_COMM_SELF`.
pub const COMM_SELF: Handle = Handle(0x102);

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 7;
const KIND_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: usize = (1 << GENERATION_BITS) - 1;

/// What a dynamic handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Comm = 1,
    Group,
    Datatype,
    Op,
    Request,
    Message,
    Errhandler,
    Info,
    Session,
    Win,
    File,
}

struct Slot<T> {
    generation: usize,
    /// Number of times that the program owns this handle.
    references: u32,
    value: Option<T>,
}

/// The live objects of one kind. All access happens inside the critical section ([`crate::cs`]).
pub struct Table<T> {
    kind: Kind,
    inner: UnsafeCell<Inner<T>>,
}

struct Inner<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new(kind: Kind) -> Table<T> {
        Table { kind, inner: UnsafeCell::new(Inner { slots: Vec::new(), free: Vec::new() }) }
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the critical section; no borrow outlives a method of this file"
    )]
    #[inline]
    fn inner(&self) -> &mut Inner<T> {
        // SAFETY: the table is only reached inside the critical section, and each method ends its borrow before it
        // returns or calls out.
        unsafe { &mut *self.inner.get() }
    }

    #[inline]
    fn slot(&self, handle: Handle) -> Option<&mut Slot<T>> {
        let slot = self.inner().slots.get_mut(handle.0 & INDEX_MASK)?;
        let expected = ((self.kind as usize) << GENERATION_BITS) | slot.generation;
        (handle.0 >> INDEX_BITS == expected && slot.value.is_some()).then_some(slot)
    }

    /// Enters an object, owned once by the program.
    #[inline]
    pub fn insert(&self, value: T) -> Handle {
        let inner = self.inner();
        let index = match inner.free.pop() {
            Some(index) => index as usize,
            None => {
                assert!(inner.slots.len() <= INDEX_MASK, "more than {INDEX_MASK} live MPI objects of one kind");
                inner.slots.push(Slot { generation: 0, references: 0, value: None });
                inner.slots.len() - 1
            }
        };
        let slot = &mut inner.slots[index];
        slot.value = Some(value);
        slot.references = 1;
        Handle(((self.kind as usize) << KIND_SHIFT) | (slot.generation << INDEX_BITS) | index)
    }

    /// Runs `f` on the object; `None` for a handle that isn't live. `f` must not touch this table.
    #[inline]
    pub fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.slot(handle).and_then(|slot| slot.value.as_mut()).map(f)
    }

    /// The program owns the handle once more.
    pub fn retain(&self, handle: Handle) -> bool {
        self.slot(handle).map(|slot| slot.references += 1).is_some()
    }

    /// How many times the program owns the handle.
    pub fn references(&self, handle: Handle) -> u32 {
        self.slot(handle).map_or(0, |slot| slot.references)
    }

    /// The program owns the handle once less; the object comes back when that was the last time.
    pub fn release(&self, handle: Handle) -> Option<T> {
        let slot = self.slot(handle)?;
        slot.references -= 1;
        if slot.references > 0 {
            return None;
        }
        self.remove(handle)
    }

    /// Takes the object out whatever its references.
    pub fn remove(&self, handle: Handle) -> Option<T> {
        self.remove_if(handle, |_| Some(())).map(|((), value)| value)
    }

    /// Runs `f` on the object, and takes it out if that answers. `f` must not touch this table.
    #[inline]
    pub fn remove_if<R>(&self, handle: Handle, f: impl FnOnce(&mut T) -> Option<R>) -> Option<(R, T)> {
        let slot = self.slot(handle)?;
        let answer = f(slot.value.as_mut()?)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.inner().free.push((handle.0 & INDEX_MASK) as u32);
        Some((answer, value))
    }

    /// Handles of all live objects.
    pub fn handles(&self) -> Vec<Handle> {
        let slots = self.inner().slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.value.is_some())
            .map(|(i, slot)| Handle(((self.kind as usize) << KIND_SHIFT) | (slot.generation << INDEX_BITS) | i))
            .collect()
    }
}

/// An object that remembers the handle under which the program knows it.
pub trait Named {
    /// Where the handle is kept.
    fn handle_cell(&self) -> &Cell<Handle>;
}

impl<T: Named> Table<Rc<T>> {
    /// The object of a live handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<Rc<T>> {
        self.slot(handle).and_then(|slot| slot.value.clone())
    }

    /// The object of a live handle, without a count of its own.
    ///
    /// # Safety
    /// Nothing enters or leaves this table, and no callback of the program runs, as long as the borrow is used.
    #[inline(always)]
    pub unsafe fn borrow(&self, handle: Handle) -> Option<&Rc<T>> {
        self.slot(handle)?.value.as_ref()
    }

    /// Enters a new object and tells it its handle.
    pub fn enter(&self, value: Rc<T>) -> Handle {
        let handle = self.insert(Rc::clone(&value));
        value.handle_cell().set(handle);
        handle
    }

    /// A handle owned by the program for an object that may have one already.
    pub fn share(&self, value: &Rc<T>) -> Handle {
        let handle = value.handle_cell().get();
        if handle.0 != 0 && (handle.0 < PREDEFINED_END || self.retain(handle)) {
            return handle;
        }
        self.enter(Rc::clone(value))
    }

    /// A handle for a callback, that is live until the answer is dropped: also when the program has freed the object.
    pub fn lend<'a>(&'a self, value: &Rc<T>) -> Lent<'a, T> {
        Lent { table: self, handle: self.share(value) }
    }
}

/// See [`Table::lend`].
pub struct Lent<'a, T: Named> {
    table: &'a Table<Rc<T>>,
    handle: Handle,
}

impl<T: Named> Lent<'_, T> {
    /// The handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl<T: Named> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        self.table.release(self.handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_foreign_handles_are_not_followed() {
        let table = Table::new(Kind::Request);
        let a = table.insert(1);
        assert_eq!(table.with(a, |v| *v), Some(1));
        assert!(table.retain(a));
        assert_eq!(table.release(a), None);
        assert_eq!(table.release(a), Some(1));
        let b = table.insert(2);
        assert_ne!(a, b);
        assert_eq!(table.with(a, |v| *v), None);
        assert_eq!(Table::<i32>::new(Kind::Comm).with(b, |v| *v), None);
        assert_eq!(table.with(Handle(usize::MAX), |v| *v), None);
    }

    struct Object(Cell<Handle>);

    impl Named for Object {
        fn handle_cell(&self) -> &Cell<Handle> {
            &self.0
        }
    }

    #[test]
    fn a_freed_object_is_lent_a_handle_for_a_while() {
        let table = Table::new(Kind::Datatype);
        let object = Rc::new(Object(Cell::default()));
        let own = table.enter(Rc::clone(&object));
        assert_eq!(table.lend(&object).handle(), own);
        assert!(table.get(own).is_some());
        table.release(own);
        let other = table.enter(Rc::new(Object(Cell::default())));
        let lent = table.lend(&object);
        assert!(lent.handle() != own && lent.handle() != other);
        assert_eq!(table.lend(&object).handle(), lent.handle());
        assert!(table.get(lent.handle()).is_some_and(|found| Rc::ptr_eq(&found, &object)));
        drop(lent);
        assert_eq!(table.handles(), [other]);
    }
}
