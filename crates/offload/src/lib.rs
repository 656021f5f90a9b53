//! Workers: processes that run non-blocking collectives for the ranks of their node while these compute (decision 0042). See the README.

#![forbid(unsafe_code)]

pub mod messages;
pub mod metadata;
pub mod nodes;
pub mod packet;
pub mod rank;
pub mod reach;
pub mod state;
pub mod worker;
