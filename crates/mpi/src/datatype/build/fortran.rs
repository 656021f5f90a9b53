//! Types by Fortran precision and by size: `MPI_Type_create_f90_*`, `MPI_Type_match_size` (MPI-5.0, 19.1.9).
//!
//! Precisions and ranges are those of gfortran's kinds on x86-64.

use std::rc::Rc;

use base::{Result, ensure, fail};

use crate::datatype::Datatype;
use crate::datatype::builtin::Builtin;
use crate::datatype::contents::{Form, Recipe, combiner};
use crate::datatype::predefined::{parametrised, predefined};

const UNDEFINED: i32 = -32766;

/// Real kinds: decimal precision, decimal exponent range, type handles of the real and of the complex.
const REAL_KINDS: [(i32, i32, usize, usize); 4] = [
    (6, 37, 0x21a, 0x21b),    // MPI_REAL, MPI_COMPLEX
    (15, 307, 0x21c, 0x21d),  // MPI_DOUBLE_PRECISION, MPI_DOUBLE_COMPLEX
    (18, 4931, 0x220, 0x224), // kind 10 is the C long double
    (33, 4931, 0x2e2, 0x2eb), // MPI_REAL16, MPI_COMPLEX32
];

/// Integer kinds: decimal range, type handle.
const INTEGER_KINDS: [(i32, usize); 5] = [(2, 0x2c1), (4, 0x2c9), (9, 0x219), (18, 0x2d9), (38, 0x2e1)];

fn builtin(handle: usize) -> Builtin {
    Builtin::from_handle(handle).expect("handle of a predefined type")
}

fn real_kind(p: i32, r: i32) -> Result<(usize, usize)> {
    ensure!(p != UNDEFINED || r != UNDEFINED, ERR_ARG, "neither precision nor range is given");
    ensure!(p == UNDEFINED || p >= 0, ERR_ARG, "negative precision");
    ensure!(r == UNDEFINED || r >= 0, ERR_ARG, "negative range");
    match REAL_KINDS.iter().find(|kind| p <= kind.0 && r <= kind.1) {
        Some(kind) => Ok((kind.2, kind.3)),
        None => fail!(ERR_ARG, "no real kind has this precision and range"),
    }
}

/// The real type of `selected_real_kind(p, r)`; either may be `MPI_UNDEFINED`.
pub fn create_f90_real(p: i32, r: i32) -> Result<Rc<Datatype>> {
    let (real, _) = real_kind(p, r)?;
    Ok(parametrised(builtin(real), Recipe::new(combiner::F90_REAL, Form::Int).ints([p, r])))
}

/// The complex type of `selected_real_kind(p, r)`.
pub fn create_f90_complex(p: i32, r: i32) -> Result<Rc<Datatype>> {
    let (_, complex) = real_kind(p, r)?;
    Ok(parametrised(builtin(complex), Recipe::new(combiner::F90_COMPLEX, Form::Int).ints([p, r])))
}

/// The integer type of `selected_int_kind(r)`.
pub fn create_f90_integer(r: i32) -> Result<Rc<Datatype>> {
    let Some(kind) = INTEGER_KINDS.iter().find(|kind| r >= 0 && r <= kind.0) else {
        fail!(ERR_ARG, "no integer kind has this range")
    };
    Ok(parametrised(builtin(kind.1), Recipe::new(combiner::F90_INTEGER, Form::Int).ints([r])))
}

/// `MPI_TYPECLASS_INTEGER`.
pub const TYPECLASS_INTEGER: i32 = 192;
/// `MPI_TYPECLASS_REAL`.
pub const TYPECLASS_REAL: i32 = 193;
/// `MPI_TYPECLASS_COMPLEX`.
pub const TYPECLASS_COMPLEX: i32 = 194;

/// The named type of this class with `size` bytes.
pub fn match_size(typeclass: i32, size: i64) -> Result<&'static Rc<Datatype>> {
    let handle = match (typeclass, size) {
        (TYPECLASS_INTEGER, 1) => 0x2c1,
        (TYPECLASS_INTEGER, 2) => 0x2c9,
        (TYPECLASS_INTEGER, 4) => 0x2d1,
        (TYPECLASS_INTEGER, 8) => 0x2d9,
        (TYPECLASS_INTEGER, 16) => 0x2e1,
        (TYPECLASS_REAL, 2) => 0x2ca,
        (TYPECLASS_REAL, 4) => 0x2d2,
        (TYPECLASS_REAL, 8) => 0x2da,
        (TYPECLASS_REAL, 16) => 0x2e2,
        (TYPECLASS_COMPLEX, 4) => 0x2d3,
        (TYPECLASS_COMPLEX, 8) => 0x2db,
        (TYPECLASS_COMPLEX, 16) => 0x2e3,
        (TYPECLASS_COMPLEX, 32) => 0x2eb,
        (TYPECLASS_INTEGER | TYPECLASS_REAL | TYPECLASS_COMPLEX, _) => fail!(ERR_ARG, "no type of this size"),
        _ => fail!(ERR_ARG, "unknown type class"),
    };
    Ok(predefined(handle).expect("handle of a predefined type"))
}
