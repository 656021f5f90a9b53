//! How an inbox lies in memory.
//!
//! ```text
//! page 0: magic, version, sizes, nonce, flags, probe word │ asleep │ bitmap of active senders │ how much of the segments may be used
//! then:   one line per sender: position up to which its ring was consumed │ whether the sender sleeps until there is room
//! then:   one ring per sender, at a fixed place; no page of it exists before it is used
//! then:   one line per cell, one per segment: who holds it
//! then:   the cells, shared by all senders; no page of them exists before it is used
//! then:   the segments, lent to senders while they stream; their pages are removed afterwards
//! ```
//! A peer can write anything anywhere here: every value is copied out once and checked, the worst it can do is garbage in
//! messages or a lost lane.

use crate::cells::States;
use crate::ring::{LINE, Words};
use crate::sleep::OneToOne;
use base::log;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sys::mem::Mapping;

/// Words of a packet header.
pub const HEADER_WORDS: usize = 3;
/// Most senders of an inbox.
pub const SENDERS_MAX: usize = 4096;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ferrule\x01");
pub(crate) const VERSION: u64 = 4;
pub(crate) const PAGE: usize = 4096;

// Places in page 0, in bytes.
pub(crate) const AT_MAGIC: usize = 0;
pub(crate) const AT_VERSION: usize = 8;
pub(crate) const AT_SENDERS: usize = 16;
pub(crate) const AT_RING_BYTES: usize = 24;
pub(crate) const AT_NONCE: usize = 32;
pub(crate) const AT_FLAGS: usize = 48;
pub(crate) const AT_PROBE_ADDRESS: usize = 56;
pub(crate) const AT_PROBE_VALUE: usize = 64;
pub(crate) const AT_CELLS: usize = 72;
pub(crate) const AT_CELL_HINT: usize = 80;
pub(crate) const AT_SEGMENTS: usize = 88;
pub(crate) const AT_SEGMENT_HINT: usize = 96;
pub(crate) const AT_ASLEEP: usize = 128;
pub(crate) const AT_ACTIVE: usize = 192;
pub(crate) const AT_CELLS_OPEN: usize = AT_ACTIVE + SENDERS_MAX / 8;
pub(crate) const AT_SEGMENTS_OPEN: usize = AT_CELLS_OPEN + 8;
pub(crate) const AT_SEGMENT_SHARE: usize = AT_CELLS_OPEN + 16;

/// Bytes of a cell: large enough that claiming one costs little, small enough that the receiver copies out of one while the
/// sender fills the next.
pub const CELL_BYTES: usize = 8192;

/// Most cells of an inbox.
pub const CELLS_MAX: usize = 4096;

/// Bytes of a segment: what a sender borrows at a time, large enough for two of the largest payloads of a record.
pub const SEGMENT_BYTES: usize = 65536;
/// Most segments of an inbox.
pub const SEGMENTS_MAX: usize = 1024;
/// Largest payload in a segment.
pub const PIECE_MAX: usize = SEGMENT_BYTES / 2;

/// How much room for large payloads an inbox has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellCounts {
    /// Cells, for any sender at any time.
    pub cells: usize,
    /// Segments, lent while much is received.
    pub segments: usize,
}

impl CellCounts {
    /// So many cells and no segments.
    pub const fn fixed(cells: usize) -> CellCounts {
        CellCounts { cells, segments: 0 }
    }
}

/// Bytes of an inbox with such rings and cells; none if there can't be one.
pub fn inbox_bytes(senders: usize, ring_bytes: usize, cells: usize) -> Option<usize> {
    Geometry::new(senders, ring_bytes, CellCounts::fixed(cells)).map(Geometry::bytes)
}

/// Whom the owner is when it holds cells of its own inbox: no sender.
pub(crate) const OWNER: usize = SENDERS_MAX;

/// Flag: the owner's barrier before it sleeps also runs on registered senders.
pub(crate) const FLAG_BARRIER: u64 = 1;

/// What a process tells its peers through its inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Random identity of the owner, known to peers from another source.
    pub nonce: u128,
    /// Where in the owner's private memory `probe_value` lies.
    pub probe_address: u64,
    /// A random word.
    pub probe_value: u64,
}

/// Sizes of an inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) senders: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) cells: CellCounts,
}

impl Geometry {
    pub(crate) fn new(senders: usize, ring_bytes: usize, cells: CellCounts) -> Option<Geometry> {
        let sound = (1..=SENDERS_MAX).contains(&senders)
            && ring_bytes.is_power_of_two()
            && (PAGE..=1 << 30).contains(&ring_bytes)
            && cells.cells <= CELLS_MAX
            && cells.segments <= SEGMENTS_MAX;
        sound.then_some(Geometry { senders, ring_bytes, cells })
    }

