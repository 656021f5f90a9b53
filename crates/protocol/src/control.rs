//! What ranks, node agents and `mpiexec` say to each other: message types and their bytes. No I/O.
//!
//! Two conversations share one framing ([`frame`]): a rank with its node agent over an inherited unix socket
//! ([`rank`]), and agents with each other in a tree whose root is `mpiexec` ([`tree`]). Before the second begins,
//! both ends of a TCP connection prove that they know the job key ([`handshake`]). Agents under one kernel also talk
//! directly ([`near`]). How endpoints are exchanged is in [`exchange`].
//!
//! Invariants: every length is checked against what has really arrived before anything is allocated; a message that does not
//! decode to its last byte is malformed; both conversations carry [`VERSION`] in their first message.

pub mod adopt;
pub mod codec;
pub mod endpoint_address;
pub mod epoch;
pub mod exchange;
pub mod frame;
pub mod handshake;
pub mod inquiry;
pub mod job;
pub mod meeting;
pub mod near;
pub mod profile;
pub mod rank;
pub mod report;
pub mod sealed;
pub mod spawn;
pub mod tree;

pub use codec::{Wire, decode, encode};
pub use endpoint_address::EndpointAddress;
pub use rank::{JobInfo, ToAgent, ToRank};

/// Version of both conversations; ends of different versions refuse each other.
pub const VERSION: u16 = 14;
