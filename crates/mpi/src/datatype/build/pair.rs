//! `MPI_Type_get_value_index` (MPI-5.0, 6.9.4): the pair type for `MPI_MAXLOC` and `MPI_MINLOC`.
//!
//! Only the named pairs are supported, as in MPICH and Open MPI; mpi4py 4.1 takes an unnamed one for an error.

use std::rc::Rc;

use crate::datatype::Datatype;
use crate::datatype::predefined::predefined;

/// Named pairs: handles of value, index, pair.
const NAMED_PAIRS: [(usize, usize, usize); 9] = [
    (0x210, 0x209, 0x228), // MPI_FLOAT_INT
    (0x214, 0x209, 0x229), // MPI_DOUBLE_INT
    (0x20a, 0x209, 0x22a), // MPI_LONG_INT
    (0x209, 0x209, 0x22b), // MPI_2INT
    (0x208, 0x209, 0x22c), // MPI_SHORT_INT
    (0x220, 0x209, 0x22d), // MPI_LONG_DOUBLE_INT
    (0x21a, 0x21a, 0x230), // MPI_2REAL
    (0x21c, 0x21c, 0x231), // MPI_2DOUBLE_PRECISION
    (0x219, 0x219, 0x232), // MPI_2INTEGER
];

/// The named pair of `value` and `index`; none where `MPI_DATATYPE_NULL` is the answer.
pub fn value_index(value: &Datatype, index: &Datatype) -> Option<&'static Rc<Datatype>> {
    let types = (value.named_handle()?, index.named_handle()?);
    let &(_, _, pair) = NAMED_PAIRS.iter().find(|pair| types == (pair.0, pair.1))?;
    predefined(pair)
}
