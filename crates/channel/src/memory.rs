//! Registered memory: what this process lets its peers read and write, and how it reaches theirs.
//!
//! Peers that may read this process's memory check a registration in its [`Record`] before they touch anything: nonce, address and length, at an
//! address that the key names. Records stay where they are for ever, so that an old key finds one that says no. The check finds faults of
//! programs; it is no fence: as at the end of an MPI window, accesses are over before memory is deregistered.

use crate::buffer::{RecvBuf, SendBuf, copy_bytes};
use crate::single_copy::SingleCopy;
use protocol::memory::{Atomic, Change, Key, Registry, Verbs, is_inside};
use protocol::transport::{Access, Region};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Memory of the program that peers may read and write while it is registered.
#[derive(Clone, Copy, Debug)]
pub struct Exposed {
    ptr: *mut u8,
    len: usize,
}

impl Exposed {
    /// `len` bytes at `ptr`.
    ///
    /// # Safety
    /// They stay readable and writable until they are deregistered, and at least as long as this or a copy of it is in use. The program
    /// expects peers to read and write them at any time (MPI-5.0, 12.7).
    pub unsafe fn new(ptr: *mut u8, len: usize) -> Exposed {
        Exposed { ptr, len }
    }

    /// Where it begins, and its bytes.
    pub fn place(&self) -> (*mut u8, usize) {
        (self.ptr, self.len)
    }
}

impl Region for Exposed {
    type Source = SendBuf;
    type Sink = RecvBuf;

    fn len(&self) -> usize {
        self.len
    }

    fn source(&self, at: usize, len: usize) -> SendBuf {
        let at = at.min(self.len);
        // SAFETY: inside of what `new` was promised; what is read while others write is the program's matter.
        unsafe { SendBuf::contiguous(self.ptr.wrapping_add(at), len.min(self.len - at)) }
    }

    fn sink(&self) -> RecvBuf {
        // SAFETY: as for `source`.
        unsafe { RecvBuf::contiguous(self.ptr, self.len) }
    }

    fn atomic(&self, at: usize, atomic: &Atomic) -> u64 {
        let place = self.ptr.wrapping_add(at);
        if !atomic.fits(self.len as u64, at as u64) || !place.addr().is_multiple_of(usize::from(atomic.width)) {
            return self.atomic_anywhere(at, atomic);
        }
        match atomic.width {
            // SAFETY: inside of what `new` was promised, and aligned.
            4 => u64::from(change_u32(unsafe { AtomicU32::from_ptr(place.cast()) }, atomic)),
            // SAFETY: as above.
            _ => change_u64(unsafe { AtomicU64::from_ptr(place.cast()) }, atomic),
        }
    }
}

impl Exposed {
    /// A number at an odd address: all changes of it are made by this process, in its critical section.
    #[cold]
    fn atomic_anywhere(&self, at: usize, atomic: &Atomic) -> u64 {
        let width = usize::from(atomic.width).min(8);
        if !is_inside(self.len as u64, at as u64, width as u64) {
            return 0;
        }
        let mut word = [0u8; 8];
        // SAFETY: `width` bytes, inside of what `new` was promised.
        unsafe { copy_bytes(self.ptr.add(at), word.as_mut_ptr(), width) };
        let before = u64::from_le_bytes(word);
        let after = atomic.apply(before).to_le_bytes();
        // SAFETY: as above.
        unsafe { copy_bytes(after.as_ptr(), self.ptr.add(at), width) };
        before
    }
}

fn change_u32(number: &AtomicU32, atomic: &Atomic) -> u32 {
    match atomic.change {
        Change::Add(n) => number.fetch_add(n as u32, Ordering::AcqRel),
        Change::Swap(new) => number.swap(new as u32, Ordering::AcqRel),
        Change::CompareSwap { expected, new } => number
            .compare_exchange(expected as u32, new as u32, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|found| found),
    }
}

fn change_u64(number: &AtomicU64, atomic: &Atomic) -> u64 {
    match atomic.change {
        Change::Add(n) => number.fetch_add(n, Ordering::AcqRel),
        Change::Swap(new) => number.swap(new, Ordering::AcqRel),
        Change::CompareSwap { expected, new } => {
            number.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| found)
        }
    }
}

/// A registration, as peers read it: nonce (0 if it is over), address, length.
type Record = [AtomicU64; 3];
/// Bytes of a record.
const RECORD_BYTES: usize = size_of::<Record>();

/// What this process has registered.
#[derive(Debug, Default)]
pub struct Registered {
    registry: Registry<Exposed>,
    /// By number.
    #[expect(clippy::vec_box, reason = "peers know their addresses")]
    records: Vec<Box<Record>>,
}

impl Registered {
    /// Registers memory; its key.
    pub fn register(&mut self, region: Exposed) -> Key {
        let nonce = u64::from_le_bytes(sys::process::random()).max(1);
        let number = self.registry.insert(nonce, region);
        while self.records.len() <= number as usize {
            self.records.push(Box::default());
        }
        let record = &self.records[number as usize];
        record[1].store(region.ptr.expose_provenance() as u64, Ordering::Relaxed);
        record[2].store(region.len as u64, Ordering::Relaxed);
        record[0].store(nonce, Ordering::Relaxed);
        let record = (&raw const **record).addr() as u64;
        Key { number, nonce, len: region.len as u64, record }
    }

