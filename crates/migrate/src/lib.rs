//! What `ferrule migrate` decides and reads: its state machine, QEMU's monitor protocol, and the file that describes virtual machines. No I/O, no clock.
#![forbid(unsafe_code)]

pub mod config;
pub mod machine;
pub mod qmp;
