//! The semantic core of the MPI library: what communicators, groups, datatypes, requests and collectives mean.
//!
//! The C functions (`crates/abi`) convert their arguments and call this crate; the bytes travel through
//! `protocol::engine` over `channel::transports`. Everything here runs inside the critical section ([`cs`]).

pub mod agent;
pub mod attr;
pub mod bias;
pub mod buffer;
pub mod call;
pub mod coll;
pub mod comm;
pub mod constructors;
pub mod cs;
pub mod datatype;
pub mod dynamic;
pub mod engine;
pub mod env;
pub mod errhandler;
pub mod errors;
pub mod fortran;
pub mod group;
pub mod handle;
pub mod info;
pub mod init;
pub mod inside;
pub mod io;
pub mod job;
pub mod life;
pub mod losses;
pub mod memory;
pub mod migration;
pub mod op;
pub mod owner;
pub mod p2p;
pub mod partitioned;
pub mod profile;
pub mod progress;
pub mod psets;
pub mod recovery;
pub mod request;
pub mod rma;
pub mod session;
mod sleepers;
pub mod status;
pub mod thread;
pub mod tool;
pub mod topo;
pub mod transfer;
pub mod waits;
