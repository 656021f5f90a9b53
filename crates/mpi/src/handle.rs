//! MPI handles and the tables behind them.
//!
//! Our handles are small integers, so that a stale or invented one is recognised instead of followed. How they look to the program,
//! each ABI says; a few of them name predefined objects. The others have 31 bits:
//!
//! | | bits of a request | bits of any other kind |
//! |---|---|---|
//! | kind | 30: 1 | 30: 0, 26-29: its number |
//! | generation of the slot | 25-29 | 21-25 |
//! | slot | 0-24 | 0-20 |
//!
//! Programs have millions of requests, but never as many other objects. Whoever makes an object asks first whether there is room
//! ([`Table::ensure_room`]).

use crate::cs::Section;
use crate::inside::Inside;
use base::{Result, ensure};
use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;

/// The name of an object in this crate.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Handle(pub usize);

/// Handles from here on are those of objects that the program has made.
pub const PREDEFINED_END: usize = 16;

impl Handle {
    /// No object's handle.
    pub const NONE: Handle = Handle(0);
    /// What the program passed can't be a handle.
    pub const UNKNOWN: Handle = Handle(PREDEFINED_END - 1);
    /// `MPI_COMM_WORLD`.
    pub const COMM_WORLD: Handle = Handle(1);
    /// `MPI_COMM_SELF`.
    pub const COMM_SELF: Handle = Handle(2);
    /// `MPI_GROUP_EMPTY`.
    pub const GROUP_EMPTY: Handle = Handle(3);
    /// `MPI_INFO_ENV`.
    pub const INFO_ENV: Handle = Handle(4);
    /// `MPI_MESSAGE_NO_PROC`.
    pub const MESSAGE_NO_PROC: Handle = Handle(5);
    /// `MPI_ERRORS_ARE_FATAL`.
    pub const ERRORS_ARE_FATAL: Handle = Handle(6);
    /// `MPI_ERRORS_ABORT`.
    pub const ERRORS_ABORT: Handle = Handle(7);
    /// `MPI_ERRORS_RETURN`.
    pub const ERRORS_RETURN: Handle = Handle(8);
}

const GENERATION_BITS: u32 = 5;

/// The slot of a request, and of any other object.
const REQUEST_INDEX_BITS: u32 = 25;
const OTHER_INDEX_BITS: u32 = 21;

/// Slots that [`Table::ensure_room`] leaves for what is made without asking: handles for callbacks, other threads' objects.
const RESERVE: usize = 1 << 12;

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

impl Kind {
    const fn index_bits(self) -> u32 {
        match self {
            Kind::Request => REQUEST_INDEX_BITS,
            _ => OTHER_INDEX_BITS,
        }
    }

    /// The handle of slot 0 in its first generation.
    const fn first(self) -> usize {
        match self {
            Kind::Request => 1 << (REQUEST_INDEX_BITS + GENERATION_BITS),
            other => (other as usize) << (OTHER_INDEX_BITS + GENERATION_BITS),
        }
    }
}

struct Slot<T> {
    /// The handle of the object that is here, or will be next.
    handle: Handle,
    /// Number of times that the program owns this handle; of a slot without an object, the next such slot.
    references: u32,
    value: Option<T>,
}

/// Ends the list of slots without an object.
const NO_SLOT: u32 = u32::MAX;

/// The live objects of one kind. A module's table is [`Inside`], so that only a [`Section`] leads to it.
pub struct Table<T> {
    kind: Kind,
    index_mask: usize,
    generation_mask: usize,
    inner: UnsafeCell<Inner<T>>,
}

struct Inner<T> {
    slots: Vec<Slot<T>>,
    /// The first slot without an object.
    free: u32,
    live: usize,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new(kind: Kind) -> Table<T> {
        let index_mask = (1 << kind.index_bits()) - 1;
        let generation_mask = ((1 << GENERATION_BITS) - 1) << kind.index_bits();
        Table {
            kind,
            index_mask,
            generation_mask,
            inner: UnsafeCell::new(Inner { slots: Vec::new(), free: NO_SLOT, live: 0 }),
        }
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the critical section; no borrow outlives a method of this file"
    )]
    #[inline]
    fn inner(&self) -> &mut Inner<T> {
        // SAFETY: only one thread at a time reaches the table, and each method ends its borrow before it returns or
        // calls out.
        unsafe { &mut *self.inner.get() }
    }

    #[inline]
    fn slot(&self, handle: Handle) -> Option<&mut Slot<T>> {
        let slot = self.inner().slots.get_mut(handle.0 & self.index_mask)?;
        (slot.handle == handle && slot.value.is_some()).then_some(slot)
    }

    /// Whether one more object has room, with a reserve for what can't ask.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.inner().live + RESERVE <= self.index_mask
    }

    /// As [`Table::has_room`], as an error.
    #[inline]
    pub fn ensure_room(&self) -> Result {
        ensure!(self.has_room(), ERR_NO_MEM, "too many live objects of this kind: no handle is left");
        Ok(())
    }

    /// Enters an object, owned once by the program.
    #[inline(always)]
    pub fn insert(&self, value: T) -> Handle {
        if self.inner().free == NO_SLOT {
            self.grow();
        }
        let inner = self.inner();
        let slot = &mut inner.slots[inner.free as usize];
        inner.free = std::mem::replace(&mut slot.references, 1);
        inner.live += 1;
        // A free slot has no value to be dropped.
        std::mem::forget(slot.value.replace(value));
        slot.handle
    }

    /// One more slot.
    #[cold]
    fn grow(&self) {
        let inner = self.inner();
        let index = inner.slots.len();
        assert!(index <= self.index_mask, "more than {index} live MPI objects of one kind");
        inner.slots.push(Slot { handle: Handle(self.kind.first() | index), references: NO_SLOT, value: None });
        inner.free = index as u32;
    }

    /// The object of `slot`, which had this handle, has been taken out.
    #[inline(always)]
    fn freed(&self, slot: &mut Slot<T>, handle: Handle) {
        let inner = self.inner();
        slot.handle = self.next_generation(handle);
        slot.references = std::mem::replace(&mut inner.free, (handle.0 & self.index_mask) as u32);
        inner.live -= 1;
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
        self.freed(slot, handle);
        Some((answer, value))
    }

    /// The handle of the next object in this one's slot.
    #[inline]
    fn next_generation(&self, handle: Handle) -> Handle {
        let next = (handle.0 | self.index_mask) + 1;
        Handle((handle.0 & !self.generation_mask) | (next & self.generation_mask))
    }

    /// As [`Table::remove_if`], of an object of which `f` has left nothing to be dropped.
    #[inline(always)]
    pub fn forget_if<R>(&self, handle: Handle, f: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let slot = self.slot(handle)?;
        let answer = f(slot.value.as_mut()?)?;
        std::mem::forget(slot.value.take());
        self.freed(slot, handle);
        Some(answer)
    }

    /// Handles of all live objects.
    pub fn handles(&self) -> Vec<Handle> {
        self.inner().slots.iter().filter(|slot| slot.value.is_some()).map(|slot| slot.handle).collect()
    }
}

