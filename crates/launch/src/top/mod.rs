//! `ferrule top`: the jobs of this user on this host, what their ranks do, what their lanes carry, what they move to windows and files, and the
//! wait-for graph.
//!
//! Each mpiexec listens on an abstract unix socket `ferrule/<uid>/<pid>/<random>` ([`server`]): it has no file, so nothing is left of
//! it whatever ends mpiexec. /proc/net/unix lists them ([`find`]). Both sides check the other's user as the kernel tells
//! it. Abstract sockets belong to a network namespace, and so does the list.

pub mod client;
pub mod find;
pub mod lanes;
pub mod server;
pub mod table;
pub mod traffic;
