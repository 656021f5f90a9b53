//! Point-to-point communication (MPI-5.0, chapter 3).

pub mod transfer;
