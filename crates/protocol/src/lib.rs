//! The protocols of message passing as state machines: no I/O, no clock, no unsafe code.
//!
//! [`Engine`](engine::Engine) matches messages and runs the eager and rendezvous protocols over anything that implements
//! [`Fabric`](fabric::Fabric): the product's channels, the simulated fabric of `testkit`, the simulator.
#![forbid(unsafe_code)]

pub mod control;
pub mod engine;
pub mod fabric;
pub mod matching;
pub mod pmi;
pub mod protocols;
pub mod slab;
pub mod wire;
