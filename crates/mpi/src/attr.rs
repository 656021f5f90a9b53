//! Attributes of communicators, datatypes and windows (MPI-5.0, 7.7 and 9.1.2).
//!
//! The C types of the three kinds of callbacks differ only in the kind of handle, so one set of types serves all. Callbacks
//! run inside the critical section and may call MPI: nothing is borrowed meanwhile. A freed keyval stays alive in the
//! attributes that use it. Attributes are deleted in the reverse order of their setting (required for `MPI_COMM_SELF`).

use crate::handle::Handle;
use crate::inside::Inside;
use base::{Class, Error, Result, ensure, fail};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

/// `MPI_KEYVAL_INVALID`.
pub const KEYVAL_INVALID: i32 = 0;

/// Numbers of dynamic keyvals start here, above all predefined ones.
const FIRST_KEYVAL: i32 = 4096;

/// `MPI_{Comm,Type,Win}_copy_attr_function`: object, keyval, extra state, value, where the copy goes, flag.
pub type CopyFunction = unsafe extern "C" fn(Handle, i32, *mut c_void, *mut c_void, *mut c_void, *mut i32) -> i32;

/// `MPI_{Comm,Type,Win}_delete_attr_function`: object, keyval, value, extra state.
pub type DeleteFunction = unsafe extern "C" fn(Handle, i32, *mut c_void, *mut c_void) -> i32;

/// What an attribute can be attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ObjectKind {
    Comm,
    Datatype,
    Window,
}

/// What happens to an attribute when its object is duplicated.
enum CopyRule {
    /// `MPI_*_NULL_COPY_FN`.
    Drop,
    /// `MPI_*_DUP_FN`.
    Keep,
    Ask(CopyFunction),
}

/// A kind of attribute.
pub struct Keyval {
    number: i32,
    kind: ObjectKind,
    copy: CopyRule,
    delete: Option<DeleteFunction>,
    extra_state: *mut c_void,
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
    /// The handle that callbacks are given.
    fn attribute_handle(&self) -> Handle;
}

/// `MPI_*_create_keyval`. `copy` is 0 for the null function, 1 for the duplicating one; `delete` is 0 for the null function.
///
/// # Safety
/// Other values must be functions of the types [`CopyFunction`] and [`DeleteFunction`].
pub unsafe fn create_keyval(kind: ObjectKind, copy: usize, delete: usize, extra_state: *mut c_void) -> i32 {
    let copy = match copy {
        0 => CopyRule::Drop,
        1 => CopyRule::Keep,
        // SAFETY: not null, and the caller vouches for the type.
        function => CopyRule::Ask(unsafe { std::mem::transmute::<usize, CopyFunction>(function) }),
    };
    // SAFETY: null is `None`, and the caller vouches for the type.
    let delete = unsafe { std::mem::transmute::<usize, Option<DeleteFunction>>(delete) };
    let mut keyvals = KEYVALS.borrow_mut();
    let number = FIRST_KEYVAL + keyvals.len() as i32;
    keyvals.push(Rc::new(Keyval { number, kind, copy, delete, extra_state, freed: Cell::new(false) }));
    number
}

/// `MPI_*_free_keyval`. Attributes that exist keep it, and may still be reached by it.
pub fn free_keyval(kind: ObjectKind, number: i32) -> Result {
    find(kind, number)?.freed.set(true);
    Ok(())
}

/// A keyval that is not freed, or that some attribute still has.
fn find(kind: ObjectKind, number: i32) -> Result<Rc<Keyval>> {
    let keyvals = KEYVALS.borrow();
    let alive = |keyval: &Rc<Keyval>| !keyval.freed.get() || Rc::strong_count(keyval) > 1;
    match number.checked_sub(FIRST_KEYVAL).and_then(|i| usize::try_from(i).ok()).and_then(|i| keyvals.get(i)) {
        Some(keyval) if keyval.kind == kind && alive(keyval) => Ok(Rc::clone(keyval)),
        _ => fail!(ERR_KEYVAL, "no such keyval for this kind of object"),
    }
}

