//! Data structures in memory that other processes share and write: rings of records, inboxes made of them, the word that
//! says who sleeps. The order of loads and stores is checked with loom (`tests/`).
//!
//! Memory that a peer can write is never a Rust reference to plain data: it is reached by atomics and raw pointers,
//! copied out, and the copy is checked.

pub mod cells;
pub mod inbox;
pub mod layout;
pub mod non_temporal;
pub mod offload;
pub mod outbox;
pub mod region;
pub mod ring;
pub mod sleep;
