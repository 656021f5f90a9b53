//! `MPI_Type_get_value_index` (MPI-5.0, 6.9.4): the pair type for `MPI_MAXLOC` and `MPI_MINLOC`.
//!
//! Only the named pairs are supported, as in MPICH and Open MPI; mpi4py 4.1 takes an unnamed one for an error.

use std::rc::Rc;

use crate::datatype::predefined::predefined;
use crate::datatype::{Datatype, Name};

/// Named pairs: value, index, pair.
const NAMED_PAIRS: [(Name, Name, Name); 9] = [
    (Name::MPI_FLOAT, Name::MPI_INT, Name::MPI_FLOAT_INT),
    (Name::MPI_DOUBLE, Name::MPI_INT, Name::MPI_DOUBLE_INT),
    (Name::MPI_LONG, Name::MPI_INT, Name::MPI_LONG_INT),
    (Name::MPI_INT, Name::MPI_INT, Name::MPI_2INT),
    (Name::MPI_SHORT, Name::MPI_INT, Name::MPI_SHORT_INT),
    (Name::MPI_LONG_DOUBLE, Name::MPI_INT, Name::MPI_LONG_DOUBLE_INT),
    (Name::MPI_REAL, Name::MPI_REAL, Name::MPI_2REAL),
    (Name::MPI_DOUBLE_PRECISION, Name::MPI_DOUBLE_PRECISION, Name::MPI_2DOUBLE_PRECISION),
    (Name::MPI_INTEGER, Name::MPI_INTEGER, Name::MPI_2INTEGER),
];

/// The named pair of `value` and `index`; none where `MPI_DATATYPE_NULL` is the answer.
pub fn value_index(value: &Datatype, index: &Datatype) -> Option<&'static Rc<Datatype>> {
    let types = (value.named()?, index.named()?);
    let &(_, _, pair) = NAMED_PAIRS.iter().find(|pair| types == (pair.0, pair.1))?;
    Some(predefined(pair))
}