    /// The largest one of at most `room` bytes, rings of at most `ring_bytes` and so many cells: rings shrink as long as they take more
    /// than half of it, cells get what they leave.
    pub(crate) fn within(room: usize, senders: usize, ring_bytes: usize, cells: usize) -> Option<Geometry> {
        let mut ring_bytes = ring_bytes;
        while ring_bytes > PAGE && senders.saturating_mul(ring_bytes) > room / 2 {
            ring_bytes /= 2;
        }
        let bare = Geometry::new(senders, ring_bytes, CellCounts::fixed(0))?;
        let left = room.checked_sub(bare.bytes())?;
        // The lines that say who holds a cell are rounded up to pages.
        let fitting = left.saturating_sub(PAGE) / (CELL_BYTES + LINE);
        Geometry::new(senders, ring_bytes, CellCounts::fixed(fitting.min(cells).min(CELLS_MAX)))
    }

    fn consumed_at(self, sender: usize) -> usize {
        PAGE + sender * LINE
    }

    pub(crate) fn ring_at(self, sender: usize) -> usize {
        (PAGE + self.senders * LINE).next_multiple_of(PAGE) + sender * self.ring_bytes
    }

    pub(crate) fn cell_states_at(self) -> usize {
        self.ring_at(self.senders)
    }

    fn segment_states_at(self) -> usize {
        self.cell_states_at() + self.cells.cells * LINE
    }

    /// Where a cell begins, or the last one ends.
    pub(crate) fn cell_at(self, cell: usize) -> usize {
        (self.segment_states_at() + self.cells.segments * LINE).next_multiple_of(PAGE) + cell * CELL_BYTES
    }

    /// Where a segment begins, or the last one ends.
    pub(crate) fn segment_at(self, segment: usize) -> usize {
        self.cell_at(self.cells.cells) + segment * SEGMENT_BYTES
    }

    pub(crate) fn bytes(self) -> usize {
        self.segment_at(self.cells.segments)
    }
}

/// One ring in mapped memory.
#[derive(Debug)]
pub(crate) struct MappedWords {
    ring: *mut u8,
    consumed: *const AtomicU64,
}

impl MappedWords {
    /// Ring `sender` of an inbox.
    ///
    /// # Safety
    /// `area` is mapped for `geometry.bytes()` as long as the result is used; `sender < geometry.senders`.
    pub(crate) unsafe fn new(area: *mut u8, geometry: Geometry, sender: usize) -> MappedWords {
        // SAFETY: both places are inside the area by the definition of `Geometry::bytes`, and 64-byte aligned.
        unsafe {
            MappedWords {
                ring: area.add(geometry.ring_at(sender)),
                consumed: area.add(geometry.consumed_at(sender)).cast(),
            }
        }
    }

    /// Whether the sender sleeps until there is room.
    pub(crate) fn wants_room(&self) -> OneToOne<'_> {
        // SAFETY: the line of the consumed position is mapped, aligned, and has room for another word.
        OneToOne(unsafe { &*self.consumed.add(1).cast::<AtomicU32>() })
    }

    /// What the owner advises the sender, on a line that the sender looks at anyway. Only a hint.
    pub(crate) fn advice(&self) -> &AtomicU32 {
        // SAFETY: as above, for the next half of that word.
        unsafe { &*self.consumed.add(1).cast::<AtomicU32>().add(1) }
    }

    #[inline(always)]
    pub(crate) fn at(&self, line: usize) -> *mut u8 {
        // SAFETY: the ring logic only names lines below the number of lines.
        unsafe { self.ring.add(line * LINE) }
    }

    #[inline(always)]
    fn word(&self, line: usize) -> &AtomicU64 {
        // SAFETY: mapped and aligned (`new`), and only accessed atomically by both sides.
        unsafe { &*self.at(line).cast::<AtomicU64>() }
    }
}

impl Words for MappedWords {
    #[inline(always)]
    fn load(&self, line: usize, order: Ordering) -> u64 {
        self.word(line).load(order)
    }
    #[inline(always)]
    fn store(&self, line: usize, value: u64, order: Ordering) {
        self.word(line).store(value, order);
    }
    #[inline(always)]
    fn load_consumed(&self, order: Ordering) -> u64 {
        // SAFETY: mapped and aligned (`new`).
        unsafe { &*self.consumed }.load(order)
    }
    #[inline(always)]
    fn store_consumed(&self, value: u64, order: Ordering) {
        // SAFETY: as above.
        unsafe { &*self.consumed }.store(value, order);
    }
}

