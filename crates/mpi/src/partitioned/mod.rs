//! Partitioned communication (MPI-5.0, chapter 4; decision 0049).
//!
//! Sends and receives match once, in the order of the calls that make them: a send tells its receiver in a *setup* message, which context
//! its data come in, how many partitions it has and how long they are. From then on each partition of the sender is one message
//! in that context, whose tag is its number, so partitions leave as soon as they are ready, in any order. The receiver posts them all
//! when it is started, and knows from their places in its buffer which of its own partitions have arrived.

mod parts;
mod receive;
mod send;

pub use receive::receive_init;
pub use send::send_init;

use crate::cs::Section;
use crate::datatype::Datatype;
use crate::handle::Handle;
use crate::p2p::space::Space;
use crate::request::{self, Partitions};
use crate::status::PROC_NULL;
use base::{Result, ensure};
use std::rc::Rc;

/// What `MPI_Psend_init` and `MPI_Precv_init` say.
pub struct Arguments {
    /// First item of the first partition.
    pub buf: *mut u8,
    /// Number of partitions.
    pub partitions: usize,
    /// Items in each of them.
    pub count: usize,
    /// Type of the items.
    pub datatype: Rc<Datatype>,
    /// Rank of the other side or `PROC_NULL`.
    pub rank: i32,
    /// Tag.
    pub tag: i32,
    /// Communicator.
    pub space: Space,
}

impl Arguments {
    /// Bytes of one partition.
    fn partition_bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Bytes of all partitions.
    fn bytes(&self) -> usize {
        self.partitions * self.partition_bytes()
    }

    fn is_null(&self) -> bool {
        self.rank == PROC_NULL
    }
}

/// The setup message: context, number of partitions, bytes of each.
const SETUP_BYTES: usize = 24;

/// `MPI_Pready` and its forms; `partitions` are those that are ready.
pub fn ready(cs: &mut Section, handle: Handle, partitions: impl Iterator<Item = i32> + Clone) -> Result {
    let operation = request::partitions(cs, handle, true)?;
    let count = operation.partitions().map_or(0, Partitions::count);
    for partition in partitions.clone() {
        ensure!(partition >= 0 && (partition as usize) < count, ERR_ARG, "no such partition");
    }
    let sender = operation.partitions().expect("it has partitions");
    partitions.into_iter().try_for_each(|partition| sender.ready(cs, partition as usize))
}

/// `MPI_Parrived`. Nothing is awaited by no request and an inactive one.
pub fn arrived(cs: &mut Section, handle: Option<Handle>, partition: i32) -> Result<bool> {
    let Some(handle) = handle else { return Ok(true) };
    let operation = request::partitions(cs, handle, false)?;
    let receiver = operation.partitions().expect("it has partitions");
    ensure!(partition >= 0 && (partition as usize) < receiver.count(), ERR_ARG, "no such partition");
    if !request::is_started(cs, handle) || receiver.arrived(cs, partition as usize)? {
        return Ok(true);
    }
    crate::progress::poll_some(cs);
    receiver.arrived(cs, partition as usize)
}