    /// Ends a registration.
    pub fn deregister(&mut self, key: &Key) -> bool {
        let is_known = self.registry.remove(key.number, key.nonce).is_some();
        if is_known {
            self.records[key.number as usize][0].store(0, Ordering::Relaxed);
        }
        is_known
    }

    /// What is registered so.
    pub fn find(&self, number: u32, nonce: u64) -> Option<Exposed> {
        self.registry.find(number, nonce).copied()
    }

    fn part(&self, key: &Key, at: u64, len: usize) -> Option<*mut u8> {
        let region = self.find(key.number, key.nonce)?;
        is_inside(region.len as u64, at, len as u64).then(|| region.ptr.wrapping_add(at as usize))
    }

    /// Writes to memory of this very process.
    pub fn put(&self, key: &Key, at: u64, source: &SendBuf) -> Access {
        let Some(place) = self.part(key, at, source.len()) else { return Access::Refused };
        // By way of a buffer, because the two may overlap.
        let mut bytes = vec![0; source.len()];
        // SAFETY: `bytes` is as long as the source; the place was registered, for so many bytes.
        unsafe {
            source.copy_out(0, bytes.as_mut_ptr(), bytes.len());
            copy_bytes(bytes.as_ptr(), place, bytes.len());
        }
        Access::Done(0)
    }

    /// Reads memory of this very process.
    pub fn get(&self, key: &Key, at: u64, sink: &RecvBuf) -> Access {
        let Some(place) = self.part(key, at, sink.len()) else { return Access::Refused };
        let mut bytes = vec![0; sink.len()];
        // SAFETY: the place was registered, for so many bytes; `bytes` is as long as the sink.
        unsafe {
            copy_bytes(place, bytes.as_mut_ptr(), bytes.len());
            sink.copy_in(0, bytes.as_ptr(), bytes.len());
        }
        Access::Done(0)
    }

    /// Changes a number of this very process.
    pub fn atomic(&self, key: &Key, at: u64, atomic: &Atomic) -> Access {
        match self.find(key.number, key.nonce).filter(|region| atomic.fits(region.len as u64, at)) {
            Some(region) => Access::Done(region.atomic(at as usize, atomic)),
            None => Access::Refused,
        }
    }
}

/// Where `len` bytes at `at` of what a peer has registered are in its memory, if its record says so.
fn locate(single: &mut SingleCopy, key: &Key, at: u64, len: usize) -> Result<u64, Access> {
    let mut record = [0u8; RECORD_BYTES];
    // SAFETY: the array is as long as said.
    unsafe { single.read(key.record, record.as_mut_ptr(), RECORD_BYTES) }?;
    let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|j| record[8 * i + j]));
    let (nonce, address, whole) = (word(0), word(1), word(2));
    match nonce == key.nonce && nonce != 0 && is_inside(whole, at, len as u64) {
        true => Ok(address.wrapping_add(at)),
        false => Err(Access::Refused),
    }
}

/// What single copy does with registered memory of a peer.
pub fn verbs(single: &SingleCopy) -> Verbs {
    Verbs { put: single.can_write(), get: single.name().is_some(), atomic: false }
}

/// Writes to memory of the peer of `single`.
pub fn put(single: &mut SingleCopy, key: &Key, at: u64, source: &SendBuf) -> Access {
    if !single.can_write() {
        return Access::Unable;
    }
    locate(single, key, at, source.len()).map_or_else(|access| access, |address| single.write(address, source))
}

/// Reads memory of the peer of `single`.
pub fn get(single: &mut SingleCopy, key: &Key, at: u64, sink: &RecvBuf) -> Access {
    match locate(single, key, at, sink.len()) {
        Ok(address) if single.pull(address, sink, sink.len()) => Access::Done(0),
        Ok(_) => Access::Unable,
        Err(access) => access,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_odd_addresses_change_like_others() {
        let mut bytes = [0u8; 32];
        // SAFETY: the array outlives the region.
        let region = unsafe { Exposed::new(bytes.as_mut_ptr().wrapping_add(1), 24) };
        for width in [4, 8] {
            let change = |change| region.atomic(8, &Atomic { change, width });
            assert_eq!(change(Change::Swap(5)), 0);
            assert_eq!(change(Change::Add(2)), 5);
            assert_eq!(change(Change::CompareSwap { expected: 7, new: 0 }), 7);
            assert_eq!(change(Change::CompareSwap { expected: 7, new: 1 }), 0);
        }
        assert_eq!(bytes, [0; 32]);
    }

    #[test]
    fn own_memory_may_overlap() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let mut registered = Registered::default();
        let base = bytes.as_mut_ptr();
        // SAFETY: the vector outlives all of them, and is only looked at afterwards.
        let (region, source) = unsafe { (Exposed::new(base, 100), SendBuf::contiguous(base, 60)) };
        let key = registered.register(region);
        assert_eq!(registered.put(&key, 10, &source), Access::Done(0));
        let expected: Vec<u8> = (0..10).chain(0..60).chain(70..100).collect();
        assert_eq!(bytes, expected);
    }
}
