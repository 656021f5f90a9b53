//! Reads what ranks have counted (`protocol::control::profile`), when they have ended, and tells mpiexec.
//!
//! Only the agent knows time slices: at each multiple of the slice's length (of the time since 1970, so that agents agree) it
//! reads what has been added. Ranks notice nothing.
//!
//! A rank can write anything into that memory, so the agent checks sizes, numbers of ranks and lengths of records.

use super::Agent;
use crate::pollset::PollSet;
use base::log;
use protocol::control::profile::{
    ACCESS_WORDS, AT_BEGAN, AT_BEGAN_UNIX, AT_CROWDED, AT_ENDED, AT_FILES, AT_LEVEL, AT_PHASE_BEGAN, AT_RANKS,
    AT_RECORDS, AT_TABLES, Accesses, FileUse, HEADER_BYTES, HEADER_WORDS, MAGIC, NAME_WORDS, Part, RECORD_PHASE,
    RECORD_SCOPE, RECORD_WORDS, RECORDS_BYTES, ROW_WORDS, RankHead, Row, TABLE_WORDS, accesses_at, add_lengths,
    memory_bytes, name_of_words, records_at, tables_at, tables_max,
};
use protocol::control::tree::{Message, ROOT};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sys::clock::now_ns;

/// Most programs of one rank whose counts are kept.
const PROGRAMS_MAX: usize = 1000;
/// Most slices of one program that are told.
const SLICES_MAX: usize = 50_000;
/// Rows that are read at once.
const CHUNK_ROWS: usize = 256;

/// The memory of one program of a rank.
pub struct Counts {
    file: File,
    ranks: usize,
    /// What was seen when the last slice ended, by peer.
    seen: BTreeMap<u32, Row>,
    /// When that was, in nanoseconds since counting began.
    seen_ns: u64,
    slices: Vec<(Part, Vec<Row>)>,
}

/// When the counts are looked at next.
#[derive(Default)]
pub struct Slices {
    next: Option<Instant>,
}

/// What was read.
struct Read {
    head: RankHead,
    parts: Vec<(Part, Vec<Row>)>,
}

fn malformed(why: &str) -> Error {
    Error::other(format!("its profile is malformed: {why}"))
}

impl Counts {
    /// The memory of a rank in a job of `ranks` ranks.
    pub fn open(memory: OwnedFd, ranks: usize) -> Result<Counts> {
        // Its size can't change, so nothing is missing later.
        if sys::mem::fixed_size(memory.as_fd())? != memory_bytes(ranks) {
            return Err(malformed("wrong size"));
        }
        Ok(Counts { file: memory.into(), ranks, seen: BTreeMap::new(), seen_ns: 0, slices: Vec::new() })
    }

    /// A slice ends.
    fn cut(&mut self) -> Result<()> {
        if self.slices.len() >= SLICES_MAX {
            return Ok(());
        }
        let Some(read) = self.read_calmly()? else { return Ok(()) };
        let mut total: BTreeMap<u32, Row> = BTreeMap::new();
        for row in read.parts.into_iter().filter(|(part, _)| matches!(part, Part::Phase { .. })).flat_map(|part| part.1)
        {
            total.entry(row.peer).and_modify(|old| old.add(&row)).or_insert(row);
        }
        let rows: Vec<Row> = total.values().filter_map(|row| row.since(self.seen.get(&row.peer))).collect();
        let (began_ns, ended_ns) = (self.seen_ns, read.head.duration_ns);
        if !rows.is_empty() {
            self.slices.push((Part::Slice { began_ns, ended_ns }, rows));
        }
        (self.seen, self.seen_ns) = (total, ended_ns);
        Ok(())
    }

