//! Memory that several kernels share, such as the region of an ivshmem device: who owns which part of it.
//!
//! ```text
//! page 0: magic, bytes, random id │ where the next search begins
//! then:   one entry per block: owner, beat
//! then:   the blocks, 256 to 1024 of them
//! ```
//! All zeroes is an empty region, so that whoever comes first makes it by setting the magic; the file of a hypervisor begins so. An owner is
//! a random number, a *beat* the time when it last said that it lives. Between kernels nobody can ask whether a process lives, and
//! their clocks may differ: an entry whose beat is old is taken from its owner only if it has also not changed while it was watched
//! ([`Region::reclaim`]). An owner that was stopped for longer than its lease learns from [`Region::beat`] that it has lost its part.
//!
//! Everybody who can open the region can write anything anywhere. Sizes follow from the size of the file, never from what is
//! written there; what an entry says is compared, not used. So nonsense costs room or a lane, never more.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use sys::mem::Mapping;

const MAGIC: u64 = u64::from_le_bytes(*b"ferrreg\x01");
const PAGE: usize = 4096;
/// Most blocks of a region.
const BLOCKS_MAX: usize = 1024;
const ENTRY_BYTES: usize = 16;
/// Bytes in front of the first block that anybody may own.
const HEAD_BYTES: usize = PAGE + BLOCKS_MAX * ENTRY_BYTES;
/// The least useful size.
const BYTES_MIN: u64 = 256 << 10;

const AT_MAGIC: usize = 0;
const AT_BYTES: usize = 8;
const AT_ID: usize = 16;
const AT_NEXT: usize = 32;

/// A region, as one process sees it.
#[derive(Debug)]
pub struct Region {
    head: Mapping,
    file: File,
    bytes: u64,
    blocks: usize,
    block_bytes: usize,
    id: u128,
}

/// Blocks in a row that an owner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    owner: u64,
    first: usize,
    count: usize,
}

/// What the entries said at some time.
pub type Seen = Vec<(u64, u64)>;

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, what.into())
}

impl Region {
    /// The region in the file or device at `path`; made if it is empty. `random` must be.
    pub fn open(path: &Path, random: u128) -> Result<Region> {
        Region::in_file(sys::shared_file::open_shared(path)?, random)
    }

    /// The file at `path`, if it is still the region with this id.
    pub fn open_file(path: &Path, id: u128) -> Result<File> {
        let region = Region::open(path, id)?;
        if region.id == id { Ok(region.file) } else { Err(bad("it is another region now")) }
    }

    /// The region in an open file; made if it is empty.
    pub fn in_file(file: File, random: u128) -> Result<Region> {
        let bytes = file.metadata()?.len();
        if bytes < BYTES_MIN {
            return Err(bad(format!("it has {bytes} bytes; at least {BYTES_MIN} are needed")));
        }
        let least = (bytes / BLOCKS_MAX as u64).max(1);
        let block_bytes = usize::try_from(least.next_power_of_two()).map_err(|_| bad("it is too large"))?.max(PAGE);
        let blocks = (bytes / block_bytes as u64) as usize;
        let head = Mapping::of_part(&file, 0, HEAD_BYTES)?;
        let mut region = Region { head, file, bytes, blocks, block_bytes, id: 0 };
        // SYNC(region.magic): size and id are there if it is.
        if region.word(AT_MAGIC).load(Acquire) != MAGIC {
            region.make(random)?;
        }
        let found = region.word(AT_BYTES).load(Acquire);
        if found != bytes {
            return Err(bad(format!("it says that it has {found} bytes, but it has {bytes}")));
        }
        let id = [AT_ID, AT_ID + 8].map(|at| u128::from(region.word(at).load(Acquire)));
        region.id = id[0] | id[1] << 64;
        Ok(region)
    }

