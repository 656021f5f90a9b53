//! Attributes of communicators, datatypes and windows (MPI-5.0, 7.7 and 9.1.2).
//!
//! One set of callbacks serves all kinds of objects. They run inside the critical section and may call MPI: nothing is borrowed meanwhile. A freed keyval stays alive in the
//! attributes that use it. Attributes are deleted in the reverse order of their setting (required for `MPI_COMM_SELF`).

use crate::cs::Section;
use crate::handle::Handle;
use crate::inside::Inside;
use base::{Result, ensure, fail};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

/// The object that has an attribute, as callbacks are given it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Holder<'a> {
    Comm(Handle),
    Window(Handle),
    /// A `Datatype`, which this module doesn't know: predefined ones have no handle of the core's.
    Datatype(&'a dyn Any),
}

/// What the program does with the attributes of one keyval.
pub trait Callbacks {
    /// The value that a duplicate of `object` gets, if any.
    fn copy(
        &self,
        cs: &mut Section,
        object: Holder<'_>,
        keyval: u32,
        value: *mut c_void,
    ) -> Result<Option<*mut c_void>>;
    /// The attribute goes.
    fn delete(&self, cs: &mut Section, object: Holder<'_>, keyval: u32, value: *mut c_void) -> Result;
}

/// What an attribute can be attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ObjectKind {
    Comm,
    Datatype,
    Window,
}

/// A kind of attribute.
pub struct Keyval {
    number: u32,
    kind: ObjectKind,
    callbacks: Box<dyn Callbacks>,
    freed: Cell<bool>,
}

static KEYVALS: Inside<RefCell<Vec<Rc<Keyval>>>> = Inside::new(RefCell::new(Vec::new()));

/// The attributes of one object, in the order of their setting.
#[derive(Default)]
pub struct AttrSet(RefCell<Vec<(Rc<Keyval>, *mut c_void)>>);

/// An object with attributes.
pub trait Attributed {
    /// Which keyvals fit.
    const KIND: ObjectKind;
    /// The attributes.
    fn attributes(&self) -> &AttrSet;
    /// The object for callbacks.
    fn holder(&self) -> Holder<'_>;
}

/// `MPI_*_create_keyval`. Keyvals count from 0; those of predefined attributes are not among them.
pub fn create_keyval(cs: &Section, kind: ObjectKind, callbacks: Box<dyn Callbacks>) -> u32 {
    let mut keyvals = KEYVALS.get(cs).borrow_mut();
    let number = keyvals.len() as u32;
    keyvals.push(Rc::new(Keyval { number, kind, callbacks, freed: Cell::new(false) }));
    number
}

/// `MPI_*_free_keyval`. Attributes that exist keep it, and may still be reached by it.
pub fn free_keyval(cs: &Section, kind: ObjectKind, number: u32) -> Result {
    find(cs, kind, number)?.freed.set(true);
    Ok(())
}

/// A keyval that is not freed, or that some attribute still has.
fn find(cs: &Section, kind: ObjectKind, number: u32) -> Result<Rc<Keyval>> {
    let keyvals = KEYVALS.get(cs).borrow();
    let alive = |keyval: &Rc<Keyval>| !keyval.freed.get() || Rc::strong_count(keyval) > 1;
    match keyvals.get(number as usize) {
        Some(keyval) if keyval.kind == kind && alive(keyval) => Ok(Rc::clone(keyval)),
        _ => fail!(ERR_KEYVAL, "no such keyval for this kind of object"),
    }
}

/// `MPI_*_set_attr`. A value that was there is deleted first.
pub fn set<T: Attributed>(cs: &mut Section, object: &T, number: u32, value: *mut c_void) -> Result {
    let keyval = find(cs, T::KIND, number)?;
    if object.attributes().value(&keyval).is_some() {
        remove(cs, object, &keyval)?;
    }
    object.attributes().push(keyval, value);
    Ok(())
}

/// `MPI_*_get_attr` of a keyval that isn't predefined.
pub fn get<T: Attributed>(cs: &Section, object: &T, number: u32) -> Result<Option<*mut c_void>> {
    let keyval = find(cs, T::KIND, number)?;
    Ok(object.attributes().value(&keyval))
}

/// `MPI_*_delete_attr`.
pub fn delete<T: Attributed>(cs: &mut Section, object: &T, number: u32) -> Result {
    let keyval = find(cs, T::KIND, number)?;
    ensure!(object.attributes().value(&keyval).is_some(), ERR_KEYVAL, "the object has no such attribute");
    remove(cs, object, &keyval)
}

/// Gives the duplicate `to` of `from` its attributes. When a callback fails, `to` has those copied before.
pub fn copy_all<T: Attributed>(cs: &mut Section, from: &T, to: &T) -> Result {
    let attributes: Vec<_> = from.attributes().0.borrow().clone();
    for (keyval, value) in attributes {
        if let Some(copy) = keyval.callbacks.copy(cs, from.holder(), keyval.number, value)? {
            to.attributes().push(keyval, copy);
        }
    }
    Ok(())
}

/// Deletes all attributes; those whose callback hasn't run stay when one fails.
pub fn delete_all<T: Attributed>(cs: &mut Section, object: &T) -> Result {
    loop {
        let last = object.attributes().0.borrow().last().map(|(keyval, _)| Rc::clone(keyval));
        match last {
            Some(keyval) => remove(cs, object, &keyval)?,
            None => return Ok(()),
        }
    }
}

