//! The semantic core of the MPI library: what communicators, groups, datatypes, requests and collectives mean.
//!
//! The C functions (`crates/abi`) convert their arguments and call this crate; the bytes travel through
//! `protocol::engine` over `channel::fabric`. Everything here runs inside the critical section ([`cs`]).

pub mod coll;
pub mod cs;
pub mod datatype;
pub mod env;
pub mod group;
pub mod handle;
pub mod op;
pub mod status;
