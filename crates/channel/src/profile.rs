//! Counts what this process sends, by peer and size, in memory that the node agent also has: whatever becomes of the process, its agent
//! reads the counts when it has ended.
//!
//! The layout is `protocol::control::profile`. Counting a message is two additions, of its bytes and of one message of its size class, to
//! words of one row. Only this process writes, inside the critical section; the agent reads at any time, so each word is an atomic.
//! Invariant: what is counted is in exactly one place, the rows or the last record; while it is moved, bit 0 of `AT_RECORDS` says which.

use base::ids::Plane;
use base::{Peer, log};
use protocol::control::profile::{
    AT_BEGAN, AT_BEGAN_UNIX, AT_CROWDED, AT_ENDED, AT_LEVEL, AT_PHASE_BEGAN, AT_RANKS, AT_RECORDS, HEADER_BYTES, MAGIC,
    NAME_WORDS, RECORD_PHASE, RECORD_SCOPE, RECORD_WORDS, RECORDS_BYTES, ROW_WORDS, memory_bytes, records_at, word_of,
    words_of_name,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::{SystemTime, UNIX_EPOCH};
use sys::clock::now_ns;
use sys::mem::Mapping;

/// The words that count messages to one peer.
type Row = [AtomicU64; ROW_WORDS];

/// The bits of a context that name a plane.
const PLANE_MASK: u64 = 3;

/// The level of the first phase.
const FIRST_LEVEL: i32 = 1;

#[inline(always)]
fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}

/// The memory in which this process counts.
#[derive(Debug)]
pub struct Profile {
    memory: Mapping,
    peers: usize,
    /// Words of records so far.
    records: usize,
    paused: bool,
    ended: bool,
    detail: Option<Detail>,
}

/// The function that the program has called, as the core names it.
pub type Call = Option<&'static &'static str>;

/// What is counted once more by communicator and collective.
#[derive(Debug, Default)]
struct Detail {
    /// Byte of the memory where a scope's rows begin; 0 if there was no room. By context and the address of the collective's name.
    scopes: HashMap<(u64, usize), usize>,
    /// Of communicators, by context.
    names: HashMap<u64, String>,
}

impl Profile {
    /// Begins to count for a job of `peers` ranks. The descriptor is for the node agent.
    pub fn begin(peers: usize, detail: bool) -> io::Result<(Profile, OwnedFd)> {
        let fd = sys::mem::sealed_memfd(c"ferrule-profile", memory_bytes(peers))?;
        let memory = Mapping::shared(fd.as_fd(), memory_bytes(peers))?;
        let profile =
            Profile { memory, peers, records: 0, paused: false, ended: false, detail: detail.then(Detail::default) };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let now = now_ns();
        let level = i64::from(FIRST_LEVEL) as u64;
        for (at, value) in
            [(AT_RANKS, peers as u64), (AT_BEGAN_UNIX, unix), (AT_BEGAN, now), (AT_LEVEL, level), (AT_PHASE_BEGAN, now)]
        {
            profile.header(at).store(value, Relaxed);
        }
        // SYNC(profile): the agent believes the header when it has seen the mark.
        profile.header(0).store(MAGIC, Release);
        Ok((profile, fd))
    }

    fn words(&self, at_bytes: usize, words: usize) -> &[AtomicU64] {
        assert!(at_bytes.is_multiple_of(8) && at_bytes + 8 * words <= self.memory.len());
        // SAFETY: the range is inside the mapping and aligned, as just checked; the mapping lives as long as `self`, is plain memory and
        // only touched through atomics; the agent at most reads it.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at_bytes).cast(), words) }
    }

    fn header(&self, at: usize) -> &AtomicU64 {
        &self.words(0, HEADER_BYTES / 8)[at]
    }

    fn rows(&self) -> &[Row] {
        self.words(HEADER_BYTES, self.peers * ROW_WORDS).as_chunks().0
    }

    /// The rows to count in; none while nothing is counted.
    pub fn counting(&self) -> Rows {
        match self.paused || self.ended {
            true => Rows::NONE,
            false => Rows { first: self.rows().as_ptr(), peers: self.peers, detailed: self.is_detailed() },
        }
    }

    /// `MPI_Pcontrol`: 0 pauses, 1 goes on, 2 has nothing to do because nothing is buffered; 1 and the others begin a phase.
    pub fn control(&mut self, level: i32) {
        if self.ended || level == 2 {
            return;
        }
        self.paused = level == 0;
        self.close_phase();
        self.header(AT_LEVEL).store(i64::from(level) as u64, Relaxed);
    }

