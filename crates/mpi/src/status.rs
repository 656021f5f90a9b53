//! What a completed operation tells (MPI-5.0, 3.2.5). How that lies in the program's memory, the ABI knows ([`Place`]).

use base::Class;

/// What is known of a completed operation, but for its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender, [`ANY_SOURCE`] or [`PROC_NULL`].
    pub source: i32,
    /// Tag of the message, or [`ANY_TAG`].
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

/// A status of the program.
pub trait Place {
    /// Writes all but the error, which only calls that complete several operations set.
    fn set(&mut self, status: &Status);
    /// Writes the error.
    fn set_error(&mut self, error: Class);
}

/// Where Rust code learns of it; errors it knows by `Result`.
impl Place for Status {
    fn set(&mut self, status: &Status) {
        *self = *status;
    }

    fn set_error(&mut self, _: Class) {}
}

/// `MPI_ANY_SOURCE`, in this crate.
pub const ANY_SOURCE: i32 = -1;
/// `MPI_ANY_TAG`, in this crate.
pub const ANY_TAG: i32 = -2;
/// `MPI_PROC_NULL`, in this crate.
pub const PROC_NULL: i32 = -3;
/// `MPI_ROOT`, in this crate.
pub const ROOT: i32 = -4;
/// `MPI_UNDEFINED`, in this crate.
pub const UNDEFINED: i32 = -32766;
/// Largest tag: the value of `MPI_TAG_UB`.
pub const TAG_UB: i32 = i32::MAX;

impl Status {
    /// The status of a null or inactive request, or of an operation without one.
    pub const EMPTY: Status = Status { source: ANY_SOURCE, tag: ANY_TAG, bytes: 0, cancelled: false };

    /// The status of a communication with `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status { source: PROC_NULL, ..Status::EMPTY };

    /// The status of a received message of `bytes` bytes.
    #[inline]
    pub fn received(source: i32, tag: i32, bytes: u64) -> Status {
        Status { source, tag, bytes, cancelled: false }
    }
}