/// `MPI_*_set_attr`. A value that was there is deleted first.
pub fn set<T: Attributed>(object: &T, number: i32, value: *mut c_void) -> Result {
    let keyval = find(T::KIND, number)?;
    if object.attributes().value(&keyval).is_some() {
        remove(object, &keyval)?;
    }
    object.attributes().push(keyval, value);
    Ok(())
}

/// `MPI_*_get_attr` of a keyval that isn't predefined.
pub fn get<T: Attributed>(object: &T, number: i32) -> Result<Option<*mut c_void>> {
    let keyval = find(T::KIND, number)?;
    Ok(object.attributes().value(&keyval))
}

/// `MPI_*_delete_attr`.
pub fn delete<T: Attributed>(object: &T, number: i32) -> Result {
    let keyval = find(T::KIND, number)?;
    ensure!(object.attributes().value(&keyval).is_some(), ERR_KEYVAL, "the object has no such attribute");
    remove(object, &keyval)
}

/// Gives the duplicate `to` of `from` its attributes. When a callback fails, `to` has those copied before.
pub fn copy_all<T: Attributed>(from: &T, to: &T) -> Result {
    let attributes: Vec<_> = from.attributes().0.borrow().clone();
    for (keyval, value) in attributes {
        if let Some(copy) = keyval.copied(from.attribute_handle(), value)? {
            to.attributes().push(keyval, copy);
        }
    }
    Ok(())
}

/// Deletes all attributes; those whose callback hasn't run stay when one fails.
pub fn delete_all<T: Attributed>(object: &T) -> Result {
    loop {
        let last = object.attributes().0.borrow().last().map(|(keyval, _)| Rc::clone(keyval));
        match last {
            Some(keyval) => remove(object, &keyval)?,
            None => return Ok(()),
        }
    }
}

fn remove<T: Attributed>(object: &T, keyval: &Rc<Keyval>) -> Result {
    if let (Some(delete), Some(value)) = (keyval.delete, object.attributes().value(keyval)) {
        // SAFETY: a function of this type by the contract of `create_keyval`; no borrow is held.
        let code = unsafe { delete(object.attribute_handle(), keyval.number, value, keyval.extra_state) };
        callback_result(code, "attribute delete callback failed")?;
    }
    object.attributes().0.borrow_mut().retain(|(k, _)| !Rc::ptr_eq(k, keyval));
    Ok(())
}

/// What the program's callback answered, as an error of ours.
fn callback_result(code: i32, origin: &'static str) -> Result {
    if code == Class::SUCCESS.0 { Ok(()) } else { Err(Error::new(Class(code), origin)) }
}

impl Keyval {
    /// The value for a duplicate of `object`, if it shall have one.
    fn copied(&self, object: Handle, value: *mut c_void) -> Result<Option<*mut c_void>> {
        let function = match self.copy {
            CopyRule::Drop => return Ok(None),
            CopyRule::Keep => return Ok(Some(value)),
            CopyRule::Ask(function) => function,
        };
        let mut copy: *mut c_void = std::ptr::null_mut();
        let mut flag = 0;
        let out = (&raw mut copy).cast();
        // SAFETY: a function of this type by the contract of `create_keyval`; no borrow is held.
        let code = unsafe { function(object, self.number, self.extra_state, value, out, &mut flag) };
        callback_result(code, "attribute copy callback failed")?;
        Ok((flag != 0).then_some(copy))
    }
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

    #[derive(Default)]
    struct Thing(AttrSet);

    impl Attributed for Thing {
        const KIND: ObjectKind = ObjectKind::Comm;
        fn attributes(&self) -> &AttrSet {
            &self.0
        }
        fn attribute_handle(&self) -> Handle {
            Handle(7)
        }
    }

    unsafe extern "C" fn log_deletion(object: Handle, _: i32, value: *mut c_void, log: *mut c_void) -> i32 {
        assert_eq!(object, Handle(7));
        // SAFETY: the tests pass a `Vec<usize>` as extra state.
        unsafe { &mut *log.cast::<Vec<usize>>() }.push(value as usize);
        0
    }

