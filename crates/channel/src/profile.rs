//! Counts what this process sends, by peer and size, in memory that the node agent also has: whatever becomes of the process, its agent
//! reads the counts when it has ended.
//!
//! The layout is `protocol::control::profile`. Short messages in shared memory are counted by their lane, with one addition to a word of
//! the peer's [`Table`]; all others with two additions, of their bytes and of one message of their size class, to words of the peer's
//! row. Only this process writes, inside the critical section; the agent reads at any time, so each word is an atomic.
//! Invariant: what is counted is in exactly one place, a table, a row or a record; while it is moved into a record, bit 0 of `AT_RECORDS`
//! says which.

use crate::bootstrap::{Bootstrap, JobInfo};
use base::ids::{PLANE_MASK, Plane};
use base::{Peer, WorldRank, log};
use protocol::control::profile::{
    ACCESS_WORDS, AT_BEGAN, AT_BEGAN_UNIX, AT_CROWDED, AT_ENDED, AT_FILES, AT_LEVEL, AT_PHASE_BEGAN, AT_RANKS,
    AT_RECORDS, AT_TABLES, Access, FileAccess, HEADER_BYTES, MAGIC, NAME_WORDS, RECORD_PHASE, RECORD_SCOPE,
    RECORD_WORDS, RECORDS_BYTES, ROW_WORDS, TABLE_LENGTHS, TABLE_WORDS, accesses_at, add_lengths, memory_bytes,
    records_at, tables_at, tables_max, word_of, words_of_name,
};
use protocol::processes::SharedProcesses;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::{SystemTime, UNIX_EPOCH};
use sys::clock::now_ns;
use sys::mem::Mapping;

/// The words that count messages to one peer.
type Row = [AtomicU64; ROW_WORDS];

/// The level of the first phase.
const FIRST_LEVEL: i32 = 1;

#[inline(always)]
fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}

/// One more of a kind, in the kind's pair of words.
fn count_in(words: &[AtomicU64], kind: usize, bytes: u64) {
    add(&words[2 * kind], 1);
    add(&words[2 * kind + 1], bytes);
}

/// The memory in which this process counts.
#[derive(Debug)]
pub struct Profile {
    memory: Rc<Mapping>,
    peers: usize,
    /// Whose tables are in use, in their order.
    tables: Vec<WorldRank>,
    /// Words of records so far.
    records: usize,
    paused: bool,
    ended: bool,
    detail: Option<Detail>,
}

/// The function that the program has called, as the core names it.
pub type Call = Option<&'static &'static str>;

/// The profile as its users share it: MPI counts messages, and lanes count their short ones. Off in most jobs.
#[derive(Clone, Default)]
pub struct SharedProfile(Option<(Rc<RefCell<Profile>>, SharedProcesses)>);

impl SharedProfile {
    /// Nothing is counted.
    pub const OFF: SharedProfile = SharedProfile(None);

    /// Begins to count if the job says so, and tells the node agent where. Without it the job runs all the same.
    pub fn begin(job: &JobInfo, bootstrap: &mut Bootstrap) -> SharedProfile {
        if !job.profile.on {
            return SharedProfile(None);
        }
        let begun = Profile::begin(job.size as usize, job.profile.detail);
        let begun = begun.map_err(|e| e.to_string()).and_then(|(profile, memory)| {
            bootstrap.share_profile(memory).map_err(|e| e.origin.to_string())?;
            Ok(profile)
        });
        match begun {
            Ok(profile) => SharedProfile(Some((Rc::new(RefCell::new(profile)), bootstrap.processes().clone()))),
            Err(why) => {
                log!(Warn, "what this rank sends is not counted: {why}");
                SharedProfile(None)
            }
        }
    }

    /// How the lane to `peer` counts its short messages from now on. Those to other jobs are not counted.
    pub fn short(&self, peer: Peer) -> Short {
        let Some((profile, processes)) = &self.0 else { return Short::NotCounted };
        let rank = processes.borrow().rank(peer);
        rank.map_or(Short::NotCounted, |rank| profile.borrow_mut().short(rank))
    }

    /// Counts a message that its lane hasn't counted.
    #[inline]
    pub fn count(&self, context: u64, call: Call, peer: Peer, bytes: usize) {
        if let Some((profile, processes)) = &self.0
            && let Some(rank) = processes.borrow().rank(peer)
        {
            profile.borrow_mut().count(context, call, rank, bytes);
        }
    }

    /// Counts an access to a window of `peer`.
    pub fn count_access(&self, access: Access, peer: Peer, bytes: u64) {
        if let Some((profile, processes)) = &self.0
            && let Some(rank) = processes.borrow().rank(peer)
        {
            profile.borrow().count_access(access, rank, bytes);
        }
    }

