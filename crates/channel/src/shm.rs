//! The shared-memory lane: packets through the ring that a sender has in the receiver's inbox.
//!
//! A process has one [`ShmHub`] (its own inbox, its bell, what its peers may know of it) and one [`ShmLane`] per peer of its node
//! that it has sent to. Peers are numbered by their index on the node, the *slot*: the sender with slot `s` owns ring `s` of every
//! inbox. The descriptors go through the node agent: inbox, bell, heap, memory ([`ShmHub::descriptors`]).
//!
//! What is larger than a record should be goes through a cell of the receiver's inbox, or a segment while it lends some: the record then
//! holds the packet's body, the name of that place, and how many bytes are in it ([`SPILLED`]).
//!
//! The short path is straight code: reserve, copy, publish, look whether the peer sleeps. No system call, lock, allocation or
//! atomic read-modify-write.

pub mod heap;
mod hub;
mod lane;
mod waker;

pub use hub::ShmHub;
pub use lane::ShmLane;

use base::Peer;
use protocol::wire::{HEADER_BYTES, Header};
use shm::cells::CellName;
use shm::inbox::Record;
use shm::layout::HEADER_WORDS;
use std::os::fd::OwnedFd;

base::config! {
    /// Size of the ring from one process of a node to another; a power of two.
    RING_BYTES: u64 = 65536, 4096..=1073741824, "bytes";
    /// Cells of 8 KiB in which a process receives large messages from its node; 0 for none.
    CELLS: u64 = 100, 0..=4096, "";
}

/// Fewest and most bytes that a process needs in memory shared with other kernels to receive from so many senders; none if that can't be.
pub fn part_bytes(senders: usize) -> Option<(u64, u64)> {
    let ring_bytes = (RING_BYTES.value() as usize).next_power_of_two();
    let least = shm::layout::inbox_bytes(senders, 4096, 0)?;
    let most = shm::layout::inbox_bytes(senders, ring_bytes, CELLS.value() as usize)?;
    Some((least as u64, most as u64))
}

/// Bit of a header's first byte: the rest of the payload is in a cell. No kind of packet has it, so what doesn't know it refuses
/// the record.
const SPILLED: u64 = 0x80;
/// What such a record ends with: number of the cell, bytes in it.
const SPILL_BYTES: usize = 8;

/// The descriptors that a peer left with its node agent.
#[derive(Debug)]
pub struct PeerFds {
    /// Its inbox.
    pub inbox: OwnedFd,
    /// Whether that is an ordinary file.
    pub in_file: bool,
    /// Its bell; none if it passed no descriptors. It doesn't sleep for long then.
    pub bell: Option<OwnedFd>,
    /// The memory that it shares by parts ([`heap`]).
    pub heap: Option<OwnedFd>,
    /// Its memory, if it could open it.
    pub memory: Option<OwnedFd>,
}

impl PeerFds {
    /// From what came with its endpoint address, in the order of [`ShmHub::descriptors`].
    pub fn from_vec(fds: Vec<OwnedFd>) -> Option<PeerFds> {
        let mut fds = fds.into_iter();
        let (inbox, bell, heap) = (fds.next()?, fds.next()?, fds.next()?);
        Some(PeerFds { inbox, in_file: false, bell: Some(bell), heap: Some(heap), memory: fds.next() })
    }

    /// From the file of its inbox, when no descriptors pass between it and this process.
    pub fn from_file(file: std::fs::File) -> PeerFds {
        PeerFds { inbox: file.into(), in_file: true, bell: None, heap: None, memory: None }
    }
}

/// A packet in the inbox; to be given back by [`ShmHub::release`] before the next poll, or to be left there by [`ShmHub::hold`].
#[derive(Debug)]
pub struct ShmPacket {
    /// Who sent it.
    pub peer: Peer,
    /// What it is.
    pub header: Header,
    record: Record,
    /// Bytes of the payload in the record itself.
    inline: u32,
    /// Bytes of the payload in a cell or segment, behind those.
    spilled: u32,
    cell: CellName,
}

impl ShmPacket {
    /// Bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.inline as usize + self.spilled as usize
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first bytes of the payload; `None` if there are not so many in front of the cell.
    #[inline]
    pub fn body<const N: usize>(&self) -> Option<[u8; N]> {
        if (self.inline as usize) < N {
            return None;
        }
        // SAFETY: the payload has at least N bytes and stays mapped until the packet is released; it is copied out
        // as bytes, whatever they are.
        Some(unsafe { self.record.payload().cast::<[u8; N]>().read_unaligned() })
    }
}

/// What a poll of the hub brings.
#[derive(Debug)]
pub enum ShmEvent {
    /// A packet.
    Packet(ShmPacket),
    /// This peer wrote nonsense; nothing is read from it any more. Logged.
    Lost(Peer),
}

#[inline(always)]
fn header_of(record: &Record) -> Option<Header> {
    decode(record.header())
}

#[inline(always)]
fn decode(words: [u64; HEADER_WORDS]) -> Option<Header> {
    let [a, b, c] = words.map(u64::to_le_bytes);
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&a);
    bytes[8..16].copy_from_slice(&b);
    bytes[16..].copy_from_slice(&c);
    Header::decode(&bytes)
}

#[inline(always)]
fn words_of(header: &Header) -> [u64; HEADER_WORDS] {
    let bytes = header.encode();
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    [word(0), word(8), word(16)]
}
