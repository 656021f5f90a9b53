//! Numbers that go in: counts, displacements, ranks, tags, flags.

use super::{Kind, Width};
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::lookup::LazyCount;
use crate::raise::Scope;
use base::{Result, ensure};
use core::ffi::c_int;
use mpi::cs::Section;

/// Declares kinds whose C type is a plain number. `$text` is the C type in the function and in its twin.
macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty => $r:ty, $small:literal $(/ $large:literal)?, |$v:ident, $scope:ident| $take:expr;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $r;
                const TEXT: &'static str = if W::LARGE { numbers!(@large $small $($large)?) } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, $v: $c, $scope: &Scope) -> Result<$r> {
                    $take
                }
            }
        )*
    };
    (@large $small:literal) => { $small };
    (@large $small:literal $large:literal) => { $large };
}

numbers! {
    /// Any `int`.
    Int, c_int => c_int, "int @", |v, _s| Ok(v);
    /// The level of `MPI_Pcontrol`, after which a program may pass more.
    Level, c_int => c_int, "const int @, ...", |v, _s| Ok(v);
    /// An `int` that stands for true or false.
    Flag, c_int => bool, "int @", |v, _s| Ok(v != 0);
    /// Number of array elements, `int` in both twins.
    Length, c_int => usize, "int @", |v, _s| {
        ensure!(v >= 0, ERR_COUNT, "negative count");
        Ok(v as usize)
    };
    /// Number of array elements or room for them, where a negative one is `MPI_ERR_ARG`.
    Room, c_int => usize, "int @", |v, _s| {
        ensure!(v >= 0, ERR_ARG, "negative length");
        Ok(v as usize)
    };
    /// Number of dimensions.
    Dims, c_int => usize, "int @", |v, _s| {
        ensure!(v >= 0, ERR_DIMS, "negative number of dimensions");
        Ok(v as usize)
    };
    /// `MPI_Aint` in both twins.
    Aint, i64 => i64, "MPI_Aint @", |v, _s| Ok(v);
    /// Displacement in bytes: `MPI_Aint`, `MPI_Count` in the twin.
    ByteDispl, i64 => i64, "MPI_Aint @" / "MPI_Count @", |v, _s| Ok(v);
    /// `MPI_Count` in both twins.
    BigCount, i64 => i64, "MPI_Count @", |v, _s| Ok(v);
    /// `MPI_Offset`.
    Offset, i64 => i64, "MPI_Offset @", |v, _s| Ok(v);
    /// Tag of a message to send.
    SendTag, c_int => c_int, "int @", |v, _s| {
        ensure!(v >= 0, ERR_TAG, "tag is not in 0..=MPI_TAG_UB");
        Ok(v)
    };
    /// Tag of a message to receive, or `MPI_ANY_TAG`.
    RecvTag, c_int => c_int, "int @", |v, _s| {
        ensure!(v >= 0 || v == Chosen::ANY_TAG, ERR_TAG, "tag is neither in 0..=MPI_TAG_UB nor MPI_ANY_TAG");
        Ok(Chosen::tag(v))
    };
    /// A rank of the communicator's group that messages go to.
    Rank, c_int => c_int, "int @", |v, scope| {
        ensure!(v >= 0 && v < scope.ranks, ERR_RANK, "rank is not in the communicator");
        Ok(v)
    };
    /// Destination of a message, or `MPI_PROC_NULL`.
    Dest, c_int => c_int, "int @", |v, scope| {
        ensure!((v as u32) < scope.ranks as u32 || v == Chosen::PROC_NULL, ERR_RANK, "destination is not in the communicator");
        Ok(Chosen::rank(v))
    };
    /// Source of a message, `MPI_ANY_SOURCE` or `MPI_PROC_NULL`.
    Source, c_int => c_int, "int @", |v, scope| {
        ensure!(
            (v as u32) < scope.ranks as u32 || v == Chosen::ANY_SOURCE || v == Chosen::PROC_NULL,
            ERR_RANK,
            "source is not in the communicator"
        );
        Ok(Chosen::rank(v))
    };
    /// Root of a collective; between groups also `MPI_ROOT` and `MPI_PROC_NULL`.
    Root, c_int => c_int, "int @", |v, scope| {
        let special = scope.inter && (v == Chosen::ROOT || v == Chosen::PROC_NULL);
        ensure!((v as u32) < scope.ranks as u32 || special, ERR_ROOT, "root is not in the communicator");
        Ok(Chosen::rank(v))
    };
}

/// Number of elements: `int`, `MPI_Count` in the twin.
pub struct Count;
impl<W: Width> Kind<W> for Count {
    type C = W::Int;
    type R = usize;
    const TEXT: &'static str = if W::LARGE { "MPI_Count @" } else { "int @" };
    #[inline(always)]
    unsafe fn take(_cs: &Section, v: W::Int, _: &Scope) -> Result<usize> {
        let v: i64 = v.into();
        ensure!(v >= 0, ERR_COUNT, "negative count");
        Ok(v as usize)
    }
}

/// A count that doesn't matter everywhere.
pub struct MaybeCount;
impl<W: Width> Kind<W> for MaybeCount {
    type C = W::Int;
    type R = LazyCount;
    const TEXT: &'static str = if W::LARGE { "MPI_Count @" } else { "int @" };
    #[inline(always)]
    unsafe fn take(_cs: &Section, v: W::Int, _: &Scope) -> Result<LazyCount> {
        Ok(LazyCount(v.into()))
    }
}

/// A stride in elements: may be negative.
pub struct Stride;
impl<W: Width> Kind<W> for Stride {
    type C = W::Int;
    type R = i64;
    const TEXT: &'static str = if W::LARGE { "MPI_Count @" } else { "int @" };
    #[inline(always)]
    unsafe fn take(_cs: &Section, v: W::Int, _: &Scope) -> Result<i64> {
        Ok(v.into())
    }
}

/// Unit of displacements of a window: `int`, `MPI_Aint` in the twin.
pub struct DispUnit;
impl<W: Width> Kind<W> for DispUnit {
    type C = W::Int;
    type R = i64;
    const TEXT: &'static str = if W::LARGE { "MPI_Aint @" } else { "int @" };
    #[inline(always)]
    unsafe fn take(_cs: &Section, v: W::Int, _: &Scope) -> Result<i64> {
        Ok(v.into())
    }
}
