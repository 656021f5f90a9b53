//! Messages that have arrived.

use crate::operation::HEADER_MAX;
use crate::worker::Held;

/// An active message.
#[derive(Debug)]
pub struct Message {
    pub(crate) header: [u8; HEADER_MAX],
    pub(crate) header_len: u8,
    /// What came with the header.
    pub payload: Payload,
}

impl Message {
    /// The header as it was sent.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }
}

/// The data of a message. What is not given back ([`crate::Worker::release`]) stays until the end of the worker.
#[derive(Debug)]
pub enum Payload {
    /// In memory of this process's own.
    Copied(Box<[u8]>),
    /// In memory of the library.
    Held(Held),
    /// Still at the sender: [`crate::Worker::receive`] gets it.
    Offered(Held),
}

impl Payload {
    /// Nothing.
    pub fn none() -> Payload {
        Payload::Copied(Box::default())
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Copied(bytes) => bytes.len(),
            Payload::Held(held) | Payload::Offered(held) => held.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
