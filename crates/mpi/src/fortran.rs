//! What the binary interface lets a program ask and say about Fortran (MPI-5.0, 20.4): sizes and availability (logical values are
//! in [`crate::op::logical`]).
//!
//! Ferrule's Fortran types have the sizes that every compiler on this platform gives them by default; a program that
//! announces others is told that it can't have them.

use crate::datatype;
use crate::info::Info;
use base::{Result, ensure};

/// Info keys of default types with their handle values.
const SIZES: &[(&str, usize)] = &[
    ("mpi_logical_size", 0x218),
    ("mpi_integer_size", 0x219),
    ("mpi_real_size", 0x21a),
    ("mpi_double_precision_size", 0x21c),
];

/// Info keys of optional types with their handle values.
const OPTIONAL: &[(&str, usize)] = &[
    ("mpi_logical1_supported", 0x2c0),
    ("mpi_logical2_supported", 0x2c8),
    ("mpi_logical4_supported", 0x2d0),
    ("mpi_logical8_supported", 0x2d8),
    ("mpi_logical16_supported", 0x2e0),
    ("mpi_integer1_supported", 0x2c1),
    ("mpi_integer2_supported", 0x2c9),
    ("mpi_integer4_supported", 0x2d1),
    ("mpi_integer8_supported", 0x2d9),
    ("mpi_integer16_supported", 0x2e1),
    ("mpi_real2_supported", 0x2ca),
    ("mpi_real4_supported", 0x2d2),
    ("mpi_real8_supported", 0x2da),
    ("mpi_real16_supported", 0x2e2),
    ("mpi_complex4_supported", 0x2d3),
    ("mpi_complex8_supported", 0x2db),
    ("mpi_complex16_supported", 0x2e3),
    ("mpi_complex32_supported", 0x2eb),
    ("mpi_double_complex_supported", 0x21d),
];

/// `MPI_Abi_get_info`.
pub fn abi_info() -> Info {
    let info = Info::new();
    for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
        info.put(key, b"8");
    }
    info
}

/// `MPI_Abi_get_fortran_info`.
pub fn fortran_info() -> Info {
    let info = Info::new();
    for (key, handle) in SIZES {
        info.put(key, size_of(*handle).to_string().as_bytes());
    }
    for (key, handle) in OPTIONAL {
        info.put(key, if size_of(*handle) > 0 { b"true" } else { b"false" });
    }
    info
}

fn size_of(handle: usize) -> usize {
    datatype::predefined(handle).map_or(0, |datatype| datatype.size())
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
