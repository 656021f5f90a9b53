//! A simulation of non-blocking collectives on a cluster: ranks that run them themselves, whenever they are in MPI, and workers that run them for the ranks (decision 0061).
//!
//! It runs [`Schedule`]s, which say what each rank sends, receives and waits for; whoever has the library makes them of its own ones. [`Settings`] are the
//! constants, [`Simulation`] runs one collective, [`measure`] does with it what `osu_ialltoall` does. Times are whole picoseconds, and a run is the same each time.
//!
//! Whoever executes schedules is a *driver*: a rank, which is there only while it is in MPI, or a worker, which always is. A driver takes one item after the
//! other from its queue, and each costs its time.

mod network;
mod published;
mod schedule;
mod settings;
mod simulation;

pub mod measure;

pub use published::PUBLISHED;
pub use schedule::{Cursor, Schedule, Step, Todo};
pub use settings::{ASSUMPTIONS, Assumption, BadSettings, Path, Settings, Share, Workers};
pub use simulation::{Outcome, Program, Simulation};
