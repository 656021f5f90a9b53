//! A region shared between kernels, in which anybody writes anything at any time. What is handed out lies inside the region and behind its
//! head, whatever its words say; and while nobody interferes, blocks have one owner, and only the silent lose theirs.

use crate::input::Input;
use shm::region::{Extent, Region, Seen};
use std::fs::File;
use sys::mem::Mapping;

/// Where entries begin, and their end.
const ENTRIES: usize = 4096;
const HEAD: usize = ENTRIES + 1024 * 16;
const LEASE_MS: u64 = 100;

/// What an honest region says: owner and beat of each block.
struct Model(Vec<(u64, u64)>);

impl Model {
    fn range(region: &Region, extent: &Extent) -> std::ops::Range<usize> {
        let (offset, len) = region.place(extent);
        let first = offset as usize / region.block_bytes();
        first..first + len / region.block_bytes()
    }

    /// Whether `count` blocks in a row are free, from `first` on.
    fn has_room(&self, first: usize, count: usize) -> bool {
        self.0[first..].windows(count).any(|blocks| blocks.iter().all(|(owner, _)| *owner == 0))
    }

    fn set(&mut self, region: &Region, extent: &Extent, (from, to): (u64, u64), now: u64) {
        for (owner, beat) in &mut self.0[Model::range(region, extent)] {
            if *owner == from {
                (*owner, *beat) = (to, if to == 0 { *beat } else { now });
            }
        }
    }

    fn reclaim(&mut self, seen: &Seen, now: u64) -> usize {
        let silent = |((owner, beat), (old, then)): &(&mut (u64, u64), &(u64, u64))| {
            *old != 0 && owner == old && beat == then && now.abs_diff(*then) >= LEASE_MS
        };
        self.0.iter_mut().zip(seen).filter(silent).map(|(entry, _)| entry.0 = 0).count()
    }
}

struct Story {
    bytes: u64,
    file: File,
    raw: Mapping,
    region: Region,
    honest: bool,
    model: Model,
    held: Vec<(Extent, u64)>,
    seen: Seen,
    now: u64,
}

fn file_of(bytes: u64) -> File {
    File::from(sys::mem::sealed_memfd(c"region", bytes as usize).expect("memory"))
}

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = [256 << 10, (256 << 10) + 4095, (1 << 20) - 1, (4 << 20) + 4096, (1 << 30) + 5, 1 << 40];
    let bytes = sizes[input.below(sizes.len())];
    let file = file_of(bytes);
    let raw = Mapping::of_part(&file, 0, HEAD).expect("its head");
    let foreign = input.below(4);
    for _ in 0..foreign {
        spoil(&mut input, &raw);
    }
    let opened = Region::in_file(file.try_clone().expect("a descriptor"), 7 << 64 | 9);
    assert!(foreign > 0 || opened.is_ok(), "an empty region is refused: {opened:?}");
    let Ok(region) = opened else { return };
    let (block, blocks) = (region.block_bytes(), (bytes / region.block_bytes() as u64) as usize);
    assert!(block.is_multiple_of(4096) && blocks <= 1024 && region.capacity() < bytes);
    let model = Model(vec![(0, 0); blocks]);
    let honest = foreign == 0;
    let mut story = Story { bytes, file, raw, region, honest, model, held: Vec::new(), seen: Vec::new(), now: 1000 };
    while !input.is_empty() {
        story.step(&mut input);
    }
}

