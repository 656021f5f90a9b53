//! Fortran types by precision, range and size (MPI-5.0, 19.1.9).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Complex type of a Fortran precision and range
    MPI_Type_create_f90_complex => (p: Int, r: Int, newtype: OutType) on none later

    /// Integer type of a Fortran range
    MPI_Type_create_f90_integer => (r: Int, newtype: OutType) on none later

    /// Real type of a Fortran precision and range
    MPI_Type_create_f90_real => (p: Int, r: Int, newtype: OutType) on none later

    /// Basic type of a class and size
    MPI_Type_match_size => (typeclass: Int, size: Int, datatype: OutType) on none later
}
