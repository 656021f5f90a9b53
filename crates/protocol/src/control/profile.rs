//! What a rank has sent, to whom, in which sizes: the memory in which a rank counts it, and how its agent tells mpiexec.
//!
//! ```text
//! rank: memfd [ header | a row per peer | accesses per peer | tables… | records… ] ─ descriptor ─► agent, which reads it when the rank has ended,
//!                                                            however it ended ─► mpiexec: ProfileRank, ProfilePart…
//! ```
//! The memory is all words of 8 bytes in the order of the machine, because it never leaves the host. A row counts the messages to one
//! peer: word 0 holds their bytes, word `1 + k` those of size class `k`. Class 0 are empty messages, class `k` those of `2^(k-1)` to
//! `2^k - 1` bytes. A table counts the short messages to a peer in shared memory by their length, which takes one addition; they are
//! in no row. Accesses to windows are counted by target, in six words of a line of the cache; those to files in the header. Records are what was set aside: phases that are over, and the rows of one communicator or collective.

use super::codec::wire;

/// First word of the memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FPROFIL2");
/// Bytes before the first row: a page.
pub const HEADER_BYTES: usize = 4096;
/// Words of a row.
pub const ROW_WORDS: usize = 64;
/// Bytes of a row.
pub const ROW_BYTES: usize = 8 * ROW_WORDS;
/// Lengths that a table counts: the messages of 0 to this less one bytes.
pub const TABLE_LENGTHS: usize = 2049;
/// Words of a table: 1 + the peer, 0 if it is not in use; the messages of each length; padding to a line of the cache.
pub const TABLE_WORDS: usize = (1 + TABLE_LENGTHS).next_multiple_of(8);
/// Most tables; messages to further peers are counted in rows.
pub const TABLES_MAX: usize = 2048;
/// Room for records; pages that nobody touches cost nothing.
pub const RECORDS_BYTES: usize = 64 << 20;

/// Word of the header: number of ranks, which is that of rows.
pub const AT_RANKS: usize = 1;
/// Word of the header: nanoseconds since 1970 when counting began.
pub const AT_BEGAN_UNIX: usize = 2;
/// Word of the header: the monotonic clock then.
pub const AT_BEGAN: usize = 3;
/// Word of the header: the monotonic clock when the program called `MPI_Finalize`; 0 before.
pub const AT_ENDED: usize = 4;
/// Word of the header: bytes of records, and in bit 0 whether the last record repeats what is still in the rows.
pub const AT_RECORDS: usize = 5;
/// Word of the header: the level of the phase whose messages are in the rows.
pub const AT_LEVEL: usize = 6;
/// Word of the header: the monotonic clock when that phase began.
pub const AT_PHASE_BEGAN: usize = 7;
/// Word of the header: phases and scopes for which there was no room, and which are counted with what was there.
pub const AT_CROWDED: usize = 8;
/// Word of the header: tables in use, the first ones.
pub const AT_TABLES: usize = 9;
/// Words of the header: reads of files, their bytes, writes, their bytes.
pub const AT_FILES: usize = 10;
/// Words of the header that are read.
pub const HEADER_WORDS: usize = 14;
/// Words for the accesses to windows of one peer: number and bytes of each [`Access`].
pub const ACCESS_WORDS: usize = 8;

/// Bytes of the memory in a job of `ranks` ranks.
pub fn memory_bytes(ranks: usize) -> usize {
    records_at(ranks) + RECORDS_BYTES
}

/// Where the accesses begin.
pub fn accesses_at(ranks: usize) -> usize {
    HEADER_BYTES + ranks * ROW_BYTES
}

/// Where tables begin.
pub fn tables_at(ranks: usize) -> usize {
    accesses_at(ranks) + ranks * 8 * ACCESS_WORDS
}

/// Room for tables; pages that nobody touches cost nothing.
pub fn tables_max(ranks: usize) -> usize {
    ranks.min(TABLES_MAX)
}

/// Where records begin.
pub fn records_at(ranks: usize) -> usize {
    (tables_at(ranks) + tables_max(ranks) * 8 * TABLE_WORDS).next_multiple_of(HEADER_BYTES)
}

/// The word of a row that counts messages of `bytes` bytes.
#[inline(always)]
pub fn word_of(bytes: u64) -> usize {
    // 1 + the number of bits that it takes to write `bytes`; sizes from 2^62 on don't exist.
    ((bytes << 2) | 2).ilog2() as usize
}