    /// Counts an access to a file.
    pub fn count_file(&self, access: FileAccess, bytes: u64) {
        if let Some((profile, _)) = &self.0 {
            profile.borrow().count_file(access, bytes);
        }
    }

    /// A communicator has got a name.
    pub fn name_context(&self, context: u64, name: &str) {
        if let Some((profile, _)) = &self.0 {
            profile.borrow_mut().name_context(context, name);
        }
    }

    /// `MPI_Pcontrol`. The lanes must be told afterwards ([`crate::transports::tell_lanes`]).
    pub fn control(&self, level: i32) {
        if let Some((profile, _)) = &self.0 {
            profile.borrow_mut().control(level);
        }
    }

    /// From now on nothing is counted: the program has called `MPI_Finalize`. The lanes must be told afterwards.
    pub fn end(&self) {
        if let Some((profile, _)) = &self.0 {
            profile.borrow_mut().end();
        }
    }
}

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
        let profile = Profile {
            memory: Rc::new(memory),
            peers,
            tables: Vec::new(),
            records: 0,
            paused: false,
            ended: false,
            detail: detail.then(Detail::default),
        };
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

    fn table(&self, number: usize) -> &[AtomicU64] {
        self.words(tables_at(self.peers) + number * 8 * TABLE_WORDS, TABLE_WORDS)
    }

    fn is_counting(&self) -> bool {
        !self.paused && !self.ended
    }

    /// How a lane counts its short messages to `peer` from now on.
    pub fn short(&mut self, peer: WorldRank) -> Short {
        if !self.is_counting() {
            return Short::NotCounted;
        }
        let number = self.tables.iter().position(|p| *p == peer).unwrap_or(self.tables.len());
        if self.detail.is_some() || number >= tables_max(self.peers) || peer.0 as usize >= self.peers {
            return Short::Elsewhere;
        }
        if number == self.tables.len() {
            self.table(number)[0].store(u64::from(peer.0) + 1, Relaxed);
            self.tables.push(peer);
            // SYNC(profile): the agent reads the table's first word when it has seen that there is one more.
            self.header(AT_TABLES).store(self.tables.len() as u64, Release);
        }
        Short::Table(Table { first: NonNull::from(&self.table(number)[1]), _memory: self.memory.clone() })
    }

    /// Counts a message that no table has counted.
    pub fn count(&mut self, context: u64, call: Call, peer: WorldRank, bytes: usize) {
        if !self.is_counting() {
            return;
        }
        if let Some(row) = self.rows().get(peer.0 as usize) {
            add(&row[0], bytes as u64);
            add(&row[word_of(bytes as u64)], 1);
        }
        if self.detail.is_some() {
            self.count_scope(context, call, peer, bytes);
        }
    }

    /// Counts an access to a window of `peer`: of the whole time, not by phase.
    pub fn count_access(&self, access: Access, peer: WorldRank, bytes: u64) {
        let peer = peer.0 as usize;
        if self.is_counting() && peer < self.peers {
            let words = self.words(accesses_at(self.peers) + 8 * ACCESS_WORDS * peer, ACCESS_WORDS);
            count_in(words, access as usize, bytes);
        }
    }

    /// Counts an access to a file, likewise.
    pub fn count_file(&self, access: FileAccess, bytes: u64) {
        if self.is_counting() {
            count_in(&self.words(0, HEADER_BYTES / 8)[AT_FILES..], access as usize, bytes);
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

    /// Counts a message once more, for its context and the collective that it belongs to.
    fn count_scope(&mut self, context: u64, call: Call, peer: WorldRank, bytes: usize) {
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

    /// The row of `peer` with what is in its table, the `table`-th.
    fn total(&self, peer: usize, table: Option<usize>) -> [u64; ROW_WORDS] {
        let row = &self.rows()[peer];
        let mut total = std::array::from_fn(|at| row[at].load(Relaxed));
        if let Some(number) = table {
            add_lengths(&mut total, self.table(number)[1..].iter().map(|word| word.load(Relaxed)));
        }
        total
    }

    /// Sets aside what is in the rows and tables, as a phase that is over.
    fn close_phase(&mut self) {
        let now = now_ns();
        let mut words = vec![self.header(AT_LEVEL).load(Relaxed), self.header(AT_PHASE_BEGAN).load(Relaxed), now];
        words.resize(RECORD_WORDS - 2, 0);
        let mut tables = vec![None; self.peers];
        (0..).zip(&self.tables).for_each(|(number, peer)| tables[peer.0 as usize] = Some(number));
        for (peer, table) in tables.into_iter().enumerate() {
            let total = self.total(peer, table);
            let used = total.iter().enumerate().filter(|(_, n)| **n > 0);
            used.for_each(|(at, n)| words.extend([peer as u64, at as u64, *n]));
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
        // SYNC(profile): the agent reads the record when it has seen its end; should this process end now, all is in it.
        self.header(AT_RECORDS).store(end | 1, Release);
        let tables = (0..self.tables.len()).flat_map(|number| &self.table(number)[1..]);
        let counts = self.rows().iter().flatten().chain(tables);
        counts.filter(|word| word.load(Relaxed) > 0).for_each(|word| word.store(0, Relaxed));
        self.header(AT_PHASE_BEGAN).store(now, Relaxed);
        self.header(AT_RECORDS).store(end, Release);
    }
}

/// How a lane counts short messages.
#[derive(Debug)]
pub enum Short {
    /// Not at all.
    NotCounted,
    /// In this table.
    Table(Table),
    /// It doesn't: they have to go the longer way.
    Elsewhere,
}

/// Counts of the short messages to one peer, by length.
#[derive(Debug)]
pub struct Table {
    /// The word of length 0.
    first: NonNull<AtomicU64>,
    /// Where the words are.
    _memory: Rc<Mapping>,
}

impl Table {
    /// Lengths that are counted, from 0 on.
    pub const LENGTHS: usize = TABLE_LENGTHS;

    /// Counts a message.
    ///
    /// # Safety
    /// `len` is below [`Table::LENGTHS`].
    #[inline(always)]
    pub unsafe fn count(&self, len: usize) {
        debug_assert!(len < Table::LENGTHS);
        // SAFETY: a table has a word for each length (by the caller) and is in the mapping that `_memory` keeps.
        add(unsafe { self.first.add(len).as_ref() }, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::profile::TABLES_MAX;
    use std::os::unix::fs::FileExt;

    fn word(file: &std::fs::File, at: usize) -> u64 {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at as u64).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// A message of the program; short ones as a lane would count them.
    fn send(profile: &mut Profile, peer: u32, bytes: usize) {
        match profile.short(WorldRank(peer)) {
            // SAFETY: the length is checked.
            Short::Table(table) if bytes < Table::LENGTHS => unsafe { table.count(bytes) },
            Short::NotCounted if bytes < Table::LENGTHS => {}
            _ => profile.count(0, None, WorldRank(peer), bytes),
        }
    }

    #[test]
    fn messages_are_in_tables_and_rows_and_then_in_the_record() {
        let (mut profile, fd) = Profile::begin(3, false).unwrap();
        let file = std::fs::File::from(fd);
        let row = |peer: usize| HEADER_BYTES + peer * 8 * ROW_WORDS;
        let table = |number: usize, length: usize| tables_at(3) + 8 * (number * TABLE_WORDS + 1 + length);
        [(2, 4096), (1, 0), (1, 5), (1, 2049)].into_iter().for_each(|(peer, bytes)| send(&mut profile, peer, bytes));
        send(&mut profile, 3, 1);
        assert_eq!(word(&file, 8 * AT_TABLES), 2);
        assert_eq!([word(&file, table(0, 0) - 8), word(&file, table(1, 0) - 8)], [3, 2]);
        assert_eq!([word(&file, table(1, 0)), word(&file, table(1, 5))], [1, 1]);
        assert_eq!([word(&file, row(1)), word(&file, row(1) + 8 * 13)], [2049, 1]);
        assert_eq!([word(&file, row(2)), word(&file, row(2) + 8 * 14)], [4096, 1]);

        profile.control(7);
        assert_eq!(word(&file, 8 * AT_LEVEL), 7);
        assert_eq!([word(&file, row(1)), word(&file, row(2))], [0, 0]);
        assert_eq!([word(&file, table(1, 0)), word(&file, table(1, 5)), word(&file, table(1, 0) - 8)], [0, 0, 2]);
        let at = records_at(3);
        assert_eq!([word(&file, at), word(&file, at + 8), word(&file, at + 16)], [RECORD_PHASE, 6 * 24, 1]);
        let first = at + 8 * RECORD_WORDS;
        assert_eq!([word(&file, first), word(&file, first + 8), word(&file, first + 16)], [1, 0, 2054]);
        assert_eq!([word(&file, first + 24), word(&file, first + 32), word(&file, first + 40)], [1, 1, 1]);
        assert_eq!(word(&file, 8 * AT_RECORDS), (8 * RECORD_WORDS + 6 * 24) as u64);

        profile.control(0);
        send(&mut profile, 1, 1);
        send(&mut profile, 1, 5000);
        assert_eq!([word(&file, row(1)), word(&file, table(1, 1))], [0, 0]);
        profile.control(1);
        send(&mut profile, 1, 1);
        send(&mut profile, 1, 5000);
        assert_eq!([word(&file, row(1)), word(&file, table(1, 1))], [5000, 1]);
        profile.control(2);
        assert_eq!([word(&file, row(1)), word(&file, table(1, 1))], [5000, 1]);
        profile.end();
        send(&mut profile, 1, 1);
        assert_eq!(word(&file, table(1, 1)), 1);
        assert!(word(&file, 8 * AT_ENDED) >= word(&file, 8 * AT_BEGAN));
    }

    #[test]
    fn what_finds_no_table_goes_into_its_row() {
        let (mut profile, _) = Profile::begin(TABLES_MAX + 1, false).unwrap();
        for peer in (0..TABLES_MAX as u32).map(WorldRank) {
            assert!(matches!(profile.short(peer), Short::Table(_)));
        }
        assert!(matches!(profile.short(WorldRank(TABLES_MAX as u32)), Short::Elsewhere));
        assert!(matches!(profile.short(WorldRank(7)), Short::Table(_)));
        let (mut detailed, _) = Profile::begin(2, true).unwrap();
        assert!(matches!(detailed.short(WorldRank(1)), Short::Elsewhere));
    }

    #[test]
    fn collectives_have_rows_of_their_own() {
        static BCAST: &str = "MPI_Bcast";
        const CONTEXT: u64 = PLANE_MASK + 1;
        let (mut profile, fd) = Profile::begin(2, true).unwrap();
        let file = std::fs::File::from(fd);
        profile.name_context(CONTEXT, "first");
        profile.count_scope(CONTEXT | Plane::Collective as u64, Some(&BCAST), WorldRank(1), 100);
        profile.count_scope(CONTEXT | Plane::Collective as u64, Some(&BCAST), WorldRank(1), 1);
        profile.count_scope(CONTEXT, Some(&BCAST), WorldRank(0), 7);
        profile.name_context(CONTEXT, "world");
        let words = |at: usize, n: usize| (0..n).map(|i| word(&file, at + 8 * i)).collect::<Vec<_>>();
        let contents = 2 * NAME_WORDS + 2 * ROW_WORDS;
        for (i, (collective, peer, bytes)) in [("MPI_Bcast", 1, 101), ("", 0, 7)].into_iter().enumerate() {
            let at = records_at(2) + i * 8 * (RECORD_WORDS + contents);
            assert_eq!(words(at, 3), [RECORD_SCOPE, 8 * contents as u64, CONTEXT]);
            let names = words(at + 8 * RECORD_WORDS, 2 * NAME_WORDS);
            assert_eq!(names, [words_of_name("world"), words_of_name(collective)].concat());
            assert_eq!(word(&file, at + 8 * (RECORD_WORDS + 2 * NAME_WORDS + peer * ROW_WORDS)), bytes);
        }
        assert_eq!(word(&file, 8 * AT_RECORDS), 2 * 8 * (RECORD_WORDS + contents) as u64);
    }

    #[test]
    fn accesses_are_counted_apart_from_messages() {
        let (mut profile, fd) = Profile::begin(3, false).unwrap();
        let file = std::fs::File::from(fd);
        profile.count_access(Access::Put, WorldRank(2), 100);
        profile.count_access(Access::Put, WorldRank(2), 1);
        profile.count_access(Access::Accumulate, WorldRank(2), 8);
        profile.count_access(Access::Get, WorldRank(3), 8);
        profile.count_file(FileAccess::Write, 7);
        profile.control(0);
        profile.count_access(Access::Put, WorldRank(2), 100);
        profile.count_file(FileAccess::Read, 7);
        let at = accesses_at(3) + 2 * 8 * ACCESS_WORDS;
        assert_eq!([0, 1, 2, 3, 4, 5].map(|i| word(&file, at + 8 * i)), [2, 101, 0, 0, 1, 8]);
        assert_eq!([0, 1, 2, 3].map(|i| word(&file, 8 * (AT_FILES + i))), [0, 0, 1, 7]);
        assert_eq!(word(&file, HEADER_BYTES + 2 * 8 * ROW_WORDS), 0);
    }

    #[test]
    fn phases_without_room_are_counted_together() {
        let (mut profile, fd) = Profile::begin(2, false).unwrap();
        let file = std::fs::File::from(fd);
        for _ in 0..3 {
            profile.count(0, None, WorldRank(1), 8);
            profile.records = RECORDS_BYTES / 8 - RECORD_WORDS;
            profile.control(3);
        }
        assert_eq!(word(&file, HEADER_BYTES + 8 * ROW_WORDS), 24);
        assert_eq!(word(&file, 8 * AT_CROWDED), 3);
    }
}
