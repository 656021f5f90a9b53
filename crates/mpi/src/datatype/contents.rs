//! How a datatype was made: combiner and constructor arguments (MPI-5.0, 5.1.13).

use std::rc::Rc;

use super::Datatype;

/// Which constructor made a datatype (`MPI_COMBINER_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    F90Real,
    F90Complex,
    F90Integer,
    Resized,
    ValueIndex,
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
    /// Which constructor.
    pub combiner: Combiner,
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
    /// Datatype arguments; the caller turns each into a handle ([`Datatype::named`] or a new reference).
    pub datatypes: Vec<Rc<Datatype>>,
}

/// Combiner with arguments, under construction.
pub(super) struct Recipe {
    pub combiner: Combiner,
    pub form: Form,
    pub contents: Contents,
}

impl Recipe {
    pub fn new(combiner: Combiner, form: Form) -> Recipe {
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
