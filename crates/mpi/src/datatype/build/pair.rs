//! `MPI_Type_get_value_index` (MPI-5.0, 6.9.4): the pair type for `MPI_MAXLOC` and `MPI_MINLOC`.

use std::rc::Rc;

use crate::datatype::Datatype;
use crate::datatype::builtin::{Builtin, Family};
use crate::datatype::predefined::{pair, predefined};

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

/// The pair of `value` and `index`, laid out as a C struct; none where `MPI_DATATYPE_NULL` is the answer.
///
/// Defined for every ordered value type with every integer index. Always predefined: never freed, the same object again.
pub fn value_index(value: &Rc<Datatype>, index: &Rc<Datatype>) -> Option<Rc<Datatype>> {
    let (value_of, index_of) = (value.builtin()?, index.builtin()?);
    let names = (value.named_handle(), index.named_handle());
    let named = NAMED_PAIRS.iter().find(|pair| names == (Some(pair.0), Some(pair.1)));
    if let Some(&(_, _, handle)) = named {
        return predefined(handle).cloned();
    }
    let is_value = is_integer(value_of) || value_of.family == Family::Float;
    (is_value && is_integer(index_of)).then(|| pair(value, index, value_of, index_of))
}

fn is_integer(builtin: Builtin) -> bool {
    matches!(builtin.family, Family::CInteger | Family::FortranInteger | Family::MultiLanguage)
}
