//! `libmpi_abi.so.1`: the C functions of MPI 5.0 with the standard binary interface (MPI-5.0, chapter 20).
//!
//! The same files, compiled with `cfg(mpich)` (`crates/mpich_abi`), are `libmpi.so.12` with the ABI of MPICH. [`chosen`] is the one of both.
//!
//! No logic lives here. One file per chapter of the standard holds one entry per function ([`api`]); the kinds of its
//! parameters ([`kinds`]) say how arguments are checked and converted; the body calls the core (`crates/mpi`).
//! [`functions`] lists all 664 names, for the reference page and the tests.

pub mod api;
mod attributes;
mod callbacks;
mod collective;
pub mod convert;
pub mod ctypes;
pub mod kinds;
mod lookup;
mod message;
#[cfg(mpich)]
pub mod mpich;
pub mod raise;
mod short;
#[cfg(not(mpich))]
pub mod standard;
#[cfg(not(mpich))]
pub mod status;
pub mod tool;

#[cfg(mpich)]
pub use mpich as chosen;
#[cfg(mpich)]
pub use mpich::status;
#[cfg(not(mpich))]
pub use standard as chosen;

mod ch03_buffers;
mod ch03_completion;
mod ch03_persistent;
mod ch03_point_to_point;
mod ch03_probe;
mod ch04_partitioned;
mod ch05_constructors;
mod ch05_pack;
mod ch05_queries;
mod ch06_collectives;
mod ch06_operations;
mod ch07_attributes;
mod ch07_communicators;
mod ch07_groups;
mod ch08_neighbor;
mod ch08_topologies;
mod ch09_environment;
mod ch10_info;
mod ch11_dynamic;
mod ch11_process;
mod ch12_one_sided;
mod ch13_external;
mod ch14_io;
mod ch15_tools;
mod ch16_deprecated;
mod ch19_fortran_types;
mod ch20_abi;
mod faults;

use api::Entry;

/// Every function, by chapter.
pub fn functions() -> impl Iterator<Item = (&'static str, &'static Entry)> {
    CHAPTERS.iter().flat_map(|(chapter, table)| table.iter().map(move |entry| (*chapter, entry)))
}

/// Functions of extensions, which `mpi-ext.h` declares.
pub const EXTENSIONS: &[Entry] = faults::TABLE;

/// The tables by the name of their file.
const CHAPTERS: &[(&str, &[Entry])] = &[
    ("ch03_buffers", ch03_buffers::TABLE),
    ("ch03_completion", ch03_completion::TABLE),
    ("ch03_persistent", ch03_persistent::TABLE),
    ("ch03_point_to_point", ch03_point_to_point::TABLE),
    ("ch03_probe", ch03_probe::TABLE),
    ("ch04_partitioned", ch04_partitioned::TABLE),
    ("ch05_constructors", ch05_constructors::TABLE),
    ("ch05_pack", ch05_pack::TABLE),
    ("ch05_queries", ch05_queries::TABLE),
    ("ch06_collectives", ch06_collectives::TABLE),
    ("ch06_operations", ch06_operations::TABLE),
    ("ch07_attributes", ch07_attributes::TABLE),
    ("ch07_communicators", ch07_communicators::TABLE),
    ("ch07_groups", ch07_groups::TABLE),
    ("ch08_neighbor", ch08_neighbor::TABLE),
    ("ch08_topologies", ch08_topologies::TABLE),
    ("ch09_environment", ch09_environment::TABLE),
    ("ch10_info", ch10_info::TABLE),
    ("ch11_dynamic", ch11_dynamic::TABLE),
    ("ch11_process", ch11_process::TABLE),
    ("ch12_one_sided", ch12_one_sided::TABLE),
    ("ch13_external", ch13_external::TABLE),
    ("ch14_io", ch14_io::TABLE),
    ("ch15_tools", ch15_tools::TABLE),
    ("ch16_deprecated", ch16_deprecated::TABLE),
    ("ch19_fortran_types", ch19_fortran_types::TABLE),
    ("ch20_abi", ch20_abi::TABLE),
    ("ch05_queries", ch05_queries::PLAIN),
    ("ch09_environment", ch09_environment::PLAIN),
    ("ch20_abi", ch20_abi::PLAIN),
    #[cfg(mpich)]
    ("mpich/removed", mpich::removed::TABLE),
    #[cfg(mpich)]
    ("mpich/fortran", mpich::fortran::TABLE),
    #[cfg(mpich)]
    ("mpich/fortran", mpich::fortran::PLAIN),
    #[cfg(mpich)]
    ("mpich/extensions", mpich::extensions::TABLE),
    #[cfg(mpich)]
    ("mpich/extensions", mpich::extensions::PLAIN),
];
