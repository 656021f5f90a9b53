//! What tests of several crates share: a simulated transport with seeded faults, and a small random generator.
#![forbid(unsafe_code)]

pub mod rng;
pub mod transport;
