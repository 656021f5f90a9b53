//! `mpiexec` and the node agents: starts the ranks of a job, carries their endpoint addresses, input, output and signals, and leaves nothing behind.
//!
//! ```text
//! mpiexec (head) ──fork──► agent of this host ──clone──► ranks        links: socketpair, TCP or the launcher's stdio
//!        └──ssh / template──► reaper ──fork──► agent of that host ──► ranks      (and agents below it in the tree)
//! ```
//! Each process has one thread and one loop around poll(2). Only the head process decides that a job ends; an agent that loses its
//! parent ends its ranks by itself, and the process above an agent (head process or reaper) ends what an agent leaves.
#![forbid(unsafe_code)]

pub mod abi;
pub mod agent;
pub mod alloc;
pub mod bind;
pub mod callers;
pub mod children;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod container;
pub mod dial;
pub mod doctor;
pub mod drain;
pub mod environment;
pub mod fabric;
pub mod head;
pub mod invite;
pub mod lab;
pub mod lanes;
pub mod leftovers;
pub mod link;
pub mod migrate;
pub mod orphans;
pub mod pages;
pub mod place;
pub mod pollset;
pub mod preload;
pub mod protocols;
pub mod reaper;
pub mod settings;
pub mod stall;
pub mod tmpdir;
pub mod top;
pub mod waits;
