//! `MPI_Status` (MPI-5.0, 3.2.5 and 20.3.2).

/// The C layout of a status.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Error class; only set where the standard says so.
    pub error: i32,
    /// Ours: bytes received (low, high), cancelled flag, unused.
    pub internal: [i32; 5],
}

/// `MPI_ANY_SOURCE`.
pub const ANY_SOURCE: i32 = -1;
/// `MPI_ANY_TAG`.
pub const ANY_TAG: i32 = -2;
/// `MPI_PROC_NULL`.
pub const PROC_NULL: i32 = -3;
/// `MPI_ROOT`.
pub const ROOT: i32 = -4;
/// `MPI_UNDEFINED`.
pub const UNDEFINED: i32 = -32766;
/// Largest tag: the value of `MPI_TAG_UB`.
pub const TAG_UB: i32 = i32::MAX;

impl Status {
    /// The status of a null or inactive request, or of an operation without one.
    pub const EMPTY: Status = Status { source: ANY_SOURCE, tag: ANY_TAG, error: 0, internal: [0; 5] };

    /// The status of a communication with `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status { source: PROC_NULL, tag: ANY_TAG, error: 0, internal: [0; 5] };

    /// The status of a received message of `bytes` bytes.
    #[inline]
    pub fn received(source: i32, tag: i32, bytes: u64) -> Status {
        Status { source, tag, error: 0, internal: [bytes as i32, (bytes >> 32) as i32, 0, 0, 0] }
    }

    /// Bytes received.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | (u64::from(self.internal[1] as u32) << 32)
    }

    /// Sets the bytes received.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as i32;
        self.internal[1] = (bytes >> 32) as i32;
    }

    /// Whether the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Marks the operation as cancelled or not.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = i32::from(cancelled);
    }
}