    /// As `read`, of a program that runs; `None` if it sets rows aside all the time.
    fn read_calmly(&self) -> Result<Option<Read>> {
        for _ in 0..8 {
            let before = self.words(8 * AT_RECORDS, 1)?;
            let read = self.read(0, 0)?;
            if before[0] & 1 == 0 && before == self.words(8 * AT_RECORDS, 1)? {
                return Ok(Some(read));
            }
        }
        Ok(None)
    }

    fn words(&self, at: usize, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * count];
        self.file.read_exact_at(&mut bytes, at as u64)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    /// What is in the rows, and in the first `tables` tables.
    fn rows(&self, tables: usize) -> Result<Vec<Row>> {
        let mut short = self.short(tables)?;
        let mut rows = Vec::new();
        for first in (0..self.ranks).step_by(CHUNK_ROWS) {
            let count = CHUNK_ROWS.min(self.ranks - first);
            let words = self.words(HEADER_BYTES + first * 8 * ROW_WORDS, count * ROW_WORDS)?;
            for (words, peer) in words.chunks_exact(ROW_WORDS).zip(first as u32..) {
                let row = Row::of_words(peer, words);
                rows.extend(match (row, short.remove(&peer)) {
                    (Some(mut row), Some(short)) => {
                        row.add(&short);
                        Some(row)
                    }
                    (row, short) => row.or(short),
                });
            }
        }
        Ok(rows)
    }

    /// What is in the first `tables` tables, by peer.
    fn short(&self, tables: usize) -> Result<BTreeMap<u32, Row>> {
        if tables > tables_max(self.ranks) {
            return Err(malformed("wrong number of tables"));
        }
        let mut found = BTreeMap::new();
        for number in 0..tables {
            let words = self.words(tables_at(self.ranks) + number * 8 * TABLE_WORDS, TABLE_WORDS)?;
            let peer = words[0].wrapping_sub(1);
            if peer >= self.ranks as u64 {
                return Err(malformed("a table is of an impossible peer"));
            }
            let mut row = [0; ROW_WORDS];
            add_lengths(&mut row, words.into_iter().skip(1));
            if let Some(row) = Row::of_words(peer as u32, &row) {
                found.entry(row.peer).and_modify(|old: &mut Row| old.add(&row)).or_insert(row);
            }
        }
        Ok(found)
    }

    /// Everything that the program of `rank` has counted until now.
    fn read(&self, rank: u32, program: u32) -> Result<Read> {
        let header = self.words(0, HEADER_WORDS)?;
        if header[0] != MAGIC || header[AT_RANKS] != self.ranks as u64 {
            return Err(malformed("wrong header"));
        }
        let began = header[AT_BEGAN];
        let since = |ns: u64| ns.saturating_sub(began);
        let ended = if header[AT_ENDED] > 0 { header[AT_ENDED] } else { now_ns() };
        let mut parts = self.records((header[AT_RECORDS] & !1) as usize, began)?;
        // If it ended while it set rows aside, they are in the last record.
        let tables = usize::try_from(header[AT_TABLES]).unwrap_or(usize::MAX);
        let rows = if header[AT_RECORDS] & 1 == 0 { self.rows(tables)? } else { Vec::new() };
        let level = header[AT_LEVEL] as i64 as i32;
        let phase = Part::Phase { level, began_ns: since(header[AT_PHASE_BEGAN]), ended_ns: since(ended) };
        parts.push((phase, rows));
        let [reads, read_bytes, writes, write_bytes] = std::array::from_fn(|i| header[AT_FILES + i]);
        let head = RankHead {
            rank,
            program,
            began_unix_ns: header[AT_BEGAN_UNIX],
            duration_ns: since(ended),
            finalized: header[AT_ENDED] > 0,
            crowded: header[AT_CROWDED],
            accesses: self.accesses()?,
            files: FileUse { reads, read_bytes, writes, write_bytes },
        };
        Ok(Read { head, parts })
    }