impl Story {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 12 {
            0..=2 => self.claim(input),
            3 => self.now = self.now.wrapping_add_signed(input.evil() % 1000),
            4 => self.beat(input),
            5 => self.release(input),
            6 => {
                self.seen = self.region.watch();
                assert!(!self.honest || self.seen == self.model.0, "the entries are other ones");
            }
            7 => self.reclaim(),
            8 => self.notes(input),
            9 => self.open_again(),
            10 => {
                spoil(input, &self.raw);
                self.honest = false;
            }
            // Somebody who follows the rules, but has no extent of ours.
            _ => drop(self.region.find(input.word())),
        }
    }

    fn claim(&mut self, input: &mut Input<'_>) {
        let (owner, block) = (1 + input.below(5) as u64, self.region.block_bytes() as u64);
        let wanted =
            if input.flag() { input.evil() as u64 } else { block * input.below(40) as u64 + input.below(3) as u64 };
        let count = wanted.div_ceil(block).max(1);
        let Some(extent) = self.region.claim(owner, wanted, self.now) else {
            let first = HEAD.div_ceil(block as usize);
            let fits = count <= (self.model.0.len() - first) as u64;
            assert!(
                !(self.honest && fits && self.model.has_room(first, count as usize)),
                "{count} free blocks aren't found"
            );
            return;
        };
        let (offset, len) = self.region.place(&extent);
        assert!(
            offset >= HEAD as u64 && offset + len as u64 <= self.bytes && len as u64 >= wanted,
            "{extent:?} of {}",
            self.bytes
        );
        if self.honest {
            let range = Model::range(&self.region, &extent);
            assert!(self.model.0[range].iter().all(|(owner, _)| *owner == 0), "{extent:?} has an owner");
            self.model.set(&self.region, &extent, (0, owner), self.now);
        }
        self.held.push((extent, owner));
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<(Extent, u64)> {
        if self.held.is_empty() { None } else { Some(self.held[input.below(self.held.len())]) }
    }

    fn beat(&mut self, input: &mut Input<'_>) {
        let Some((extent, owner)) = self.pick(input) else { return };
        let all_mine = self.region.beat(&extent, self.now);
        if self.honest {
            let range = Model::range(&self.region, &extent);
            assert_eq!(all_mine, self.model.0[range].iter().all(|(o, _)| *o == owner));
            self.model.set(&self.region, &extent, (owner, owner), self.now);
        }
    }

    /// An extent stays among those that are held: to give it back twice, or after it was taken, must harm nobody else.
    fn release(&mut self, input: &mut Input<'_>) {
        let Some((extent, owner)) = self.pick(input) else { return };
        self.region.release(&extent);
        self.model.set(&self.region, &extent, (owner, 0), 0);
    }

    fn reclaim(&mut self) {
        let count = self.region.reclaim(&self.seen, self.now, LEASE_MS);
        if self.honest {
            assert_eq!(count, self.model.reclaim(&self.seen, self.now), "blocks that were taken from the silent");
        }
    }

    fn notes(&mut self, input: &mut Input<'_>) {
        let Some((extent, _)) = self.pick(input) else { return };
        let nonce = u128::from(input.long()) << 64 | u128::from(input.word());
        self.region.leave(&extent, nonce).expect("a page of a block");
        assert_eq!(self.region.find(self.region.block(&extent)).expect("a page of a block"), nonce);
    }

    fn open_again(&mut self) {
        let again = Region::in_file(self.file.try_clone().expect("a descriptor"), 1);
        match again {
            Ok(again) if self.honest => assert_eq!(again.id(), self.region.id()),
            Err(e) if self.honest => panic!("an honest region is refused: {e}"),
            _ => {}
        }
    }
}

/// Overwrites a word: of the first ones, or of an entry.
fn spoil(input: &mut Input<'_>, raw: &Mapping) {
    let word = if input.flag() { input.below(8) } else { (ENTRIES + input.below(HEAD - ENTRIES)) / 8 };
    let value = match input.byte() % 4 {
        0 => u64::from_le_bytes(*b"ferrreg\x01"),
        1 => input.below(6) as u64,
        2 => input.evil() as u64,
        _ => input.long(),
    };
    // SAFETY: a word of the mapping; nobody holds a reference to anything but atomics in it.
    unsafe { raw.as_ptr().cast::<u64>().add(word).write_volatile(value) };
}
