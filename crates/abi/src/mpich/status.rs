//! `MPI_Status` of MPICH: 20 bytes, the count in 63 bits, the cancelled flag in the lowest bit of its upper word.

use super::{Mpich, SUCCESS};
use crate::convert::Abi;
use base::Class;
use mpi::status::{Place, Status};

/// The C layout of a status.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CStatus {
    count_low: i32,
    count_high_and_cancelled: i32,
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Error code; only set where the standard says so.
    pub error: i32,
}

impl CStatus {
    fn bytes(&self) -> u64 {
        u64::from(self.count_low as u32) | (u64::from(self.count_high_and_cancelled as u32 >> 1) << 32)
    }

    fn cancelled(&self) -> bool {
        self.count_high_and_cancelled & 1 != 0
    }

    fn write(&mut self, bytes: u64, cancelled: bool) {
        self.count_low = bytes as i32;
        self.count_high_and_cancelled = ((bytes >> 32) as i32) << 1 | i32::from(cancelled);
    }

    /// As the core has it.
    pub fn known(&self) -> Status {
        Status {
            source: Mpich::rank(self.source),
            tag: Mpich::tag(self.tag),
            bytes: self.bytes(),
            cancelled: self.cancelled(),
        }
    }

    /// The empty status without an error.
    pub fn empty() -> CStatus {
        let mut status = CStatus { count_low: 0, count_high_and_cancelled: 0, source: 0, tag: 0, error: SUCCESS };
        status.set(&Status::EMPTY);
        status
    }

    /// Sets the bytes received.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.write(bytes, self.cancelled());
    }

    /// Marks the operation as cancelled or not.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.write(self.bytes(), cancelled);
    }
}

impl Place for CStatus {
    #[inline(always)]
    fn set(&mut self, status: &Status) {
        self.write(status.bytes, status.cancelled);
        self.source = Mpich::c_rank(status.source);
        self.tag = Mpich::c_tag(status.tag);
    }

    #[inline(always)]
    fn set_error(&mut self, error: Class) {
        self.error = Mpich::code(error);
    }
}