    /// Accesses to windows, by peer.
    fn accesses(&self) -> Result<Vec<(u32, Accesses)>> {
        let mut found = Vec::new();
        for first in (0..self.ranks).step_by(CHUNK_ROWS) {
            let count = CHUNK_ROWS.min(self.ranks - first);
            let words = self.words(accesses_at(self.ranks) + first * 8 * ACCESS_WORDS, count * ACCESS_WORDS)?;
            let of_peers = words.chunks_exact(ACCESS_WORDS).zip(first as u32..);
            found.extend(of_peers.filter_map(|(words, peer)| Some((peer, Accesses::of_words(words)?))));
        }
        Ok(found)
    }

    fn records(&self, bytes: usize, began: u64) -> Result<Vec<(Part, Vec<Row>)>> {
        if bytes > RECORDS_BYTES || !bytes.is_multiple_of(8) {
            return Err(malformed("wrong length of records"));
        }
        let words = self.words(records_at(self.ranks), bytes / 8)?;
        let (mut rest, mut parts) = (words.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (head, contents) = rest.split_at_checked(RECORD_WORDS).ok_or_else(|| malformed("a record is cut"))?;
            let length = usize::try_from(head[1] / 8).unwrap_or(usize::MAX);
            let (contents, after) =
                contents.split_at_checked(length).ok_or_else(|| malformed("a record is too long"))?;
            if head[0] == RECORD_SCOPE {
                let (names, rows) =
                    contents.split_at_checked(2 * NAME_WORDS).ok_or_else(|| malformed("a scope is cut"))?;
                let (comm, collective) = names.split_at(NAME_WORDS);
                let part =
                    Part::Scope { context: head[2], comm: name_of_words(comm), collective: name_of_words(collective) };
                let rows = rows.chunks_exact(ROW_WORDS).take(self.ranks).zip(0..);
                parts.push((part, rows.filter_map(|(words, peer)| Row::of_words(peer, words)).collect()));
            } else if head[0] == RECORD_PHASE {
                let part = Part::Phase {
                    level: head[2] as i64 as i32,
                    began_ns: head[3].saturating_sub(began),
                    ended_ns: head[4].saturating_sub(began),
                };
                parts.push((part, self.rows_of_phase(contents)?));
            }
            rest = after;
        }
        Ok(parts)
    }

    fn rows_of_phase(&self, contents: &[u64]) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        let mut current: (u64, [u64; ROW_WORDS]) = (0, [0; ROW_WORDS]);
        for [peer, word, value] in contents.as_chunks().0 {
            if *peer >= self.ranks as u64 || *word >= ROW_WORDS as u64 || *peer < current.0 {
                return Err(malformed("a record names an impossible peer or size"));
            }
            if *peer > current.0 {
                rows.extend(Row::of_words(current.0 as u32, &current.1));
                current = (*peer, [0; ROW_WORDS]);
            }
            current.1[*word as usize] = *value;
        }
        rows.extend(Row::of_words(current.0 as u32, &current.1));
        Ok(rows)
    }
}

impl Agent {
    /// A rank has begun to count.
    pub(super) fn on_profile(&mut self, at: usize, fds: Vec<OwnedFd>) {
        let Some(job) = self.job.as_ref().filter(|job| job.profile.on) else { return };
        let (ranks, rank) = (job.ranks.len(), &mut self.ranks[at]);
        let Some(memory) = fds.into_iter().next() else {
            return log!(
                Warn,
                "the profile of rank {} got lost: open files are at their limit (ulimit -n)",
                rank.world
            );
        };
        match Counts::open(memory, ranks) {
            Ok(counts) if rank.counts.len() < PROGRAMS_MAX => rank.counts.push(counts),
            Ok(_) => {
                log!(Warn, "rank {} has run more than {PROGRAMS_MAX} programs: the rest is not profiled", rank.world)
            }
            Err(why) => log!(Warn, "rank {} is not profiled: {why}", rank.world),
        }
    }

