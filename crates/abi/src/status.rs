//! `MPI_Status` of the standard ABI (MPI-5.0, 3.2.5 and 20.3.2).

use crate::convert::Abi;
use crate::standard::{SUCCESS, Standard};
use base::Class;
use mpi::status::{Place, Status};

/// The C layout of a status.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CStatus {
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Error code; only set where the standard says so.
    pub error: i32,
    /// Ours: bytes received (low, high), cancelled flag, unused.
    internal: [i32; 5],
}

impl CStatus {
    /// As the core has it.
    pub fn known(&self) -> Status {
        let bytes = u64::from(self.internal[0] as u32) | (u64::from(self.internal[1] as u32) << 32);
        let cancelled = self.internal[2] != 0;
        Status { source: Standard::rank(self.source), tag: Standard::tag(self.tag), bytes, cancelled }
    }

    /// The empty status without an error.
    pub fn empty() -> CStatus {
        let mut status = CStatus { source: 0, tag: 0, error: SUCCESS, internal: [0; 5] };
        status.set(&Status::EMPTY);
        status
    }

    /// Sets the bytes received.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[..2].copy_from_slice(&[bytes as i32, (bytes >> 32) as i32]);
    }

    /// Marks the operation as cancelled or not.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = i32::from(cancelled);
    }
}

impl Place for CStatus {
    #[inline(always)]
    fn set(&mut self, status: &Status) {
        self.source = Standard::c_rank(status.source);
        self.tag = Standard::c_tag(status.tag);
        self.internal = [status.bytes as i32, (status.bytes >> 32) as i32, i32::from(status.cancelled), 0, 0];
    }

    #[inline(always)]
    fn set_error(&mut self, error: Class) {
        self.error = Standard::code(error);
    }
}
