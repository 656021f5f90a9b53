//! What every crate of Ferrule shares: errors, ids, settings, the log, counters. No unsafe code, no I/O but the log line.
#![forbid(unsafe_code)]

pub mod config;
pub mod counters;
pub mod error;
pub mod hex;
pub mod ids;
pub mod log;

pub use error::{Class, Error, Result};
pub use ids::{ContextId, Peer, WorldRank};