    /// Wakes at the end of the slice.
    pub(super) fn await_slice(&self, set: &mut PollSet) {
        if let Some(next) = self.slices.next {
            set.until(next);
        }
    }

    /// At the end of a slice: looks at the counts of all ranks.
    pub(super) fn cut_slices(&mut self) {
        let length_ms = self.job.as_ref().filter(|job| job.profile.on).map_or(0, |job| job.profile.slice_ms);
        if length_ms == 0 || self.slices.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left_ns = u64::from(length_ms) * 1_000_000 - since.as_nanos() as u64 % (u64::from(length_ms) * 1_000_000);
        let begins = self.slices.next.is_none();
        self.slices.next = Some(Instant::now() + Duration::from_nanos(left_ns));
        if begins {
            return;
        }
        for rank in &mut self.ranks {
            if let Some(counts) = rank.counts.last_mut().filter(|_| rank.ended.is_none()) {
                // What is wrong with it is said when the rank has ended.
                let _ = counts.cut();
            }
        }
    }

    /// A rank has ended: what it has counted goes to mpiexec.
    pub(super) fn tell_profile(&mut self, at: usize) {
        let rank = self.ranks[at].world;
        let sliced = self.job.as_ref().is_some_and(|job| job.profile.slice_ms > 0);
        for (program, mut counts) in std::mem::take(&mut self.ranks[at].counts).into_iter().enumerate() {
            if sliced {
                let _ = counts.cut();
            }
            match counts.read(rank, program as u32) {
                Ok(read) => {
                    self.send_up(ROOT, Message::ProfileRank { head: read.head });
                    for (part, rows) in read.parts.into_iter().chain(counts.slices) {
                        self.send_up(ROOT, Message::ProfilePart { rank, part, rows });
                    }
                }
                Err(why) => log!(Warn, "what rank {rank} has sent is not known: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::profile::word_of;

    const RANKS: usize = 3;

    /// A memory with these words, by their place in bytes.
    fn counts(words: &[(usize, u64)]) -> Counts {
        let fd = sys::mem::sealed_memfd(c"ferrule-test", memory_bytes(RANKS)).unwrap();
        let file = File::from(fd);
        let header = [(0, MAGIC), (8 * AT_RANKS, RANKS as u64), (8 * AT_LEVEL, 1)];
        for (at, word) in header.iter().chain(words) {
            file.write_all_at(&word.to_ne_bytes(), *at as u64).unwrap();
        }
        Counts::open(file.into(), RANKS).unwrap()
    }

    fn row(peer: usize, word: usize) -> usize {
        HEADER_BYTES + 8 * (peer * ROW_WORDS + word)
    }

    fn record(words: &[u64]) -> Vec<(usize, u64)> {
        words.iter().enumerate().map(|(i, word)| (records_at(RANKS) + 8 * i, *word)).collect()
    }

    #[test]
    fn rows_and_phases_are_read() {
        let mut words = record(&[RECORD_PHASE, 48, 7, 10, 20, 0, 0, 0, 1, 0, 5, 1, 4, 1]);
        words.extend([(8 * AT_RECORDS, 8 * 14), (row(2, 0), 9), (row(2, word_of(9)), 1), (8 * AT_BEGAN, 5)]);
        let read = counts(&words).read(4, 0).unwrap();
        assert_eq!(read.parts[0].0, Part::Phase { level: 7, began_ns: 5, ended_ns: 15 });
        assert_eq!(read.parts[0].1, [Row { peer: 1, bytes: 5, sizes: vec![(3, 1)] }]);
        assert_eq!(read.parts[1].1, [Row { peer: 2, bytes: 9, sizes: vec![(4, 1)] }]);
        assert!(!read.head.finalized);
        assert_eq!((read.head.accesses, read.head.files), (vec![], FileUse::default()));
        words.extend([(accesses_at(RANKS) + 8 * (2 * ACCESS_WORDS + 3), 7), (8 * (AT_FILES + 2), 3)]);
        let head = counts(&words).read(4, 0).unwrap().head;
        assert_eq!(head.accesses, [(2, Accesses { get_bytes: 7, ..Accesses::default() })]);
        assert_eq!(head.files, FileUse { writes: 3, ..FileUse::default() });
        // Killed while it set rows aside: they count once.
        words.push((8 * AT_RECORDS, 8 * 14 + 1));
        assert_eq!(counts(&words).read(4, 0).unwrap().parts[1].1, []);
    }

    #[test]
    fn tables_are_added_to_rows() {
        let table = |number: usize, word: usize| tables_at(RANKS) + 8 * (number * TABLE_WORDS + word);
        let mut words =
            vec![(8 * AT_TABLES, 2), (table(0, 0), 3), (table(0, 1 + 9), 2), (table(1, 0), 1), (table(1, 1), 4)];
        words.extend([(row(2, 0), 5000), (row(2, word_of(5000)), 1)]);
        let read = counts(&words).read(4, 0).unwrap();
        assert_eq!(
            read.parts[0].1,
            [
                Row { peer: 0, bytes: 0, sizes: vec![(0, 4)] },
                Row { peer: 2, bytes: 5018, sizes: vec![(4, 2), (13, 1)] }
            ]
        );
        for wrong in [(8 * AT_TABLES, RANKS as u64 + 1), (8 * AT_TABLES, u64::MAX), (table(1, 0), 0), (table(1, 0), 4)]
        {
            words.push(wrong);
            assert!(counts(&words).read(4, 0).is_err());
            words.pop();
        }
    }

    #[test]
    fn malformed_memory_is_refused_and_never_believed() {
        let sealed = |bytes| sys::mem::sealed_memfd(c"ferrule-test", bytes).unwrap();
        assert!(Counts::open(sealed(4096), RANKS).is_err());
        assert!(Counts::open(File::open("/dev/null").unwrap().into(), RANKS).is_err());
        assert!(counts(&[(0, 1)]).read(0, 0).is_err());
        assert!(counts(&[(8 * AT_RANKS, 1 << 40)]).read(0, 0).is_err());
        assert!(counts(&[(8 * AT_RECORDS, u64::MAX)]).read(0, 0).is_err());
        let good = [RECORD_PHASE, 24, 7, 10, 20, 0, 0, 0, 1, 0, 5];
        for (at, wrong) in [(1, u64::MAX), (1, 1 << 20), (8, 3), (8, u64::MAX), (9, 64)] {
            let mut words = good;
            words[at] = wrong;
            let mut words = record(&words);
            words.push((8 * AT_RECORDS, 8 * good.len() as u64));
            assert!(counts(&words).read(0, 0).is_err(), "{at} {wrong}");
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..300 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let mut words = record(&[1 + next() % 2, 8 * (next() % 400), next(), next(), next(), 0, 0, 0]);
            words.extend(record(&[0; 8]).iter().map(|(at, _)| (at + 64 + 8 * (next() % 300) as usize, next() % 70)));
            words.push((8 * AT_RECORDS, 8 * (next() % 400)));
            let _ = counts(&words).read(0, 0);
        }
    }

    #[test]
    fn a_slice_is_what_was_added() {
        let mut counts = counts(&[(row(1, 0), 9), (row(1, word_of(9)), 1)]);
        counts.cut().unwrap();
        counts.cut().unwrap();
        for (at, word) in [(row(1, 0), 12_u64), (row(1, word_of(3)), 1)] {
            counts.file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
        }
        counts.cut().unwrap();
        let rows: Vec<&Row> = counts.slices.iter().flat_map(|(_, rows)| rows).collect();
        assert_eq!(
            rows,
            [&Row { peer: 1, bytes: 9, sizes: vec![(4, 1)] }, &Row { peer: 1, bytes: 3, sizes: vec![(2, 1)] }]
        );
    }
}
