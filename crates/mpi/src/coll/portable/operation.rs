//! The operation of a reduction by numbers, for a process that doesn't have its owner's objects.

use crate::coll::objects::Reduction;
use crate::datatype::{Builtin, Family, Repr};
use crate::op::{self, Predefined};

/// What the reduce steps do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// There are none.
    None,
    /// A predefined operation on a predefined type.
    Predefined(Predefined, Builtin),
    /// A function or values of the program: only its owner has them.
    OnlyInOwner,
}

const OPS: [Predefined; 12] = [
    Predefined::Sum,
    Predefined::Min,
    Predefined::Max,
    Predefined::Prod,
    Predefined::Band,
    Predefined::Bor,
    Predefined::Bxor,
    Predefined::Land,
    Predefined::Lor,
    Predefined::Lxor,
    Predefined::Minloc,
    Predefined::Maxloc,
];

const FAMILIES: [Family; 8] = [
    Family::CInteger,
    Family::FortranInteger,
    Family::Float,
    Family::Logical,
    Family::Complex,
    Family::Byte,
    Family::MultiLanguage,
    Family::Pair,
];

const REPRS: [Repr; 15] = [
    Repr::I8,
    Repr::I16,
    Repr::I32,
    Repr::I64,
    Repr::I128,
    Repr::U8,
    Repr::U16,
    Repr::U32,
    Repr::U64,
    Repr::U128,
    Repr::F16,
    Repr::F32,
    Repr::F64,
    Repr::F80,
    Repr::F128,
];

/// Stands for no operation, for the owner's, and for no index of a pair.
const NONE: u8 = 0;
const ONLY_IN_OWNER: u8 = u8::MAX;

/// Places count from one.
fn place<T: PartialEq>(list: &[T], item: &T) -> u8 {
    list.iter().position(|other| other == item).map_or(NONE, |at| at as u8 + 1)
}

fn at<T: Copy>(list: &[T], place: u8) -> Option<T> {
    list.get(usize::from(place.checked_sub(1)?)).copied()
}

/// Whether an operation does the same in every process. It doesn't on Fortran logicals, whose bits the program may tell its own.
fn is_known(which: Predefined, builtin: Builtin) -> bool {
    place(&OPS, &which) != NONE && place(&FAMILIES, &builtin.family) != NONE
}

impl Operation {
    /// That of a reduction.
    pub fn of(reduction: &Reduction) -> Operation {
        // Types that are alike, such as MPI_LONG and MPI_INT64_T, become one: the numbers don't tell them apart.
        let builtin = reduction.datatype.builtin().and_then(|b| Builtin::alike(b.family, b.repr, b.index));
        match (reduction.op.which(), builtin) {
            (Some(which), Some(builtin)) if is_known(which, builtin) => Operation::Predefined(which, builtin),
            _ => Operation::OnlyInOwner,
        }
    }

    /// Operation, family, representation, and that of a pair's index.
    pub fn numbers(self) -> [u8; 4] {
        match self {
            Operation::None => [NONE; 4],
            Operation::OnlyInOwner => [ONLY_IN_OWNER, NONE, NONE, NONE],
            Operation::Predefined(which, builtin) => [
                place(&OPS, &which),
                place(&FAMILIES, &builtin.family),
                place(&REPRS, &builtin.repr),
                builtin.index.map_or(NONE, |index| place(&REPRS, &index)),
            ],
        }
    }

    /// The operation that these numbers name, if there is one.
    pub fn from_numbers(numbers: [u8; 4]) -> Option<Operation> {
        match numbers {
            [NONE, NONE, NONE, NONE] => Some(Operation::None),
            [ONLY_IN_OWNER, NONE, NONE, NONE] => Some(Operation::OnlyInOwner),
            [which, family, repr, index] => {
                let (which, family, repr) = (at(&OPS, which)?, at(&FAMILIES, family)?, at(&REPRS, repr)?);
                let index = if index == NONE { None } else { Some(at(&REPRS, index)?) };
                let builtin = Builtin::alike(family, repr, index)?;
                op::is_defined(which, builtin).then_some(Operation::Predefined(which, builtin))
            }
        }
    }
}
