//! Simulation and models: what a job's start costs, from a laptop to a million ranks, and what virtual lanes do in a fabric ([`lanes`]).
//!
//! Nothing here does I/O, reads a clock or has unsafe code. [`events`] is a small discrete-event simulator of processes on hosts; [`startup`]
//! describes each scheme of starting and connecting ranks twice, as messages for that simulator and as a closed form, and fits the
//! constants of the closed forms to measured times by [`least_squares`].

#![forbid(unsafe_code)]

pub mod events;
pub mod lanes;
pub mod least_squares;
pub mod offload;
pub mod startup;
