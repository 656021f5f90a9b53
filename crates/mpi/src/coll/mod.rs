//! Collectives (MPI-5.0, chapter 6) and neighbourhood collectives (8.6, 8.7).

pub mod arena;
pub mod ints;
pub mod team;
