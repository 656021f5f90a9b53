//! The network lane: packets over TCP, connected on demand.

pub mod conn;
pub mod frame;
pub mod hello;