/// Adds to the words of a row what a table, without its first word, has counted.
pub fn add_lengths(row: &mut [u64; ROW_WORDS], counts: impl IntoIterator<Item = u64>) {
    for (length, n) in (0..TABLE_LENGTHS as u64).zip(counts).filter(|(_, n)| *n > 0) {
        row[0] = row[0].wrapping_add(length.wrapping_mul(n));
        row[word_of(length)] = row[word_of(length)].wrapping_add(n);
    }
}

/// Words before the contents of each record: its kind, the bytes of its contents, and what depends on the kind.
pub const RECORD_WORDS: usize = 8;
/// Kind of record: a phase that is over: level, beginning, end; then peer, word and value for each word that isn't 0.
pub const RECORD_PHASE: u64 = 1;
/// Kind of record: what one collective of one communicator has sent: its context; then its name, that of the collective, both padded
/// with zeros to [`NAME_WORDS`], and the rows.
pub const RECORD_SCOPE: u64 = 2;
/// Words of a name.
pub const NAME_WORDS: usize = 16;

/// A name as words.
pub fn words_of_name(name: &str) -> [u64; NAME_WORDS] {
    let mut bytes = [0; 8 * NAME_WORDS];
    let end = name.floor_char_boundary(bytes.len());
    bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
    std::array::from_fn(|i| u64::from_ne_bytes(std::array::from_fn(|k| bytes[8 * i + k])))
}

/// The name that [`words_of_name`] has made words of.
pub fn name_of_words(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

wire! {
    /// How a job is profiled; not at all by default.
    #[derive(Default)]
    pub struct Orders {
        /// At all.
        pub on: bool,
        /// For each communicator and collective, too.
        pub detail: bool,
        /// Time slices, in milliseconds; 0 for none.
        pub slice_ms: u32,
    }
}

wire! {
    /// The messages to one peer.
    pub struct Row {
        /// World rank.
        pub peer: u32,
        /// Bytes of all of them.
        pub bytes: u64,
        /// Size class and number of messages, ascending.
        pub sizes: Vec<(u8, u64)>,
    }
}

impl Row {
    /// The row whose words are given; `None` if nothing was sent.
    pub fn of_words(peer: u32, words: &[u64]) -> Option<Row> {
        let used = words.iter().enumerate().skip(1).take(ROW_WORDS - 1).filter(|(_, n)| **n > 0);
        let sizes: Vec<(u8, u64)> = used.map(|(at, n)| (at as u8 - 1, *n)).collect();
        (!sizes.is_empty()).then(|| Row { peer, bytes: words[0], sizes })
    }

    /// Number of messages.
    pub fn messages(&self) -> u64 {
        self.sizes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// What has been added since `before`; `None` if nothing has.
    pub fn since(&self, before: Option<&Row>) -> Option<Row> {
        let Some(before) = before else { return Some(self.clone()) };
        let old = |class: u8| before.sizes.iter().find(|(c, _)| *c == class).map_or(0, |(_, n)| *n);
        let grown = self.sizes.iter().map(|(class, n)| (*class, n.saturating_sub(old(*class))));
        let sizes: Vec<(u8, u64)> = grown.filter(|(_, n)| *n > 0).collect();
        let bytes = self.bytes.saturating_sub(before.bytes);
        (!sizes.is_empty() || bytes > 0).then_some(Row { peer: self.peer, bytes, sizes })
    }

    /// Adds the messages of another row.
    pub fn add(&mut self, other: &Row) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (class, n) in &other.sizes {
            match self.sizes.binary_search_by_key(class, |(c, _)| *c) {
                Ok(at) => self.sizes[at].1 = self.sizes[at].1.saturating_add(*n),
                Err(at) => self.sizes.insert(at, (*class, *n)),
            }
        }
    }
}

/// How a window is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Put.
    Put,
    /// Get.
    Get,
    /// Accumulate, fetch with an operation, compare and swap.
    Accumulate,
}

/// How a file is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAccess {
    /// Read.
    Read,
    /// Write.
    Write,
}

wire! {
    #[derive(Default)]
    /// Accesses to windows.
    pub struct Accesses {
        /// Puts.
        pub puts: u64,
        /// Their bytes.
        pub put_bytes: u64,
        /// Gets.
        pub gets: u64,
        /// Their bytes.
        pub get_bytes: u64,
        /// Accumulates and their like.
        pub accumulates: u64,
        /// Their bytes.
        pub accumulate_bytes: u64,
    }
}