fn remove<T: Attributed>(cs: &mut Section, object: &T, keyval: &Rc<Keyval>) -> Result {
    if let Some(value) = object.attributes().value(keyval) {
        keyval.callbacks.delete(cs, object.holder(), keyval.number, value)?;
    }
    object.attributes().0.borrow_mut().retain(|(k, _)| !Rc::ptr_eq(k, keyval));
    Ok(())
}

impl AttrSet {
    /// Moves all attributes out.
    pub(crate) fn take(&self) -> AttrSet {
        AttrSet(RefCell::new(self.0.take()))
    }

    fn value(&self, keyval: &Rc<Keyval>) -> Option<*mut c_void> {
        self.0.borrow().iter().find(|(k, _)| Rc::ptr_eq(k, keyval)).map(|(_, value)| *value)
    }

    fn push(&self, keyval: Rc<Keyval>, value: *mut c_void) {
        self.0.borrow_mut().push((keyval, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Class, Error};

    #[derive(Default)]
    struct Thing(AttrSet);

    impl Attributed for Thing {
        const KIND: ObjectKind = ObjectKind::Comm;
        fn attributes(&self) -> &AttrSet {
            &self.0
        }
        fn holder(&self) -> Holder<'_> {
            Holder::Comm(Handle(7))
        }
    }

    /// Deleted values go to a log.
    struct Logging(Rc<RefCell<Vec<usize>>>);

    impl Callbacks for Logging {
        fn copy(&self, _cs: &mut Section, _: Holder<'_>, _: u32, _: *mut c_void) -> Result<Option<*mut c_void>> {
            Ok(None)
        }
        fn delete(&self, _cs: &mut Section, object: Holder<'_>, _: u32, value: *mut c_void) -> Result {
            assert!(matches!(object, Holder::Comm(Handle(7))));
            self.0.borrow_mut().push(value as usize);
            Ok(())
        }
    }

    /// Copies the double, not of 3, fails with 13; refuses every deletion.
    struct Doubling;

    impl Callbacks for Doubling {
        fn copy(&self, _cs: &mut Section, _: Holder<'_>, _: u32, v: *mut c_void) -> Result<Option<*mut c_void>> {
            match v as usize {
                13 => Err(Error::new(Class(55), "13")),
                3 => Ok(None),
                v => Ok(Some(value(v * 2))),
            }
        }
        fn delete(&self, _cs: &mut Section, _: Holder<'_>, _: u32, _: *mut c_void) -> Result {
            Err(Error::new(Class(77), "refused"))
        }
    }

    fn keyval(cs: &Section, callbacks: impl Callbacks + 'static) -> u32 {
        create_keyval(cs, ObjectKind::Comm, Box::new(callbacks))
    }

    fn value(v: usize) -> *mut c_void {
        v as *mut c_void
    }

    #[test]
    fn deletion_is_in_reverse_order_and_survives_freed_keyvals() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let log = Rc::new(RefCell::new(Vec::new()));
        let keys: Vec<u32> = (0..3).map(|_| keyval(cs, Logging(Rc::clone(&log)))).collect();
        let thing = Thing::default();
        for (i, k) in keys.iter().enumerate() {
            set(cs, &thing, *k, value(i + 1)).unwrap();
        }
        set(cs, &thing, keys[0], value(9)).unwrap();
        free_keyval(cs, ObjectKind::Comm, keys[1]).unwrap();
        assert_eq!(get(cs, &thing, keys[1]), Ok(Some(value(2))), "an attribute keeps its keyval");
        free_keyval(cs, ObjectKind::Comm, keys[1]).unwrap();
        delete_all(cs, &thing).unwrap();
        assert_eq!(*log.borrow(), [1, 9, 3, 2]);
        assert_eq!(get(cs, &thing, keys[1]).unwrap_err().class, Class::ERR_KEYVAL);
        assert!(free_keyval(cs, ObjectKind::Comm, keys[1]).is_err());
    }

    #[test]
    fn copies_follow_the_callbacks() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let (drop, ask) = (keyval(cs, Logging(Rc::default())), keyval(cs, Doubling));
        let mut copied = |asked: usize| {
            let (from, to) = (Thing::default(), Thing::default());
            set(cs, &from, drop, value(5)).unwrap();
            set(cs, &from, ask, value(asked)).unwrap();
            copy_all(cs, &from, &to).map(|()| (get(cs, &to, drop).unwrap(), get(cs, &to, ask).unwrap()))
        };
        assert_eq!(copied(5), Ok((None, Some(value(10)))));
        assert_eq!(copied(3), Ok((None, None)));
        assert_eq!(copied(13).unwrap_err().class, Class(55));
    }

    #[test]
    fn a_callback_that_fails_keeps_the_attribute() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let key = keyval(cs, Doubling);
        let thing = Thing::default();
        set(cs, &thing, key, value(1)).unwrap();
        assert_eq!(set(cs, &thing, key, value(2)).unwrap_err().class, Class(77));
        assert_eq!(delete_all(cs, &thing).unwrap_err().class, Class(77));
        assert_eq!(get(cs, &thing, key).unwrap(), Some(value(1)));
    }

    #[test]
    fn keyvals_fit_only_their_kind() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let key = create_keyval(cs, ObjectKind::Datatype, Box::new(Doubling));
        assert_eq!(set(cs, &Thing::default(), key, value(1)).unwrap_err().class, Class::ERR_KEYVAL);
        assert_eq!(delete(cs, &Thing::default(), u32::MAX).unwrap_err().class, Class::ERR_KEYVAL);
    }
}