/// The cells, or the segments, in mapped memory.
#[derive(Debug)]
pub(crate) struct MappedCells {
    area: *mut u8,
    count: usize,
    /// Where their states and their data begin, and how far the data of two are apart.
    states_at: usize,
    data_at: usize,
    bytes: usize,
    /// Places of the words that say where a search begins, and how many may be claimed.
    hint_at: usize,
    open_at: usize,
}

impl MappedCells {
    /// The cells of an inbox.
    ///
    /// # Safety
    /// `area` is mapped for `geometry.bytes()` as long as the result is used.
    pub(crate) unsafe fn cells(area: *mut u8, geometry: Geometry) -> MappedCells {
        MappedCells {
            area,
            count: geometry.cells.cells,
            states_at: geometry.cell_states_at(),
            data_at: geometry.cell_at(0),
            bytes: CELL_BYTES,
            hint_at: AT_CELL_HINT,
            open_at: AT_CELLS_OPEN,
        }
    }

    /// The segments of an inbox.
    ///
    /// # Safety
    /// As for [`MappedCells::cells`].
    pub(crate) unsafe fn segments(area: *mut u8, geometry: Geometry) -> MappedCells {
        MappedCells {
            area,
            count: geometry.cells.segments,
            states_at: geometry.segment_states_at(),
            data_at: geometry.segment_at(0),
            bytes: SEGMENT_BYTES,
            hint_at: AT_SEGMENT_HINT,
            open_at: AT_SEGMENTS_OPEN,
        }
    }

    /// First byte of one that exists.
    pub(crate) fn data(&self, cell: usize) -> *mut u8 {
        debug_assert!(cell < self.count);
        self.area.wrapping_add(self.data_at + cell * self.bytes)
    }

    fn state(&self, cell: usize) -> &AtomicU32 {
        assert!(cell < self.count);
        // SAFETY: mapped (`cells`, `segments`), it exists, and lines are 64-byte aligned.
        unsafe { &*self.area.add(self.states_at + cell * LINE).cast::<AtomicU32>() }
    }

    fn hint(&self) -> &AtomicU32 {
        // SAFETY: page 0 is mapped.
        unsafe { &*self.area.add(self.hint_at).cast::<AtomicU32>() }
    }

    fn open(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.area.add(self.open_at).cast::<AtomicU32>() }
    }
}

impl States for MappedCells {
    fn load(&self, cell: usize, order: Ordering) -> u32 {
        self.state(cell).load(order)
    }
    fn store(&self, cell: usize, state: u32, order: Ordering) {
        self.state(cell).store(state, order);
    }
    fn claim(&self, cell: usize, state: u32, success: Ordering) -> bool {
        self.state(cell).compare_exchange(0, state, success, Ordering::Relaxed).is_ok()
    }
    fn load_hint(&self) -> u32 {
        self.hint().load(Ordering::Relaxed)
    }
    fn store_hint(&self, cell: u32) {
        self.hint().store(cell, Ordering::Relaxed);
    }
    fn load_open(&self, order: Ordering) -> u32 {
        self.open().load(order)
    }
    fn store_open(&self, cells: u32) {
        self.open().store(cells, Ordering::Relaxed);
    }
    fn fence(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// Gives the memory of segments back to the kernel, if it takes it. Whoever calls this holds them.
pub(crate) fn remove_segments(mapping: &Mapping, geometry: Geometry, segments: Range<usize>) {
    if let Err(e) = mapping.remove(geometry.segment_at(segments.start)..geometry.segment_at(segments.end)) {
        log!(Debug, "memory of segments stays with the inbox (madvise: {e})");
    }
}

/// A 64-bit word of page 0 of an area.
///
/// # Safety
/// `area` is mapped for at least a page for the lifetime `'a`; `at` is a multiple of 8 below the page size.
pub(crate) unsafe fn word<'a>(area: *mut u8, at: usize) -> &'a AtomicU64 {
    // SAFETY: promised by the caller.
    unsafe { &*area.add(at).cast::<AtomicU64>() }
}

/// The asleep word of an area.
///
/// # Safety
/// As for [`word`].
#[inline]
pub(crate) unsafe fn asleep<'a>(area: *mut u8) -> &'a AtomicU32 {
    // SAFETY: promised by the caller.
    unsafe { &*area.add(AT_ASLEEP).cast::<AtomicU32>() }
}
