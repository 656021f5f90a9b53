//! Constructors of derived datatypes, one family a file (MPI-5.0, 5.1).
//!
//! Counts come as `i64` whichever binding was called; [`Form`](super::Form) says which, for envelope and contents.

mod array;
mod darray;
mod fortran;
mod indexed;
mod pair;
mod simple;
mod structure;
mod vector;

pub use array::subarray;
pub use darray::{DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE, DarrayArgs, darray};
pub use fortran::{TypeClass, create_f90_complex, create_f90_integer, create_f90_real, match_size};
pub use indexed::{hindexed, hindexed_block, indexed, indexed_block};
pub use pair::value_index;
pub use simple::{contiguous, dup, resized};
pub use structure::structure;
pub use vector::{hvector, vector};

/// `MPI_ORDER_C`: the last dimension is contiguous.
pub const ORDER_C: i32 = 0;
/// `MPI_ORDER_FORTRAN`: the first dimension is contiguous.
pub const ORDER_FORTRAN: i32 = 1;

/// Dimensions from the contiguous one outwards; none for an unknown order.
fn dimensions(order: i32, ndims: usize) -> Option<Vec<usize>> {
    match order {
        ORDER_C => Some((0..ndims).rev().collect()),
        ORDER_FORTRAN => Some((0..ndims).collect()),
        _ => None,
    }
}
