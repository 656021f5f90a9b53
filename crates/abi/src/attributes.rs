//! Attributes as the program has them: its callbacks, and the predefined ones, which it gets as addresses of integers.

use crate::chosen::{Chosen, SUCCESS};
use crate::convert::{Abi, known, number};
use crate::ctypes::{CComm, CWin, Raw};
use crate::kinds::Function;
use crate::lookup::known_datatype;
use base::{Error, Result};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use mpi::attr::{self, Callbacks, Holder, ObjectKind};
use mpi::comm::Comm;
use mpi::comm::attributes::{Predefined, Value, predefined};
use mpi::cs::Section;
use mpi::datatype::Datatype;
use mpi::inside::Inside;
use mpi::rma::{Attribute, Window};

/// `MPI_{Comm,Type,Win}_copy_attr_function`: object, keyval, extra state, value, where the copy goes, flag. The three kinds differ
/// only in the kind of handle.
type CopyFunction = unsafe extern "C" fn(Raw, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// `MPI_{Comm,Type,Win}_delete_attr_function`: object, keyval, value, extra state.
type DeleteFunction = unsafe extern "C" fn(Raw, c_int, *mut c_void, *mut c_void) -> c_int;

/// What happens to an attribute when its object is duplicated.
#[derive(Clone, Copy)]
enum CopyRule {
    /// `MPI_*_NULL_COPY_FN`.
    Drop,
    /// `MPI_*_DUP_FN`.
    Keep,
    Ask(CopyFunction),
}

/// The program's functions for a keyval.
struct Functions {
    copy: CopyRule,
    delete: Option<DeleteFunction>,
    extra_state: *mut c_void,
}

fn check(code: c_int, origin: &'static str) -> Result {
    if code == SUCCESS { Ok(()) } else { Err(Error::new(Chosen::class(code), origin)) }
}

fn c_holder(holder: Holder<'_>) -> Raw {
    match holder {
        Holder::Datatype(it) => known_datatype(it.downcast_ref::<Datatype>().expect("a datatype")).0,
        Holder::Comm(handle) => CComm::of(handle).0,
        Holder::Window(handle) => CWin::of(handle).0,
    }
}

impl Callbacks for Functions {
    fn copy(
        &self,
        _cs: &mut Section,
        object: Holder<'_>,
        keyval: u32,
        value: *mut c_void,
    ) -> Result<Option<*mut c_void>> {
        let function = match self.copy {
            CopyRule::Drop => return Ok(None),
            CopyRule::Keep => return Ok(Some(value)),
            CopyRule::Ask(function) => function,
        };
        let mut copy: *mut c_void = core::ptr::null_mut();
        let mut flag = 0;
        let (object, keyval, out) = (c_holder(object), Chosen::c_keyval(keyval), (&raw mut copy).cast());
        // SAFETY: a function of this type by the contract of `create_keyval`.
        let code = unsafe { function(object, keyval, self.extra_state, value, out, &mut flag) };
        check(code, "attribute copy callback failed")?;
        Ok((flag != 0).then_some(copy))
    }

    fn delete(&self, _cs: &mut Section, object: Holder<'_>, keyval: u32, value: *mut c_void) -> Result {
        let Some(function) = self.delete else { return Ok(()) };
        // SAFETY: a function of this type by the contract of `create_keyval`.
        let code = unsafe { function(c_holder(object), Chosen::c_keyval(keyval), value, self.extra_state) };
        check(code, "attribute delete callback failed")
    }
}

/// `MPI_*_create_keyval`. `copy` is 0 for the null function, 1 for the duplicating one; `delete` is 0 for the null function.
///
/// # Safety
/// Other values must be functions of the types [`CopyFunction`] and [`DeleteFunction`].
pub unsafe fn create_keyval(
    cs: &Section,
    kind: ObjectKind,
    copy: Function,
    delete: Function,
    extra_state: *mut c_void,
) -> c_int {
    let copy = match copy.addr() {
        0 => CopyRule::Drop,
        1 => CopyRule::Keep,
        // SAFETY: not null, and the caller vouches for the type.
        _ => CopyRule::Ask(unsafe { core::mem::transmute::<Function, CopyFunction>(copy) }),
    };
    // SAFETY: null is `None`, and the caller vouches for the type.
    let delete = unsafe { core::mem::transmute::<Function, Option<DeleteFunction>>(delete) };
    Chosen::c_keyval(attr::create_keyval(cs, kind, Box::new(Functions { copy, delete, extra_state })))
}

/// `MPI_*_free_keyval`: what the program's variable is afterwards.
pub fn free_keyval(cs: &Section, kind: ObjectKind, keyval: c_int) -> Result<c_int> {
    attr::free_keyval(cs, kind, Chosen::keyval(keyval))?;
    Ok(Chosen::KEYVAL_INVALID)
}

const COUNT: usize = Chosen::PREDEFINED_KEYVALS.len();

/// What programs have the addresses of, in the order of the keyvals.
static INTEGERS: Inside<[Cell<c_int>; COUNT]> = Inside::new([const { Cell::new(0) }; COUNT]);

/// Brings the integer of a predefined attribute up to date; its address if the attribute is set.
pub fn refresh(cs: &Section, which: Predefined) -> Option<*mut c_int> {
    let integer = &INTEGERS.get(cs)[which as usize];
    integer.set(match predefined(cs, which)? {
        Value::Number(number) => number,
        Value::Rank(rank) => Chosen::c_rank(rank),
        Value::Code(class) => Chosen::code(class),
    });
    Some(integer.as_ptr())
}

/// `MPI_Comm_get_attr`: the attribute's value. The predefined ones (9.1.2) are pointers to integers.
pub fn of_comm(cs: &Section, comm: &Comm, keyval: c_int) -> Result<Option<*mut c_void>> {
    match known(Chosen::PREDEFINED_KEYVALS, keyval) {
        Some(which) => Ok(refresh(cs, which).map(<*mut c_int>::cast)),
        None => attr::get(cs, comm, Chosen::keyval(keyval)),
    }
}

/// `MPI_Win_get_attr`: the attribute's value. The predefined ones (12.2.6) are the base itself, and pointers to integers.
pub fn of_window(cs: &Section, win: &Window, keyval: c_int) -> Result<Option<*mut c_void>> {
    let flavor = || number(Chosen::WIN_FLAVORS, win.flavor).unwrap_or(0);
    let (place, value) = match known(Chosen::WIN_KEYVALS, keyval) {
        None => return attr::get(cs, win, Chosen::keyval(keyval)),
        Some(Attribute::Base) => return Ok(Some(win.base.cast())),
        Some(Attribute::Size) => (0, win.size as i64),
        Some(Attribute::DispUnit) => (1, win.disp_unit as i64),
        Some(Attribute::Flavor) => (2, i64::from(flavor())),
        Some(Attribute::Model) => (3, i64::from(Chosen::WIN_UNIFIED)),
    };
    // The lower half, which comes first in memory, is the `int` of those that are one.
    win.cells[place].set(value);
    Ok(Some(win.cells[place].as_ptr().cast()))
}
