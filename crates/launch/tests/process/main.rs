//! Jobs with real processes: what mpiexec promises about exit codes, input and output, options, and about leaving nothing behind.

mod bootstrap;
mod exit;
mod harness;
mod kill;
mod options;
mod remote;
mod stdio;