    /// Makes an empty region, perhaps together with others that do the same now.
    fn make(&self, random: u128) -> Result<()> {
        let settled = [AT_BYTES, AT_ID, AT_ID + 8];
        let empty = |at: usize| self.word(at).load(Acquire) == 0;
        let is_empty = (0..HEAD_BYTES).step_by(8).all(|at| settled.contains(&at) || empty(at));
        if !is_empty && self.word(AT_MAGIC).load(Acquire) != MAGIC {
            return Err(bad("something else is in it: it must be all zeroes before its first use"));
        }
        let values = [self.bytes, random as u64 | 1, (random >> 64) as u64 | 1];
        for (at, value) in settled.into_iter().zip(values) {
            let _ = self.word(at).compare_exchange(0, value, AcqRel, Acquire);
        }
        // SYNC(region.magic): whoever sees it sees the words above.
        match self.word(AT_MAGIC).compare_exchange(0, MAGIC, AcqRel, Acquire) {
            Err(found) if found != MAGIC => Err(bad("something else was written into it just now")),
            _ => Ok(()),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < HEAD_BYTES && at.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned, and everybody accesses it atomically.
        unsafe { &*self.head.as_ptr().add(at).cast::<AtomicU64>() }
    }

    fn owner(&self, block: usize) -> &AtomicU64 {
        self.word(PAGE + block.min(BLOCKS_MAX - 1) * ENTRY_BYTES)
    }

    fn beat_of(&self, block: usize) -> &AtomicU64 {
        self.word(PAGE + block.min(BLOCKS_MAX - 1) * ENTRY_BYTES + 8)
    }

    /// Its random name.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Bytes of a block, a multiple of the page.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Bytes that can be owned at all.
    pub fn capacity(&self) -> u64 {
        ((self.blocks - self.first()) * self.block_bytes) as u64
    }

    /// The first block that can be owned.
    fn first(&self) -> usize {
        HEAD_BYTES.div_ceil(self.block_bytes)
    }

    /// Claims blocks in a row for at least `bytes`; none if there are not so many free. Parts are handed out in turn, so that what is given
    /// back is used again late: its last user's peers may still write there for a moment.
    pub fn claim(&self, owner: u64, bytes: u64, now_ms: u64) -> Option<Extent> {
        let count = usize::try_from(bytes.div_ceil(self.block_bytes as u64)).ok()?.max(1);
        let (low, high) = (self.first(), self.blocks);
        if owner == 0 || count > high - low {
            return None;
        }
        let next = usize::try_from(self.word(AT_NEXT).load(Relaxed)).unwrap_or(0);
        let start = if (low..high).contains(&next) { next } else { low };
        let found = self.search(owner, count, now_ms, start..high);
        let first = found.or_else(|| self.search(owner, count, now_ms, low..high))?;
        self.word(AT_NEXT).store((first + count) as u64, Relaxed);
        Some(Extent { owner, first, count })
    }

    fn search(&self, owner: u64, count: usize, now_ms: u64, range: std::ops::Range<usize>) -> Option<usize> {
        let mut first = range.start;
        while first + count <= range.end {
            // SYNC(region.owner): what the last owner wrote may now be overwritten.
            let take = |block: &usize| self.owner(*block).compare_exchange(0, owner, AcqRel, Relaxed).is_ok();
            let Some(taken) = (first..first + count).find(|block| !take(block)) else {
                let extent = Extent { owner, first, count };
                self.beat(&extent, now_ms);
                return Some(first);
            };
            self.release(&Extent { owner, first, count: taken - first });
            first = taken + 1;
        }
        None
    }

    /// Says that the owner lives; false if somebody has taken a block from it.
    pub fn beat(&self, extent: &Extent, now_ms: u64) -> bool {
        let mine = |block| self.owner(block).load(Acquire) == extent.owner;
        let blocks = extent.first..extent.first + extent.count;
        blocks.clone().filter(|block| mine(*block)).for_each(|block| self.beat_of(block).store(now_ms, Release));
        blocks.into_iter().all(mine)
    }

    /// Gives an extent back.
    pub fn release(&self, extent: &Extent) {
        // SYNC(region.owner): what was done there is done before it is claimed again.
        for block in extent.first..extent.first + extent.count {
            let _ = self.owner(block).compare_exchange(extent.owner, 0, AcqRel, Relaxed);
        }
    }

    /// What the entries say now.
    pub fn watch(&self) -> Seen {
        (0..self.blocks).map(|b| (self.owner(b).load(Acquire), self.beat_of(b).load(Acquire))).collect()
    }

    /// Takes blocks from owners that have not said for `lease_ms` that they live, nor since `seen`; how many.
    pub fn reclaim(&self, seen: &Seen, now_ms: u64, lease_ms: u64) -> usize {
        let silent = |(block, (owner, beat)): &(usize, &(u64, u64))| {
            *owner != 0 && self.beat_of(*block).load(Acquire) == *beat && now_ms.abs_diff(*beat) >= lease_ms
        };
        let take = |(block, (owner, _)): &(usize, &(u64, u64))| {
            self.owner(*block).compare_exchange(*owner, 0, AcqRel, Relaxed).is_ok()
        };
        seen.iter().enumerate().take(self.blocks).filter(silent).filter(take).count()
    }

    /// Where an extent lies: offset and bytes.
    pub fn place(&self, extent: &Extent) -> (u64, usize) {
        ((extent.first * self.block_bytes) as u64, extent.count * self.block_bytes)
    }

    /// Which block an extent begins with.
    pub fn block(&self, extent: &Extent) -> u32 {
        extent.first as u32
    }

    fn note_at(&self, block: u32) -> Result<Mapping> {
        let block = block as usize;
        if !(self.first()..self.blocks).contains(&block) {
            return Err(bad("no such block"));
        }
        Mapping::of_part(&self.file, (block * self.block_bytes) as u64, PAGE)
    }

    /// Leaves a random number in the first block of an extent, for others to find.
    pub fn leave(&self, extent: &Extent, nonce: u128) -> Result<()> {
        let page = self.note_at(self.block(extent))?;
        for (i, half) in [nonce as u64, (nonce >> 64) as u64].into_iter().enumerate() {
            // SAFETY: the first words of a mapped page.
            unsafe { &*page.as_ptr().cast::<AtomicU64>().add(i) }.store(half, Release);
        }
        Ok(())
    }

    /// The number that somebody has left in a block.
    pub fn find(&self, block: u32) -> Result<u128> {
        let page = self.note_at(block)?;
        // SAFETY: as above.
        let half = |i: usize| u128::from(unsafe { &*page.as_ptr().cast::<AtomicU64>().add(i) }.load(Acquire));
        Ok(half(0) | half(1) << 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, bytes: u64) -> Temporary {
            let path = std::env::temp_dir().join(format!("ferrule-region-{name}-{}", std::process::id()));
            File::create(&path).unwrap().set_len(bytes).unwrap();
            Temporary(path)
        }

        fn open(&self, random: u128) -> Result<Region> {
            Region::open(&self.0, random)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn who_comes_first_makes_it() {
        let file = Temporary::new("make", 1 << 20);
        let (a, b) = (file.open(5 << 64 | 7).unwrap(), file.open(99).unwrap());
        assert_eq!((a.id(), b.id()), (5 << 64 | 7, 5 << 64 | 7));
        assert!(Region::open_file(&file.0, a.id()).is_ok() && Region::open_file(&file.0, 1).is_err());
        std::fs::File::options().write(true).open(&file.0).unwrap().set_len(2 << 20).unwrap();
        assert!(file.open(1).unwrap_err().to_string().contains("it says that it has 1048576 bytes"));
    }

    #[test]
    fn many_make_it_at_once() {
        let file = Temporary::new("race", 1 << 20);
        let ids: Vec<u128> = std::thread::scope(|scope| {
            let makers: Vec<_> = (1..9u128)
                .map(|i| {
                    scope.spawn({
                        let f = &file;
                        move || f.open(i << 64 | i).unwrap().id()
                    })
                })
                .collect();
            makers.into_iter().map(|m| m.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0] && *id != 0));
    }

    #[test]
    fn garbage_and_small_files_are_refused() {
        let file = Temporary::new("garbage", 1 << 20);
        std::fs::write(&file.0, vec![0xa5; 1 << 20]).unwrap();
        assert!(file.open(1).unwrap_err().to_string().contains("something else is in it"));
        let mut nearly = vec![0; 1 << 20];
        nearly[HEAD_BYTES - 1] = 1;
        std::fs::write(&file.0, &nearly).unwrap();
        assert!(file.open(1).is_err());
        assert!(Temporary::new("small", 4096).open(1).is_err());
        assert!(Region::open(Path::new("/dev/null"), 1).is_err() && Region::open(Path::new("/tmp"), 1).is_err());
    }

    #[test]
    fn extents_never_overlap_and_come_back() {
        let file = Temporary::new("extents", 1 << 20);
        let region = file.open(1).unwrap();
        let claim = |owner, bytes| region.claim(owner, bytes, 10);
        let mut held = Vec::new();
        while let Some(extent) = claim(held.len() as u64 + 1, 100_000) {
            held.push(extent);
        }
        assert!(held.len() as u64 == region.capacity() / 102_400 && held.len() > 8, "{}", held.len());
        let mut places: Vec<_> = held.iter().map(|e| region.place(e)).collect();
        places.sort();
        assert!(places.windows(2).all(|w| w[0].0 + w[0].1 as u64 <= w[1].0));
        assert!(places[0].0 >= HEAD_BYTES as u64 && places.last().unwrap().0 + 102_400 <= 1 << 20);
        region.release(&held[3]);
        assert_eq!(claim(50, 100_000).map(|e| e.first), Some(held[3].first));
        assert!(!region.beat(&held[3], 11) && region.beat(&held[4], 11), "the old owner learns that it is not his");
        assert!(claim(51, 2 << 20).is_none() && claim(0, 1).is_none());
    }

    #[test]
    fn only_the_silent_lose_their_blocks() {
        let file = Temporary::new("lease", 1 << 20);
        let region = file.open(1).unwrap();
        let (dead, alive, skewed) =
            (region.claim(1, 1, 1000).unwrap(), region.claim(2, 1, 1000).unwrap(), region.claim(3, 1, 90_000).unwrap());
        let seen = region.watch();
        region.beat(&alive, 1001);
        region.beat(&skewed, 90_001);
        assert_eq!(region.reclaim(&seen, 1500, 30_000), 0, "it was heard of not long ago");
        assert_eq!(region.reclaim(&seen, 40_000, 30_000), 1);
        assert!(!region.beat(&dead, 1) && region.beat(&alive, 2) && region.beat(&skewed, 3));
    }

    #[test]
    fn a_number_is_found_by_others() {
        let file = Temporary::new("nonce", 1 << 20);
        let (a, b) = (file.open(1).unwrap(), file.open(1).unwrap());
        let extent = a.claim(1, 1, 0).unwrap();
        a.leave(&extent, 3 << 100 | 9).unwrap();
        assert_eq!(b.find(a.block(&extent)).unwrap(), 3 << 100 | 9);
        assert!(b.find(0).is_err() && b.find(u32::MAX).is_err());
    }

    #[test]
    fn entries_of_strangers_do_no_harm() {
        let file = Temporary::new("hostile", 1 << 20);
        let region = file.open(1).unwrap();
        let mut state = 7u64;
        for at in (AT_NEXT..HEAD_BYTES).step_by(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            region.word(at).store(state, Relaxed);
        }
        assert!(region.claim(5, 4096, 1).is_none());
        let seen = region.watch();
        assert!(region.reclaim(&seen, 1, 1000) > 100);
        assert!(region.claim(5, 4096, 1).is_some());
    }
}
