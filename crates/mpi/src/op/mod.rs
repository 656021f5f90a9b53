//! Reduction operations (MPI-5.0, 6.9).
//!
//! Not thread-safe: all users hold the library's critical section. A user function is called from [`Op::apply`]; the
//! caller must not hold a `RefCell` borrow that a nested MPI call could need.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::{Result, ensure};

use crate::datatype::{Builtin, Datatype, Family};
use crate::handle::{self, Handle, Named};
use crate::inside::Inside;

mod dispatch;
mod fold;
pub mod logical;
mod pair;
mod quad;
mod scalar;
#[cfg(test)]
mod tests;
mod x87;

/// `MPI_User_function`: input, input and output, length, datatype handle.
pub type UserFn = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut usize);
/// `MPI_User_function_c`.
pub type UserFnCount = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut usize);

/// The predefined operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum Predefined {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    Replace = 0x3c,
    NoOp = 0x3d,
}

use Predefined as P;

const ALL: [Predefined; 14] = [
    P::Sum,
    P::Min,
    P::Max,
    P::Prod,
    P::Band,
    P::Bor,
    P::Bxor,
    P::Land,
    P::Lor,
    P::Lxor,
    P::Minloc,
    P::Maxloc,
    P::Replace,
    P::NoOp,
];

#[derive(Clone, Copy)]
enum Kind {
    Predefined(Predefined),
    User(UserFn),
    UserCount(UserFnCount),
}

/// `MPI_OP_NULL`; the predefined operations follow it.
pub const OP_NULL: usize = 0x20;

const HANDLES: usize = 0x20;

/// A reduction operation.
pub struct Op {
    handle: Cell<Handle>,
    kind: Kind,
    commutative: bool,
}

/// Live user-defined operations.
pub static OPS: Inside<handle::Table<Rc<Op>>> = Inside::new(handle::Table::new(handle::Kind::Op));

type Table = [Option<Rc<Op>>; HANDLES];

fn make_table() -> Table {
    let mut table = [const { None }; HANDLES];
    for which in ALL {
        let commutative = !matches!(which, P::Replace | P::NoOp);
        table[which as usize - OP_NULL] =
            Some(Rc::new(Op { handle: Cell::default(), kind: Kind::Predefined(which), commutative }));
    }
    table
}

#[cfg(not(test))]
fn table() -> &'static Table {
    struct Shared(Table);
    // SAFETY: every caller in the library holds the critical section, so only one thread at a time touches the
    // reference counts.
    unsafe impl Sync for Shared {}
    // SAFETY: as above; nothing in the table belongs to a particular thread.
    unsafe impl Send for Shared {}
    static TABLE: std::sync::LazyLock<Shared> = std::sync::LazyLock::new(|| Shared(make_table()));
    &TABLE.0
}

/// Unit tests run on many threads without a critical section: one table each.
#[cfg(test)]
fn table() -> &'static Table {
    thread_local! {
        static TABLE: &'static Table = Box::leak(Box::new(make_table()));
    }
    TABLE.with(|table| *table)
}

/// The predefined operation with this ABI handle value; none for `MPI_OP_NULL` and any other number.
#[inline]
pub fn predefined(handle_value: usize) -> Option<&'static Rc<Op>> {
    table().get(handle_value.wrapping_sub(OP_NULL))?.as_ref()
}

impl Named for Op {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Op {
    /// `MPI_Op_create`.
    pub fn user(function: UserFn, commutative: bool) -> Rc<Op> {
        Rc::new(Op { handle: Cell::default(), kind: Kind::User(function), commutative })
    }

    /// `MPI_Op_create_c`.
    pub fn user_c(function: UserFnCount, commutative: bool) -> Rc<Op> {
        Rc::new(Op { handle: Cell::default(), kind: Kind::UserCount(function), commutative })
    }

    /// Whether operands may be exchanged.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// Whether the user may not free it.
    #[inline]
    pub fn is_predefined(&self) -> bool {
        matches!(self.kind, Kind::Predefined(_))
    }

    /// Which predefined operation this is.
    pub fn which(&self) -> Option<Predefined> {
        match self.kind {
            Kind::Predefined(which) => Some(which),
            _ => None,
        }
    }

    /// Whether it is for one-sided communication only (`MPI_REPLACE`, `MPI_NO_OP`): an error in a collective.
    pub fn is_one_sided_only(&self) -> bool {
        matches!(self.kind, Kind::Predefined(P::Replace | P::NoOp))
    }