    /// Nothing more is counted: `MPI_Finalize`.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.header(AT_ENDED).store(now_ns(), Relaxed);
        }
    }

    /// Whether messages are counted by communicator and collective, too.
    pub fn is_detailed(&self) -> bool {
        self.detail.is_some()
    }

    /// Counts a message once more, for its context and the collective that it belongs to.
    pub fn count_scope(&mut self, context: u64, call: Call, peer: Peer, bytes: usize) {
        if self.paused || self.ended {
            return;
        }
        // The program's own messages belong to no collective.
        let call = call.filter(|_| context & PLANE_MASK != Plane::PointToPoint as u64);
        let context = context & !PLANE_MASK;
        let key = (context, call.map_or(0, |name| std::ptr::from_ref(name).addr()));
        let known = self.detail.as_ref().and_then(|detail| detail.scopes.get(&key)).copied();
        let at = known.unwrap_or_else(|| self.open_scope(context, call, key));
        if at > 0 && (peer.0 as usize) < self.peers {
            let row = self.words(at + 8 * ROW_WORDS * peer.0 as usize, ROW_WORDS);
            add(&row[0], bytes as u64);
            add(&row[word_of(bytes as u64)], 1);
        }
    }

    fn open_scope(&mut self, context: u64, call: Call, key: (u64, usize)) -> usize {
        let contents = 2 * NAME_WORDS + self.peers * ROW_WORDS;
        let at = records_at(self.peers) + 8 * self.records;
        let fits = 8 * (self.records + RECORD_WORDS + contents) <= RECORDS_BYTES;
        let name = self.detail.as_ref().and_then(|detail| detail.names.get(&context)).map_or("", String::as_str);
        let rows = if fits {
            let head = [RECORD_SCOPE, 8 * contents as u64, context, 0, 0, 0, 0, 0];
            let names = [words_of_name(name), words_of_name(call.map_or("", |name| name))];
            let record = self.words(at, RECORD_WORDS + 2 * NAME_WORDS);
            head.iter().chain(names.as_flattened()).zip(record).for_each(|(word, place)| place.store(*word, Relaxed));
            self.records += RECORD_WORDS + contents;
            // SYNC(profile): as in `close_phase`; nothing is in two places.
            self.header(AT_RECORDS).store(8 * self.records as u64, Release);
            at + 8 * (RECORD_WORDS + 2 * NAME_WORDS)
        } else {
            add(self.header(AT_CROWDED), 1);
            0
        };
        if let Some(detail) = &mut self.detail {
            detail.scopes.insert(key, rows);
        }
        rows
    }

    /// A communicator has got a name.
    pub fn name_context(&mut self, context: u64, name: &str) {
        let Some(detail) = &mut self.detail else { return };
        detail.names.insert(context, name.to_string());
        let scopes: Vec<usize> =
            detail.scopes.iter().filter(|(key, at)| key.0 == context && **at > 0).map(|s| *s.1).collect();
        for at in scopes {
            let place = self.words(at - 8 * 2 * NAME_WORDS, NAME_WORDS);
            words_of_name(name).iter().zip(place).for_each(|(word, place)| place.store(*word, Relaxed));
        }
    }

    /// Sets aside what is in the rows, as a phase that is over.
    fn close_phase(&mut self) {
        let now = now_ns();
        let mut words = vec![self.header(AT_LEVEL).load(Relaxed), self.header(AT_PHASE_BEGAN).load(Relaxed), now];
        words.resize(RECORD_WORDS - 2, 0);
        for (peer, row) in self.rows().iter().enumerate() {
            let used = row.iter().enumerate().map(|(at, word)| (at, word.load(Relaxed))).filter(|(_, n)| *n > 0);
            used.for_each(|(at, n)| words.extend([peer as u64, at as u64, n]));
        }
        let contents = words.len() - (RECORD_WORDS - 2);
        if 8 * (self.records + RECORD_WORDS + contents) > RECORDS_BYTES {
            if self.header(AT_CROWDED).load(Relaxed) == 0 {
                log!(Warn, "the profile has no room for more phases: from now on all is counted as one");
            }
            return add(self.header(AT_CROWDED), 1);
        }
        let at = records_at(self.peers) + 8 * self.records;
        let record = self.words(at, RECORD_WORDS + contents);
        let head = [RECORD_PHASE, 8 * contents as u64];
        head.iter().chain(&words).zip(record).for_each(|(word, place)| place.store(*word, Relaxed));
        self.records += RECORD_WORDS + contents;
        let end = 8 * self.records as u64;
        // SYNC(profile): the agent reads the record when it has seen its end; should this process end now, the rows are in it.
        self.header(AT_RECORDS).store(end | 1, Release);
        self.rows().iter().flatten().filter(|word| word.load(Relaxed) > 0).for_each(|word| word.store(0, Relaxed));
        self.header(AT_PHASE_BEGAN).store(now, Relaxed);
        self.header(AT_RECORDS).store(end, Release);
    }
}

/// Where messages are counted at present.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    first: *const Row,
    detailed: bool,
    /// 0 if nothing is counted.
    peers: usize,
}

impl Rows {
    /// Nothing is counted.
    pub const NONE: Rows = Rows { first: std::ptr::null(), peers: 0, detailed: false };

