//! A packet-level simulator of virtual lanes: input-buffered switches with credits, VL arbitration and SL-to-VL tables, as InfiniBand's (decision 0037).
//!
//! [`Network`] says what is connected and how packets go, [`Settings`] how fast and with which [`tables`], and [`Fabric`] runs a [`Program`] on it. [`opensm`] reads
//! the tables that a subnet manager would write. Times are whole picoseconds, and a run is the same each time.

pub mod arbiter;
pub mod calendar;
pub mod credits;
mod fabric;
mod fifo;
pub mod figures;
mod host;
mod network;
pub mod opensm;
pub mod random;
mod settings;
pub mod stats;
pub mod tables;
pub mod traffic;

pub use credits::Buffering;
pub use fabric::{Counts, End, Fabric, Program};
pub use host::{Delivered, Qp};
pub use network::{Channel, Network, Node};
pub use settings::Settings;
pub use tables::{BadTables, Tables};
