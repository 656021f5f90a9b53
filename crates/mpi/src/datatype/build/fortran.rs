//! Types by Fortran precision and by size: `MPI_Type_create_f90_*`, `MPI_Type_match_size` (MPI-5.0, 19.1.9).
//!
//! Precisions and ranges are those of gfortran's kinds on x86-64.

use std::rc::Rc;

use base::{Result, ensure, fail};

use crate::datatype::builtin::Builtin;
use crate::datatype::contents::{Combiner, Form, Recipe};
use crate::datatype::predefined::{parametrised, predefined};
use crate::datatype::{Datatype, Name};
use crate::status::UNDEFINED;

/// Real kinds: decimal precision, decimal exponent range, the real and the complex.
const REAL_KINDS: [(i32, i32, Name, Name); 4] = [
    (6, 37, Name::MPI_REAL, Name::MPI_COMPLEX),
    (15, 307, Name::MPI_DOUBLE_PRECISION, Name::MPI_DOUBLE_COMPLEX),
    (18, 4931, Name::MPI_LONG_DOUBLE, Name::MPI_C_LONG_DOUBLE_COMPLEX), // kind 10 is the C long double
    (33, 4931, Name::MPI_REAL16, Name::MPI_COMPLEX32),
];

/// Integer kinds: decimal range, type.
const INTEGER_KINDS: [(i32, Name); 5] = [
    (2, Name::MPI_INTEGER1),
    (4, Name::MPI_INTEGER2),
    (9, Name::MPI_INTEGER),
    (18, Name::MPI_INTEGER8),
    (38, Name::MPI_INTEGER16),
];

fn real_kind(p: i32, r: i32) -> Result<(Name, Name)> {
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
    Ok(parametrised(Builtin::named(real), Recipe::new(Combiner::F90Real, Form::Int).ints([p, r])))
}

/// The complex type of `selected_real_kind(p, r)`.
pub fn create_f90_complex(p: i32, r: i32) -> Result<Rc<Datatype>> {
    let (_, complex) = real_kind(p, r)?;
    Ok(parametrised(Builtin::named(complex), Recipe::new(Combiner::F90Complex, Form::Int).ints([p, r])))
}

/// The integer type of `selected_int_kind(r)`.
pub fn create_f90_integer(r: i32) -> Result<Rc<Datatype>> {
    let Some(kind) = INTEGER_KINDS.iter().find(|kind| r >= 0 && r <= kind.0) else {
        fail!(ERR_ARG, "no integer kind has this range")
    };
    Ok(parametrised(Builtin::named(kind.1), Recipe::new(Combiner::F90Integer, Form::Int).ints([r])))
}

/// Classes of Fortran types (`MPI_TYPECLASS_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TypeClass {
    Integer,
    Real,
    Complex,
}

/// The named type of this class with `size` bytes.
pub fn match_size(class: TypeClass, size: i64) -> Result<&'static Rc<Datatype>> {
    let name = match (class, size) {
        (TypeClass::Integer, 1) => Name::MPI_INTEGER1,
        (TypeClass::Integer, 2) => Name::MPI_INTEGER2,
        (TypeClass::Integer, 4) => Name::MPI_INTEGER4,
        (TypeClass::Integer, 8) => Name::MPI_INTEGER8,
        (TypeClass::Integer, 16) => Name::MPI_INTEGER16,
        (TypeClass::Real, 2) => Name::MPI_REAL2,
        (TypeClass::Real, 4) => Name::MPI_REAL4,
        (TypeClass::Real, 8) => Name::MPI_REAL8,
        (TypeClass::Real, 16) => Name::MPI_REAL16,
        (TypeClass::Complex, 4) => Name::MPI_COMPLEX4,
        (TypeClass::Complex, 8) => Name::MPI_COMPLEX8,
        (TypeClass::Complex, 16) => Name::MPI_COMPLEX16,
        (TypeClass::Complex, 32) => Name::MPI_COMPLEX32,
        _ => fail!(ERR_ARG, "no type of this size"),
    };
    Ok(predefined(name))
}