/// An object that remembers the handle under which the program knows it.
pub trait Named {
    /// Where the handle is kept.
    fn handle_cell(&self) -> &Cell<Handle>;
}

/// Objects that are shared: `P` is an `Rc`, or an `Arc` where others count, too.
impl<P: Clone + Deref<Target: Named>> Table<P> {
    /// The object of a live handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<P> {
        self.slot(handle).and_then(|slot| slot.value.clone())
    }

    /// The object of a live handle, without a count of its own.
    ///
    /// # Safety
    /// Nothing enters or leaves this table as long as the borrow is used.
    #[inline(always)]
    pub unsafe fn borrow(&self, handle: Handle) -> Option<&P> {
        self.slot(handle)?.value.as_ref()
    }

    /// Enters a new object and tells it its handle.
    pub fn enter(&self, value: P) -> Handle {
        let handle = self.insert(value.clone());
        value.handle_cell().set(handle);
        handle
    }

    /// A handle owned by the program for an object that may have one already.
    pub fn share(&self, value: &P) -> Handle {
        let handle = value.handle_cell().get();
        if handle.0 != 0 && (handle.0 < PREDEFINED_END || self.retain(handle)) {
            return handle;
        }
        self.enter(value.clone())
    }
}

impl<P: Clone + Deref<Target: Named>> Inside<Table<P>> {
    /// Runs `f` with a handle for a callback, that is live meanwhile: also when the program has freed the object.
    pub fn lend<R>(&self, cs: &mut Section, value: &P, f: impl FnOnce(&mut Section, Handle) -> R) -> R {
        let handle = self.get(cs).share(value);
        let result = f(cs, handle);
        self.get(cs).release(handle);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

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

    #[test]
    fn handles_of_all_kinds_differ_and_fit_a_positive_int() {
        const KINDS: [Kind; 3] = [Kind::Comm, Kind::Request, Kind::File];
        let mut seen = std::collections::HashSet::new();
        for kind in KINDS {
            let table = Table::new(kind);
            for i in 0..200 {
                let handle = table.insert(i);
                assert!(seen.insert(handle), "{kind:?}");
                assert!((PREDEFINED_END..1 << 31).contains(&handle.0), "{kind:?}");
                // Every third one stays.
                if i % 3 > 0 && i < 93 {
                    table.remove(handle);
                }
            }
        }
    }

    #[test]
    fn a_slot_has_many_generations() {
        let table = Table::new(Kind::Info);
        let first = table.insert(());
        table.remove(first);
        let later = (1..40).take_while(|_| {
            let handle = table.insert(());
            table.remove(handle);
            handle != first
        });
        assert_eq!(later.count(), (1 << GENERATION_BITS) - 1);
    }

    #[test]
    fn a_full_table_is_an_error() {
        let table = Table::new(Kind::Group);
        for _ in 0..=table.index_mask - RESERVE {
            table.ensure_room().unwrap();
            table.insert(());
        }
        assert_eq!(table.ensure_room().unwrap_err().class, base::Class::ERR_NO_MEM);
        // What can't ask still finds room.
        let last = table.insert(());
        table.remove(last);
        assert!(!table.has_room());
        table.remove(table.handles()[0]);
        table.ensure_room().unwrap();
    }

    struct Object(Cell<Handle>);

    impl Named for Object {
        fn handle_cell(&self) -> &Cell<Handle> {
            &self.0
        }
    }

    #[test]
    fn a_freed_object_is_lent_a_handle_for_a_while() {
        static TABLE: Inside<Table<Rc<Object>>> = Inside::new(Table::new(Kind::Datatype));
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let object = Rc::new(Object(Cell::default()));
        let own = TABLE.get(cs).enter(Rc::clone(&object));
        TABLE.lend(cs, &object, |_, handle| assert_eq!(handle, own));
        assert!(TABLE.get(cs).get(own).is_some());
        TABLE.get(cs).release(own);
        let other = TABLE.get(cs).enter(Rc::new(Object(Cell::default())));
        TABLE.lend(cs, &object, |cs, lent| {
            assert!(lent != own && lent != other);
            TABLE.lend(cs, &object, |_, again| assert_eq!(again, lent));
            assert!(TABLE.get(cs).get(lent).is_some_and(|found| Rc::ptr_eq(&found, &object)));
        });
        assert_eq!(TABLE.get(cs).handles(), [other]);
    }
}
