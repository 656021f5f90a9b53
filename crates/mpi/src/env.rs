//! The environment (MPI-5.0, chapter 9): versions, names, clocks.

/// Version of the standard.
pub const VERSION: (i32, i32) = (5, 0);
/// What `MPI_Get_library_version` says first, before the ABI.
pub const LIBRARY_VERSION: &str = concat!("Ferrule ", env!("CARGO_PKG_VERSION"), ", MPI 5.0");

/// Seconds since a fixed time in the past of this host.
#[inline]
pub fn wtime() -> f64 {
    sys::clock::now_ns() as f64 * 1e-9
}

/// Resolution of [`wtime`] in seconds.
pub fn wtick() -> f64 {
    sys::clock::resolution_ns() as f64 * 1e-9
}

/// What `MPI_Get_processor_name` says: the host's name.
pub fn processor_name() -> String {
    sys::process::host_name()
}