impl Accesses {
    /// What stands in the words of one peer; `None` if there were no accesses.
    pub fn of_words(words: &[u64]) -> Option<Accesses> {
        let &[puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes, ..] = words else { return None };
        let found = Accesses { puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes };
        (found != Accesses::default()).then_some(found)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Accesses) {
        let pairs = [
            (&mut self.puts, other.puts),
            (&mut self.put_bytes, other.put_bytes),
            (&mut self.gets, other.gets),
            (&mut self.get_bytes, other.get_bytes),
            (&mut self.accumulates, other.accumulates),
            (&mut self.accumulate_bytes, other.accumulate_bytes),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

wire! {
    #[derive(Default)]
    /// Accesses to files.
    pub struct FileUse {
        /// Reads.
        pub reads: u64,
        /// Bytes that they have brought.
        pub read_bytes: u64,
        /// Writes.
        pub writes: u64,
        /// Bytes that they have written.
        pub write_bytes: u64,
    }
}

impl FileUse {
    /// Adds others.
    pub fn add(&mut self, other: &FileUse) {
        let pairs = [
            (&mut self.reads, other.reads),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.writes, other.writes),
            (&mut self.write_bytes, other.write_bytes),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

wire! {
    /// What some rows are about.
    pub enum Part {
        /// A phase. Times in nanoseconds since counting began.
        Phase = 1 {
            /// The level that `MPI_Pcontrol` was called with; 1 for the first phase.
            level: i32,
            /// Beginning.
            began_ns: u64,
            /// End.
            ended_ns: u64,
        },
        /// A time slice.
        Slice = 2 {
            /// Beginning.
            began_ns: u64,
            /// End.
            ended_ns: u64,
        },
        /// One communicator and collective, in all phases.
        Scope = 3 {
            /// What distinguishes the communicator among those of the job.
            context: u64,
            /// Its name, or what it is.
            comm: String,
            /// The collective; empty for messages of the program itself.
            collective: String,
        },
    }
}

wire! {
    /// What is known of one program of a rank.
    pub struct RankHead {
        /// Rank.
        pub rank: u32,
        /// Which of the rank's programs, from 0.
        pub program: u32,
        /// Nanoseconds since 1970 when counting began.
        pub began_unix_ns: u64,
        /// How long the program was between `MPI_Init` and `MPI_Finalize`, or its end.
        pub duration_ns: u64,
        /// It has called `MPI_Finalize`.
        pub finalized: bool,
        /// Phases and scopes for which there was no room.
        pub crowded: u64,
        /// Accesses to windows, by the world rank of their target.
        pub accesses: Vec<(u32, Accesses)>,
        /// Accesses to files.
        pub files: FileUse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(word_of), [1, 2, 3, 3, 4, 4, 5]);
        for k in 1..62 {
            assert_eq!(word_of(1 << k), k + 2);
            assert_eq!(word_of((1 << k) - 1), k + 1);
        }
        assert!(word_of((1 << 62) - 1) < ROW_WORDS && word_of(u64::MAX) < ROW_WORDS);
    }

    #[test]
    fn tables_become_rows() {
        let mut row = [0; ROW_WORDS];
        (row[0], row[word_of(3)]) = (3, 1);
        let mut table = [0; TABLE_LENGTHS + 3];
        for (length, n) in [(0, 4), (2, 1), (2048, 2), (TABLE_LENGTHS, 9)] {
            table[length] = n;
        }
        add_lengths(&mut row, table);
        assert_eq!(
            Row::of_words(1, &row).unwrap(),
            Row { peer: 1, bytes: 3 + 2 + 4096, sizes: vec![(0, 4), (2, 2), (12, 2)] }
        );
        assert!(
            records_at(3) >= tables_at(3) + 3 * 8 * TABLE_WORDS
                && records_at(100_000) < 100_000 * ROW_BYTES + (40 << 20)
        );
    }

    #[test]
    fn names_are_cut_between_characters() {
        let long = "ü".repeat(100);
        assert_eq!(name_of_words(&words_of_name(&long)), "ü".repeat(64));
        assert_eq!(name_of_words(&words_of_name("MPI_COMM_WORLD")), "MPI_COMM_WORLD");
        assert_eq!(name_of_words(&words_of_name("")), "");
    }

    #[test]
    fn rows_tell_what_was_counted() {
        let mut words = [0; ROW_WORDS];
        assert_eq!(Row::of_words(3, &words), None);
        for bytes in [0, 0, 5, 1000] {
            words[0] += bytes;
            words[word_of(bytes)] += 1;
        }
        let mut row = Row::of_words(3, &words).unwrap();
        assert_eq!(row, Row { peer: 3, bytes: 1005, sizes: vec![(0, 2), (3, 1), (10, 1)] });
        assert_eq!(row.messages(), 4);
        row.add(&Row { peer: 3, bytes: 1, sizes: vec![(1, 1), (3, 1)] });
        assert_eq!(row, Row { peer: 3, bytes: 1006, sizes: vec![(0, 2), (1, 1), (3, 2), (10, 1)] });
    }
}
