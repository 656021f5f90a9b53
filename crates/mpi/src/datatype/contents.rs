//! How a datatype was made: combiner and constructor arguments (MPI-5.0, 5.1.13).

use std::rc::Rc;

use super::Datatype;

/// Combiner values of the MPI 5.0 ABI.
#[allow(missing_docs)]
pub mod combiner {
    pub const NAMED: i32 = 101;
    pub const DUP: i32 = 102;
    pub const CONTIGUOUS: i32 = 103;
    pub const VECTOR: i32 = 104;
    pub const HVECTOR: i32 = 105;
    pub const INDEXED: i32 = 106;
    pub const HINDEXED: i32 = 107;
    pub const INDEXED_BLOCK: i32 = 108;
    pub const HINDEXED_BLOCK: i32 = 109;
    pub const STRUCT: i32 = 110;
    pub const SUBARRAY: i32 = 111;
    pub const DARRAY: i32 = 112;
    pub const F90_REAL: i32 = 113;
    pub const F90_COMPLEX: i32 = 114;
    pub const F90_INTEGER: i32 = 115;
    pub const RESIZED: i32 = 116;
    pub const VALUE_INDEX: i32 = 117;
}

/// Which binding made the type: the `int` one, or the large-count one (name ends in `_c`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Counts were `int`, displacements `MPI_Aint`: contents are integers and addresses.
    Int,
    /// Counts and displacements were `MPI_Count`: contents are large counts.
    Count,
}

/// Lengths of the arrays in [`Contents`], and the combiner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// One of [`combiner`].
    pub combiner: i32,
    /// Number of `int` arguments.
    pub integers: usize,
    /// Number of `MPI_Aint` arguments.
    pub addresses: usize,
    /// Number of `MPI_Count` arguments; not 0 means that `MPI_Type_get_envelope` without `_c` is an error (`ERR_TYPE`).
    pub large_counts: usize,
    /// Number of datatype arguments.
    pub datatypes: usize,
}

/// The constructor's arguments in the order of the standard's table.
#[derive(Clone, Default)]
pub struct Contents {
    /// `int` arguments.
    pub integers: Vec<i32>,
    /// `MPI_Aint` arguments.
    pub addresses: Vec<isize>,
    /// `MPI_Count` arguments.
    pub large_counts: Vec<i64>,
    /// Datatype arguments; the caller turns each into a handle ([`Datatype::named_handle`] or a new reference).
    pub datatypes: Vec<Rc<Datatype>>,
}

/// Combiner with arguments, under construction.
pub(super) struct Recipe {
    pub combiner: i32,
    pub form: Form,
    pub contents: Contents,
}

impl Recipe {
    pub fn new(combiner: i32, form: Form) -> Recipe {
        Recipe { combiner, form, contents: Contents::default() }
    }

    /// Adds arguments that are `int` in both forms.
    pub fn ints(mut self, values: impl IntoIterator<Item = i32>) -> Recipe {
        self.contents.integers.extend(values);
        self
    }

    /// Adds counts: `int`, or `MPI_Count` in the large form.
    pub fn counts(mut self, values: &[i64]) -> Recipe {
        match self.form {
            // The int binding passed them as int, so they fit.
            Form::Int => self.contents.integers.extend(values.iter().map(|&v| v as i32)),
            Form::Count => self.contents.large_counts.extend(values),
        }
        self
    }

    /// Adds byte displacements: `MPI_Aint`, or `MPI_Count` in the large form.
    pub fn addresses(mut self, values: &[i64]) -> Recipe {
        match self.form {
            Form::Int => self.contents.addresses.extend(values.iter().map(|&v| v as isize)),
            Form::Count => self.contents.large_counts.extend(values),
        }
        self
    }

    pub fn types<'a>(mut self, values: impl IntoIterator<Item = &'a Rc<Datatype>>) -> Recipe {
        self.contents.datatypes.extend(values.into_iter().cloned());
        self
    }

    pub fn envelope(&self) -> Envelope {
        Envelope {
            combiner: self.combiner,
            integers: self.contents.integers.len(),
            addresses: self.contents.addresses.len(),
            large_counts: self.contents.large_counts.len(),
            datatypes: self.contents.datatypes.len(),
        }
    }
}
