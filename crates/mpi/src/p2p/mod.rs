//! Point-to-point communication (MPI-5.0, chapter 3).
//!
//! `space` is what this floor knows of a communicator; `transfer` starts single messages on any plane; `send`, `receive`, `probe`, `buffered`, `combined` and
//! `persistent` are the functions of the standard; `short` has the shortest way of the commonest ones.

pub mod buffered;
pub mod combined;
pub mod persistent;
pub mod probe;
pub mod receive;
pub mod send;
pub mod short;
pub mod space;
pub mod transfer;
