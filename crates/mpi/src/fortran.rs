//! What the binary interface lets a program ask and say about Fortran (MPI-5.0, 20.4): sizes and availability (logical values are
//! in [`crate::op::logical`]).
//!
//! Ferrule's Fortran types have the sizes that every compiler on this platform gives them by default; a program that
//! announces others is told that it can't have them.

use crate::datatype::{self, Name};
use crate::info::Info;
use base::{Result, ensure};

/// Info keys of default types with their types.
const SIZES: &[(&str, Name)] = &[
    ("mpi_logical_size", Name::MPI_LOGICAL),
    ("mpi_integer_size", Name::MPI_INTEGER),
    ("mpi_real_size", Name::MPI_REAL),
    ("mpi_double_precision_size", Name::MPI_DOUBLE_PRECISION),
];

/// Info keys of optional types with their types.
const OPTIONAL: &[(&str, Name)] = &[
    ("mpi_logical1_supported", Name::MPI_LOGICAL1),
    ("mpi_logical2_supported", Name::MPI_LOGICAL2),
    ("mpi_logical4_supported", Name::MPI_LOGICAL4),
    ("mpi_logical8_supported", Name::MPI_LOGICAL8),
    ("mpi_logical16_supported", Name::MPI_LOGICAL16),
    ("mpi_integer1_supported", Name::MPI_INTEGER1),
    ("mpi_integer2_supported", Name::MPI_INTEGER2),
    ("mpi_integer4_supported", Name::MPI_INTEGER4),
    ("mpi_integer8_supported", Name::MPI_INTEGER8),
    ("mpi_integer16_supported", Name::MPI_INTEGER16),
    ("mpi_real2_supported", Name::MPI_REAL2),
    ("mpi_real4_supported", Name::MPI_REAL4),
    ("mpi_real8_supported", Name::MPI_REAL8),
    ("mpi_real16_supported", Name::MPI_REAL16),
    ("mpi_complex4_supported", Name::MPI_COMPLEX4),
    ("mpi_complex8_supported", Name::MPI_COMPLEX8),
    ("mpi_complex16_supported", Name::MPI_COMPLEX16),
    ("mpi_complex32_supported", Name::MPI_COMPLEX32),
    ("mpi_double_complex_supported", Name::MPI_DOUBLE_COMPLEX),
];

/// `MPI_Abi_get_fortran_info`.
pub fn fortran_info() -> Info {
    let info = Info::new();
    for (key, name) in SIZES {
        info.put(key, datatype::predefined(*name).size().to_string().as_bytes());
    }
    for (key, _) in OPTIONAL {
        info.put(key, b"true");
    }
    info
}

/// `MPI_Abi_set_fortran_info`: what the program says must be what is so.
pub fn set_fortran_info(said: &Info) -> Result {
    let so = fortran_info();
    for (key, _) in SIZES.iter().chain(OPTIONAL) {
        let said = said.get(key.as_bytes())?;
        let agrees = said.is_none() || said == so.get(key.as_bytes())? || said.as_deref() == Some(b"false");
        ensure!(agrees, ERR_ABI, "these sizes of Fortran types are not supported");
    }
    Ok(())
}
