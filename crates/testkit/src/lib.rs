//! What tests of several crates share: a simulated fabric with seeded faults, and a small random generator.
#![forbid(unsafe_code)]

pub mod fabric;
pub mod rng;
