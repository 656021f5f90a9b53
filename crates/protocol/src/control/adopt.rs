//! A job whose ranks another launcher has started: what rank 0 tells the job's head process, and how a rank finds its agent.
//!
//! ```text
//! rank 0 ─ Plan ─► mpiexec --adopt-front      answers with an invitation, which rank 0 puts where the launcher's other ranks can read it
//! first rank of each other node ─ invitation ─► mpiexec --adopt-agent N
//! each rank ─ rank_socket_name(key) ─► its agent    both prove the key of the pair; then the conversation is that of any rank
//! ```
//! The launcher's key-value space may have more readers than the job. So the key that goes through it is good for this meeting only: the ranks' own key comes
//! from their agents.

use super::codec::wire;
use super::handshake::Key;
use base::hex;

/// Most bytes of a [`Plan`].
pub const PLAN_MAX: usize = 256 << 20;

wire! {
    /// The job as the launcher has placed it.
    pub struct Plan {
        /// [`super::VERSION`] of the library.
        pub version: u16,
        /// The launcher, for messages.
        pub launcher: String,
        /// Secret with which ranks and agents find each other.
        pub meeting_key: [u8; 16],
        /// Host name of each node; the first is that of rank 0.
        pub hosts: Vec<String>,
        /// Node of each rank.
        pub node_of: Vec<u32>,
        /// `MPI_UNIVERSE_SIZE`.
        pub universe_size: u32,
        /// Working directory of rank 0.
        pub working_directory: Vec<u8>,
    }
}

/// Abstract name of the socket at which the agent of the node whose lowest rank is `first` waits for its ranks. Only
/// processes that know the key can compute it.
pub fn rank_socket_name(meeting_key: [u8; 16], first: u32) -> Vec<u8> {
    let name = Key(meeting_key).derive(&[b"door", first.to_le_bytes().as_slice()].concat());
    format!("ferrule-{}", hex::encode(&name.0)).into_bytes()
}

/// The key with which `rank` and its agent prove themselves to each other.
pub fn pair_key(meeting_key: [u8; 16], rank: u32) -> Key {
    Key(meeting_key).derive(&[b"rank", rank.to_le_bytes().as_slice()].concat())
}
