//! (to be written)
pub mod bootstrap;
