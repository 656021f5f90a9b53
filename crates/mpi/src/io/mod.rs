//! Files (MPI-5.0, chapter 14).
//!
//! An access is a stream of bytes: the program's items in the file's representation ([`stream`]). The [`view`] says where in the file
//! each byte of the stream lies. [`independent`] moves a stream by itself, [`two_phase`] together with the other processes.
//! [`access`] has the functions of the standard; [`open`] and [`file`] make and change files. See the README.

pub mod access;
mod agree;
mod amode;
mod file;
mod hints;
mod independent;
mod open;
mod raw;
mod representation;
mod shared;
pub mod split;
mod stream;
mod two_phase;
pub mod view;

pub use amode::Amode;
pub use file::{File, Whence, default_owner, from_handle};
pub use open::{close, delete, ensure_room, open};
pub use representation::{Functions, MAX_DATAREP_STRING, Representation, register};
pub use stream::Items;
pub use view::DISPLACEMENT_CURRENT;
