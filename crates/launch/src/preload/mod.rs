//! `--preload`: the program, its libraries and other files are sent down the tree of agents, for hosts that don't have them.
//!
//! ```text
//! mpiexec: plan (which files) ─ Start ─► agents make a private directory
//!          send ─ Chunk ─► agent: passes it on below at once, writes it ─ ChunkAck ─►      … until all is there, then ranks start from it
//! ```
//! mpiexec never is more than [`WINDOW`] ahead of the slowest node, so no agent holds more than that for the ones below it. Each file is
//! checked by length and BLAKE3. The directory belongs to the user alone. The agent removes it; if the agent is killed, the process above it does;
//! if all processes are killed, the next job does.

pub mod elf;
pub mod plan;
pub mod receive;
pub mod send;

/// Bytes that may be on their way to the slowest node.
pub const WINDOW: u64 = 16 << 20;
/// Bytes after which a node says how far it is.
pub const ACK_EVERY: u64 = 2 << 20;
/// Most files of a job.
pub const FILES_MAX: usize = 4096;
/// The directory in the private one that holds the files.
pub const INNER: &str = "files";
/// Below it: libraries.
pub const LIBRARIES: &str = "lib";
/// Below it: what `--preload-files` names.
pub const DATA: &str = "data";