    unsafe extern "C" fn refuse(_: Handle, _: i32, _: *mut c_void, _: *mut c_void) -> i32 {
        77
    }

    unsafe extern "C" fn double(
        _: Handle,
        _: i32,
        _: *mut c_void,
        value: *mut c_void,
        out: *mut c_void,
        flag: *mut i32,
    ) -> i32 {
        // SAFETY: `copied` passes valid places.
        unsafe {
            *out.cast::<usize>() = value as usize * 2;
            *flag = i32::from(value as usize != 3);
        }
        if value as usize == 13 { 55 } else { 0 }
    }

    fn keyval(copy: usize, delete: usize, extra: *mut c_void) -> i32 {
        // SAFETY: the tests pass functions of the right types.
        unsafe { create_keyval(ObjectKind::Comm, copy, delete, extra) }
    }

    fn value(v: usize) -> *mut c_void {
        v as *mut c_void
    }

    #[test]
    fn deletion_is_in_reverse_order_and_survives_freed_keyvals() {
        let _guard = crate::cs::enter();
        let mut log: Vec<usize> = Vec::new();
        let extra = (&raw mut log).cast();
        let keys: Vec<i32> = (0..3).map(|_| keyval(0, log_deletion as *const () as usize, extra)).collect();
        let thing = Thing::default();
        for (i, k) in keys.iter().enumerate() {
            set(&thing, *k, value(i + 1)).unwrap();
        }
        set(&thing, keys[0], value(9)).unwrap();
        free_keyval(ObjectKind::Comm, keys[1]).unwrap();
        assert_eq!(get(&thing, keys[1]), Ok(Some(value(2))), "an attribute keeps its keyval");
        free_keyval(ObjectKind::Comm, keys[1]).unwrap();
        delete_all(&thing).unwrap();
        assert_eq!(log, [1, 9, 3, 2]);
        assert_eq!(get(&thing, keys[1]).unwrap_err().class, Class::ERR_KEYVAL);
        assert!(free_keyval(ObjectKind::Comm, keys[1]).is_err());
    }

    #[test]
    fn copies_follow_the_rule_of_the_keyval() {
        let _guard = crate::cs::enter();
        let none = std::ptr::null_mut();
        let (drop, keep, ask) = (keyval(0, 0, none), keyval(1, 0, none), keyval(double as *const () as usize, 0, none));
        let (from, to) = (Thing::default(), Thing::default());
        for k in [drop, keep, ask] {
            set(&from, k, value(5)).unwrap();
        }
        copy_all(&from, &to).unwrap();
        assert_eq!(get(&to, drop).unwrap(), None);
        assert_eq!(get(&to, keep).unwrap(), Some(value(5)));
        assert_eq!(get(&to, ask).unwrap(), Some(value(10)));
        set(&from, ask, value(3)).unwrap();
        let second = Thing::default();
        copy_all(&from, &second).unwrap();
        assert_eq!(get(&second, ask).unwrap(), None);
        set(&from, ask, value(13)).unwrap();
        assert_eq!(copy_all(&from, &Thing::default()).unwrap_err().class, Class(55));
    }

    #[test]
    fn a_callback_that_fails_keeps_the_attribute() {
        let _guard = crate::cs::enter();
        let key = keyval(0, refuse as *const () as usize, std::ptr::null_mut());
        let thing = Thing::default();
        set(&thing, key, value(1)).unwrap();
        assert_eq!(set(&thing, key, value(2)).unwrap_err().class, Class(77));
        assert_eq!(delete_all(&thing).unwrap_err().class, Class(77));
        assert_eq!(get(&thing, key).unwrap(), Some(value(1)));
    }

    #[test]
    fn keyvals_fit_only_their_kind() {
        let _guard = crate::cs::enter();
        // SAFETY: null functions.
        let key = unsafe { create_keyval(ObjectKind::Datatype, 0, 0, std::ptr::null_mut()) };
        assert_eq!(set(&Thing::default(), key, value(1)).unwrap_err().class, Class::ERR_KEYVAL);
        assert_eq!(delete(&Thing::default(), KEYVAL_INVALID).unwrap_err().class, Class::ERR_KEYVAL);
    }
}