    /// `ERR_OP` unless the operation is defined on the type: the table in 6.9.2 for predefined ones, anything for user's.
    pub fn check(&self, dt: &Datatype) -> Result {
        let Kind::Predefined(which) = self.kind else { return Ok(()) };
        let family = dt.builtin().map(|builtin| builtin.family);
        ensure!(
            family.is_some_and(|family| defined(which, family)),
            ERR_OP,
            "operation is not defined on this datatype"
        );
        Ok(())
    }

    /// `inout[i] = input[i] op inout[i]` for `count` items of `dt`, whose handle user functions get to see.
    ///
    /// # Safety
    /// Both buffers must hold `count` items and not overlap, and [`Op::check`] must have succeeded on `dt`.
    pub unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize, dt: &Datatype, dt_handle: usize) {
        match self.kind {
            Kind::Predefined(P::NoOp) => {}
            Kind::Predefined(P::Replace) => {
                // SAFETY: the caller vouches for both buffers.
                unsafe { crate::datatype::copy(input, count, dt, inout, count, dt) };
            }
            Kind::Predefined(which) => {
                let Some(builtin) = dt.builtin() else { return };
                // SAFETY: the caller vouches for the buffers and has checked the type.
                unsafe { dispatch::apply(which, builtin, input, inout, count) };
            }
            // SAFETY: the caller vouches for the buffers, whose items are `extent` apart.
            Kind::User(function) => unsafe { call_in_chunks(function, input, inout, count, dt, dt_handle) },
            Kind::UserCount(function) => {
                let (mut len, mut handle) = (count as i64, dt_handle);
                // SAFETY: the user's function gets what MPI-5.0, 6.9.5 promises it.
                unsafe { function(input.cast_mut().cast(), inout.cast(), &mut len, &mut handle) };
            }
        }
    }
}

/// Whether a predefined operation is defined on a predefined type.
pub fn is_defined(which: Predefined, builtin: Builtin) -> bool {
    defined(which, builtin.family)
}

/// As [`Op::apply`] for a predefined operation other than `MPI_REPLACE` and `MPI_NO_OP`, without an object.
///
/// # Safety
/// Both buffers hold `count` elements of `builtin` and don't overlap, and [`is_defined`] has agreed.
pub unsafe fn apply_predefined(which: Predefined, builtin: Builtin, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: handed on from the caller.
    unsafe { dispatch::apply(which, builtin, input, inout, count) }
}

/// Calls a function that counts in `int`, at most `INT_MAX` items at a time.
unsafe fn call_in_chunks(
    function: UserFn,
    input: *const u8,
    inout: *mut u8,
    count: usize,
    dt: &Datatype,
    dt_handle: usize,
) {
    let mut done = 0;
    loop {
        let step = (count - done).min(c_int::MAX as usize);
        let offset = (done as isize).wrapping_mul(dt.extent());
        let (mut len, mut handle) = (step as c_int, dt_handle);
        // SAFETY: items `done .. done + step` of both buffers; the user's function gets what MPI-5.0, 6.9.5 promises it.
        unsafe {
            let (a, b) = (input.wrapping_offset(offset), inout.wrapping_offset(offset));
            function(a.cast_mut().cast(), b.cast(), &mut len, &mut handle);
        }
        done += step;
        if done >= count {
            break;
        }
    }
}

/// The table in MPI-5.0, 6.9.2, and logical operations on multi-language integers, as others allow; `MPI_REPLACE` and `MPI_NO_OP` take every predefined type (12.3.4).
fn defined(which: Predefined, family: Family) -> bool {
    use Family::{Byte, CInteger, Complex, Float, FortranInteger, FortranLogical, Logical, MultiLanguage, Pair};
    match which {
        P::Max | P::Min => matches!(family, CInteger | FortranInteger | Float | MultiLanguage),
        P::Sum | P::Prod => matches!(family, CInteger | FortranInteger | Float | Complex | MultiLanguage),
        P::Land | P::Lor | P::Lxor => matches!(family, CInteger | Logical | FortranLogical | MultiLanguage),
        P::Band | P::Bor | P::Bxor => matches!(family, CInteger | FortranInteger | Byte | MultiLanguage),
        P::Maxloc | P::Minloc => family == Pair,
        P::Replace | P::NoOp => true,
    }
}
