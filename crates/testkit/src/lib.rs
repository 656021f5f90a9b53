//! What tests of several crates share: a simulated transport with seeded faults, a conformance suite for all transports, and a small random generator.
#![forbid(unsafe_code)]

pub mod conformance;
mod memory;
pub mod rng;
pub mod transport;
