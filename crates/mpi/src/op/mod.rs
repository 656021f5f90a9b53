//! Reduction operations (MPI-5.0, 6.9).
//!
//! Not thread-safe: all users hold the library's critical section. A user function is called from [`Op::apply`]; the
//! caller must not hold a `RefCell` borrow that a nested MPI call could need.

use crate::cs::Section;
use std::cell::Cell;
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

/// What the program does to combine operands.
pub trait Function {
    /// `inout[i] = input[i] op inout[i]` for `count` items.
    ///
    /// # Safety
    /// Both buffers hold `count` items of the datatype and don't overlap.
    unsafe fn combine(&self, cs: &mut Section, input: *const u8, inout: *mut u8, count: usize, datatype: &Rc<Datatype>);
}

/// The predefined operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Predefined {
    Sum,
    Min,
    Max,
    Prod,
    Band,
    Bor,
    Bxor,
    Land,
    Lor,
    Lxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

use Predefined as P;

/// All of them, in their order.
pub const ALL: [Predefined; 14] = [
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

enum Kind {
    Predefined(Predefined),
    User(Box<dyn Function>),
}

/// A reduction operation.
pub struct Op {
    handle: Cell<Handle>,
    kind: Kind,
    commutative: bool,
}

/// Live user-defined operations.
pub static OPS: Inside<handle::Table<Rc<Op>>> = Inside::new(handle::Table::new(handle::Kind::Op));

type Table = [Rc<Op>; ALL.len()];

fn make_table() -> Table {
    ALL.map(|which| {
        let commutative = !matches!(which, P::Replace | P::NoOp);
        Rc::new(Op { handle: Cell::default(), kind: Kind::Predefined(which), commutative })
    })
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

/// The object of a predefined operation.
#[inline]
pub fn predefined(which: Predefined) -> &'static Rc<Op> {
    &table()[which as usize]
}

impl Named for Op {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

impl Op {
    /// `MPI_Op_create`.
    pub fn user(function: Box<dyn Function>, commutative: bool) -> Rc<Op> {
        Rc::new(Op { handle: Cell::default(), kind: Kind::User(function), commutative })
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
            Kind::User(_) => None,
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

    /// `inout[i] = input[i] op inout[i]` for `count` items of `dt`.
    ///
    /// # Safety
    /// Both buffers must hold `count` items and not overlap, and [`Op::check`] must have succeeded on `dt`.
    pub unsafe fn apply(&self, cs: &mut Section, input: *const u8, inout: *mut u8, count: usize, dt: &Rc<Datatype>) {
        match &self.kind {
            Kind::Predefined(P::NoOp) => {}
            Kind::Predefined(P::Replace) => {
                // SAFETY: the caller vouches for both buffers.
                unsafe { crate::datatype::copy(input, count, dt, inout, count, dt) };
            }
            Kind::Predefined(which) => {
                let Some(builtin) = dt.builtin() else { return };
                // SAFETY: the caller vouches for the buffers and has checked the type.
                unsafe { dispatch::apply(*which, builtin, input, inout, count) };
            }
            // SAFETY: the caller vouches for the buffers.
            Kind::User(function) => unsafe { function.combine(cs, input, inout, count, dt) },
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
