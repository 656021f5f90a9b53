//! Arrays of numbers that go in. Their length comes from another argument, so a body sees a view without length.

use super::{Kind, Width};
use crate::ctypes::{CInfo, CType};
use crate::raise::Scope;
use base::Result;
use core::ffi::{c_char, c_int};
use mpi::cs::Section;

/// An array of `int` or of 64-bit numbers, read as 64-bit numbers either way.
#[derive(Clone, Copy)]
pub enum Ints {
    /// `int` elements.
    Narrow(*const c_int),
    /// `MPI_Count` or `MPI_Aint` elements.
    Wide(*const i64),
}

impl Ints {
    /// Element `i`.
    ///
    /// # Safety
    /// The array has more than `i` elements.
    #[inline]
    pub unsafe fn at(self, i: usize) -> i64 {
        // SAFETY: the caller says that the element exists.
        unsafe {
            match self {
                Ints::Narrow(p) => i64::from(*p.add(i)),
                Ints::Wide(p) => *p.add(i),
            }
        }
    }

    /// The first `n` elements.
    ///
    /// # Safety
    /// The array has at least `n` elements.
    pub unsafe fn to_vec(self, n: usize) -> Vec<i64> {
        // SAFETY: the caller says that these elements exist.
        unsafe {
            match self {
                Ints::Narrow(p) => slice(p, n).iter().map(|&v| i64::from(v)).collect(),
                Ints::Wide(p) => slice(p, n).to_vec(),
            }
        }
    }

    /// Whether the program passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Ints::Narrow(p) => p.is_null(),
            Ints::Wide(p) => p.is_null(),
        }
    }
}

/// The first `n` elements at `p`, which may be null if there are none.
///
/// # Safety
/// `n` elements are readable at `p` as long as the result is used.
#[inline]
pub unsafe fn slice<'a, T>(p: *const T, n: usize) -> &'a [T] {
    if n == 0 || p.is_null() {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { core::slice::from_raw_parts(p, n) }
}

/// The first `n` elements at `p` for writing; none if `p` is null.
///
/// # Safety
/// `n` elements are writable at `p`, and nobody else's, as long as the result is used.
#[inline]
pub unsafe fn slice_mut<'a, T>(p: *mut T, n: usize) -> &'a mut [T] {
    if n == 0 || p.is_null() {
        return &mut [];
    }
    // SAFETY: the caller says so.
    unsafe { core::slice::from_raw_parts_mut(p, n) }
}

/// Kinds whose elements are `int` in the function and 64 bits wide in its twin.
macro_rules! widening {
    ($($(#[doc = $doc:literal])+ $kind:ident, $small:literal / $large:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = *const W::Int;
                type R = Ints;
                const TEXT: &'static str = if W::LARGE { $large } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, p: *const W::Int, _: &Scope) -> Result<Ints> {
                    Ok(if W::LARGE { Ints::Wide(p.cast()) } else { Ints::Narrow(p.cast()) })
                }
            }
        )*
    };
}

widening! {
    /// Counts.
    CountArray, "const int @[]" / "const MPI_Count @[]";
    /// Displacements in elements.
    DisplArray, "const int @[]" / "const MPI_Aint @[]";
}

/// Kinds that hand the pointer on.
macro_rules! pointers {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty, $small:literal $(/ $large:literal)?;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $c;
                const TEXT: &'static str = if W::LARGE { pointers!(@large $small $($large)?) } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, p: $c, _: &Scope) -> Result<$c> {
                    Ok(p)
                }
            }
        )*
    };
    (@large $small:literal) => { $small };
    (@large $small:literal $large:literal) => { $large };
}

pointers! {
    /// `int` elements in both twins.
    IntArray, *const c_int, "const int @[]";
    /// As [`IntArray`], written as a pointer in the standard: weights.
    Weights, *const c_int, "const int *@";
    /// `MPI_Aint` elements in both twins.
    AintArray, *const i64, "const MPI_Aint @[]";
    /// Displacements in bytes.
    ByteDisplArray, *const i64, "const MPI_Aint @[]" / "const MPI_Count @[]";
    /// Triples first, last, stride of ranks.
    RangeArray, *mut [c_int; 3], "int @[][3]";
    /// Datatypes.
    TypeArray, *const CType, "const MPI_Datatype @[]";
    /// Info objects.
    InfoArray, *const CInfo, "const MPI_Info @[]";
    /// A C string that only the root must pass.
    RootText, *const c_char, "const char *@";
    /// An info object that only the root must pass.
    RootInfo, CInfo, "MPI_Info @";
    /// C strings.
    Strings, *const *const c_char, "char *@[]";
    /// Arrays of C strings.
    StringLists, *const *const *const c_char, "char **@[]";
    /// Integers to write.
    OutIntArray, *mut c_int, "int @[]";
    /// Integers to write, or `MPI_UNWEIGHTED`; written as a pointer in the standard.
    OutWeights, *mut c_int, "int *@";
    /// Addresses to write.
    OutAintArray, *mut i64, "MPI_Aint @[]";
    /// Large counts to write.
    OutCountArray, *mut i64, "MPI_Count @[]";
    /// Datatypes to write.
    OutTypeArray, *mut CType, "MPI_Datatype @[]";
}
