//! (to be written)
pub mod bootstrap;
pub mod buffer;
pub mod calibrate;
pub mod shm;
pub mod single_copy;
pub mod wait;