    /// Counts a message. True if [`Profile::count_scope`] has to count it, too.
    ///
    /// # Safety
    /// The [`Profile`] that these rows are of must live.
    #[inline(always)]
    pub unsafe fn count(self, peer: Peer, bytes: usize) -> bool {
        if (peer.0 as usize) < self.peers {
            // SAFETY: a row of the profile, which lives by the caller.
            let row = unsafe { &*self.first.add(peer.0 as usize) };
            add(&row[0], bytes as u64);
            add(&row[word_of(bytes as u64)], 1);
            return self.detailed;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn word(file: &std::fs::File, at: usize) -> u64 {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at as u64).unwrap();
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn messages_are_in_the_rows_and_then_in_the_record() {
        let (mut profile, fd) = Profile::begin(3, false).unwrap();
        let file = std::fs::File::from(fd);
        let send = |profile: &Profile, peer, bytes| {
            // SAFETY: the profile lives.
            unsafe { profile.counting().count(Peer(peer), bytes) };
        };
        [(1, 0), (1, 5), (2, 4096)].into_iter().for_each(|(peer, bytes)| send(&profile, peer, bytes));
        send(&profile, 3, 1);
        let row = |peer: usize| HEADER_BYTES + peer * 8 * ROW_WORDS;
        assert_eq!([word(&file, row(1)), word(&file, row(1) + 8), word(&file, row(1) + 32)], [5, 1, 1]);
        assert_eq!([word(&file, row(2)), word(&file, row(2) + 8 * 14)], [4096, 1]);

        profile.control(7);
        assert_eq!(word(&file, 8 * AT_LEVEL), 7);
        assert_eq!([word(&file, row(1)), word(&file, row(2))], [0, 0]);
        let at = records_at(3);
        assert_eq!([word(&file, at), word(&file, at + 8), word(&file, at + 16)], [RECORD_PHASE, 5 * 24, 1]);
        let first = at + 8 * RECORD_WORDS;
        assert_eq!([word(&file, first), word(&file, first + 8), word(&file, first + 16)], [1, 0, 5]);
        assert_eq!(word(&file, 8 * AT_RECORDS), (8 * RECORD_WORDS + 5 * 24) as u64);

        profile.control(0);
        send(&profile, 1, 1);
        assert_eq!(word(&file, row(1)), 0);
        profile.control(1);
        send(&profile, 1, 1);
        assert_eq!(word(&file, row(1)), 1);
        profile.control(2);
        assert_eq!(word(&file, row(1)), 1);
        profile.end();
        send(&profile, 1, 1);
        assert_eq!(word(&file, row(1)), 1);
        assert!(word(&file, 8 * AT_ENDED) >= word(&file, 8 * AT_BEGAN));
    }

    #[test]
    fn collectives_have_rows_of_their_own() {
        static BCAST: &str = "MPI_Bcast";
        let (mut profile, fd) = Profile::begin(2, true).unwrap();
        let file = std::fs::File::from(fd);
        profile.name_context(4, "first");
        profile.count_scope(4 | Plane::Collective as u64, Some(&BCAST), Peer(1), 100);
        profile.count_scope(4 | Plane::Collective as u64, Some(&BCAST), Peer(1), 1);
        profile.count_scope(4, Some(&BCAST), Peer(0), 7);
        profile.name_context(4, "world");
        let words = |at: usize, n: usize| (0..n).map(|i| word(&file, at + 8 * i)).collect::<Vec<_>>();
        let contents = 2 * NAME_WORDS + 2 * ROW_WORDS;
        for (i, (collective, peer, bytes)) in [("MPI_Bcast", 1, 101), ("", 0, 7)].into_iter().enumerate() {
            let at = records_at(2) + i * 8 * (RECORD_WORDS + contents);
            assert_eq!(words(at, 3), [RECORD_SCOPE, 8 * contents as u64, 4]);
            let names = words(at + 8 * RECORD_WORDS, 2 * NAME_WORDS);
            assert_eq!(names, [words_of_name("world"), words_of_name(collective)].concat());
            assert_eq!(word(&file, at + 8 * (RECORD_WORDS + 2 * NAME_WORDS + peer * ROW_WORDS)), bytes);
        }
        assert_eq!(word(&file, 8 * AT_RECORDS), 2 * 8 * (RECORD_WORDS + contents) as u64);
    }

    #[test]
    fn phases_without_room_are_counted_together() {
        let (mut profile, fd) = Profile::begin(2, false).unwrap();
        let file = std::fs::File::from(fd);
        for _ in 0..3 {
            // SAFETY: the profile lives.
            unsafe { profile.counting().count(Peer(1), 8) };
            profile.records = RECORDS_BYTES / 8 - RECORD_WORDS;
            profile.control(3);
        }
        assert_eq!(word(&file, HEADER_BYTES + 8 * ROW_WORDS), 24);
        assert_eq!(word(&file, 8 * AT_CROWDED), 3);
    }
}
