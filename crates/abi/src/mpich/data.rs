//! What MPICH's header declares as data, and its one function that isn't MPI's: programs find these by name.

use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicI32, AtomicPtr};

/// `MPI_UNWEIGHTED` is an address that the library chooses; the value is the standard ABI's.
#[unsafe(export_name = "MPI_UNWEIGHTED")]
pub static UNWEIGHTED: AtomicPtr<c_int> = AtomicPtr::new(without_provenance_mut(10));

/// `MPI_WEIGHTS_EMPTY`, likewise.
#[unsafe(export_name = "MPI_WEIGHTS_EMPTY")]
pub static WEIGHTS_EMPTY: AtomicPtr<c_int> = AtomicPtr::new(without_provenance_mut(11));

/// `MPI_T_PVAR_ALL_HANDLES`, likewise.
#[unsafe(export_name = "MPI_T_PVAR_ALL_HANDLES")]
pub static ALL_HANDLES: AtomicPtr<c_void> = AtomicPtr::new(without_provenance_mut(1));

/// `MPI_F_STATUS_IGNORE`: null until a Fortran library says where its `MPI_STATUS_IGNORE` is.
#[unsafe(export_name = "MPI_F_STATUS_IGNORE")]
pub static F_STATUS_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(null_mut());

/// `MPI_F_STATUSES_IGNORE`, likewise.
#[unsafe(export_name = "MPI_F_STATUSES_IGNORE")]
pub static F_STATUSES_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(null_mut());

/// A status of `mpi_f08`, of which only the address counts.
type Words = [AtomicI32; 5];

/// What `MPI_STATUS_IGNORE` of `mpi_f08` is bound to.
#[unsafe(export_name = "MPIR_F08_MPI_STATUS_IGNORE_OBJ")]
pub static F08_STATUS: Words = [const { AtomicI32::new(0) }; 5];

/// What `MPI_STATUSES_IGNORE` of `mpi_f08` is bound to.
#[unsafe(export_name = "MPIR_F08_MPI_STATUSES_IGNORE_OBJ")]
pub static F08_STATUSES: Words = [const { AtomicI32::new(0) }; 5];

/// `MPI_F08_STATUS_IGNORE`.
#[unsafe(export_name = "MPI_F08_STATUS_IGNORE")]
pub static F08_STATUS_IGNORE: AtomicPtr<Words> = AtomicPtr::new((&raw const F08_STATUS).cast_mut());

/// `MPI_F08_STATUSES_IGNORE`.
#[unsafe(export_name = "MPI_F08_STATUSES_IGNORE")]
pub static F08_STATUSES_IGNORE: AtomicPtr<Words> = AtomicPtr::new((&raw const F08_STATUSES).cast_mut());

/// `MPI_DUP_FN`, `MPI_COMM_DUP_FN` and their like, which are this function in MPICH's header.
///
/// # Safety
/// `copy` has room for an address and `flag` for an `int`.
#[unsafe(export_name = "MPIR_Dup_fn")]
pub unsafe extern "C" fn duplicate(
    _object: c_int,
    _keyval: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: by the caller, which is this library.
    unsafe {
        *copy.cast() = value;
        *flag = 1;
    }
    super::SUCCESS
}
