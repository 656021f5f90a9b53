//! The protocols of message passing as state machines: no I/O, no clock, no unsafe code.
//!
//! [`Engine`](engine::Engine) matches messages and runs the eager and rendezvous protocols over [`endpoint`]s, whose lanes belong to anything
//! that implements [`Transport`](transport::Transport): the product's transports, the simulated one of `testkit`, the simulator.
#![forbid(unsafe_code)]

pub mod control;
pub mod endpoint;
pub mod engine;
pub mod epoch;
pub mod kind;
pub mod lanes;
pub mod matching;
pub mod memory;
pub mod order;
pub mod pmi;
pub mod policy;
pub mod processes;
pub mod protocols;
pub mod realm;
pub mod route;
pub mod slab;
pub mod transport;
pub mod wire;
