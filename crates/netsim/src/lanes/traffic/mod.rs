//! Programs on simulated hosts.

pub mod alltoall;
pub mod streams;
