//! Collectives (MPI-5.0, chapter 6) and neighbourhood collectives (8.6, 8.7).
//!
//! Every collective, in all of its forms, is a [`schedule`]: the list of what this process has to do. [`api`] plans one on a
//! communicator, [`plan`] runs it at once, starts it, or keeps it to be started again and again. See the README for the map.

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod api;
pub mod arena;
pub mod args;
pub mod barrier;
pub mod bcast;
pub mod blocks;
pub mod builder;
pub mod call;
pub mod comm_view;
pub mod execute;
pub mod fold;
pub mod gather;
pub mod halving;
pub mod internal;
pub mod ints;
pub mod job_choices;
pub mod levels;
pub mod needs;
pub mod neighbor;
pub mod objects;
pub mod offload;
pub mod plan;
pub mod portable;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;
pub mod schedule;
pub mod select;
pub mod span;
pub mod team;
pub mod throttle;
pub mod verdicts;
pub mod wire;

pub use crate::comm::{choices, layout};
pub use api::*;
pub use args::{BlockBuffer, Buffer, IN_PLACE, ReduceArgs, check_apart, is_in_place};
pub use ints::Ints;
pub use plan::{Plan, persist, run, start};

#[cfg(test)]
mod sim;
