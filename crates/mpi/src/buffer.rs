//! Buffers attached for buffered sends (MPI-5.0, 3.6): to a communicator, a session or the process, or automatic.
//!
//! The program's buffer is an allowance: each message uses its size plus `MPI_BSEND_OVERHEAD` of it until it has left,
//! while the bytes wait in memory of our own.

use protocol::engine::OpId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `MPI_BUFFER_AUTOMATIC`.
pub const AUTOMATIC: usize = 2;

/// An attached buffer.
pub struct Buffer {
    address: usize,
    size: usize,
    overhead: usize,
    used: Cell<usize>,
    leaving: RefCell<Vec<(OpId, Box<[u8]>)>>,
}

/// Where a buffer is attached.
pub type Slot = RefCell<Option<Rc<Buffer>>>;

impl Buffer {
    /// `size` bytes at `address` (or `MPI_BUFFER_AUTOMATIC`); `overhead` is the ABI's `MPI_BSEND_OVERHEAD`.
    pub fn new(address: usize, size: usize, overhead: usize) -> Buffer {
        Buffer { address, size, overhead, used: Cell::new(0), leaving: RefCell::default() }
    }

    fn is_automatic(&self) -> bool {
        self.address == AUTOMATIC
    }

    /// The address and size that were attached.
    pub fn attached(&self) -> (usize, usize) {
        (self.address, if self.is_automatic() { 0 } else { self.size })
    }

    /// Whether a message of `len` bytes finds room.
    pub fn has_room(&self, len: usize) -> bool {
        self.is_automatic() || self.used.get() + len + self.overhead <= self.size
    }

    /// Keeps the bytes of a message until it has left.
    pub fn keep(&self, message: OpId, bytes: Box<[u8]>) {
        self.used.set(self.used.get() + bytes.len() + self.overhead);
        self.leaving.borrow_mut().push((message, bytes));
    }

    /// Forgets the messages that have left, as `has_left` says. True if none is left.
    pub fn reap(&self, has_left: impl Fn(OpId) -> bool) -> bool {
        let mut freed = 0;
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|(message, bytes)| {
            let left = has_left(*message);
            freed += if left { bytes.len() + self.overhead } else { 0 };
            !left
        });
        self.used.set(self.used.get() - freed);
        leaving.is_empty()
    }
}
