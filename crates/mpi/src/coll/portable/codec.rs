//! A portable schedule as bytes, for memory that processes share.
//!
//! ```text
//! magic, version, lengths of the lists │ identity │ operation │ endpoints │ regions │ types │ steps
//! ```
//! All numbers are little-endian words of 64 bits. Bytes from another process are copied to private memory first, and nothing in them is trusted:
//! lengths are limited and must use up all bytes, and what steps name must exist ([`Portable`] checks that). Another version is
//! refused: both processes are of one installation.

use super::operation::Operation;
use super::regions::Region;
use super::{Channel, Endpoint, INVALID, Identity, Portable};
use crate::coll::schedule::{Schedule, Step, Ticket};
use crate::coll::team::Via;
use crate::datatype::flat::FlatType;
use base::Result;

/// "FERSCHED".
const MAGIC: u64 = u64::from_le_bytes(*b"FERSCHED");
/// Goes up with every change of this format.
const VERSION: u64 = 1;
/// Entries of any list.
const ENTRIES_MAX: u64 = 1 << 24;
/// Words of a step: its kind, and up to six numbers.
const STEP_WORDS: usize = 7;

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn words<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.word(word));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Result<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>().ok_or(INVALID)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    /// `len` entries of `size` words each; the bytes must be there before memory is taken for them.
    fn list<T>(&mut self, len: u64, size: usize, mut entry: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let there = len <= ENTRIES_MAX && len as usize * size * 8 <= self.0.len();
        if there { (0..len).map(|_| entry(self)).collect() } else { Err(INVALID) }
    }
}

fn narrow(word: u64) -> Result<u32> {
    u32::try_from(word).map_err(|_| INVALID)
}

fn via(word: u64) -> Result<Via> {
    match word {
        0 => Ok(Via::Comm),
        1 => Ok(Via::Local),
        _ => Err(INVALID),
    }
}

fn encode_type(w: &mut Writer, flat: &FlatType) {
    flat.encode(&mut w.0);
}

fn decode_type(r: &mut Reader<'_>) -> Result<FlatType> {
    FlatType::decode(&mut r.0)
}

type Words = [u64; STEP_WORDS];

fn words_of(step: &Step) -> Words {
    let pair = |peer: u32, via: Via| u64::from(peer) << 8 | via as u64;
    match *step {
        Step::Send { from, len, peer, via } => [1, from.addr() as u64, len as u64, pair(peer, via), 0, 0, 0],
        Step::Recv { into, len, peer, via } => [2, into.addr() as u64, len as u64, pair(peer, via), 0, 0, 0],
        Step::SendItems { from, count, datatype, peer, via } => {
            [3, from.addr() as u64, count as u64, pair(peer, via), datatype.into(), 0, 0]
        }
        Step::RecvItems { into, count, datatype, peer, via } => {
            [4, into.addr() as u64, count as u64, pair(peer, via), datatype.into(), 0, 0]
        }
        Step::Move { from, into, len } => [5, from.addr() as u64, into.addr() as u64, len as u64, 0, 0, 0],
        Step::Convert { from, from_count, from_type, into, into_count, into_type } => {
            let (from, into) = (from.addr() as u64, into.addr() as u64);
            [6, from, into, from_count as u64, into_count as u64, from_type.into(), into_type.into()]
        }
        Step::Pack { from, count, datatype, into } => {
            [7, from.addr() as u64, into.addr() as u64, count as u64, datatype.into(), 0, 0]
        }
        Step::Unpack { from, into, count, datatype } => {
            [8, from.addr() as u64, into.addr() as u64, count as u64, datatype.into(), 0, 0]
        }
        Step::Reduce { input, inout, count } => [9, input.addr() as u64, inout.addr() as u64, count as u64, 0, 0, 0],
        Step::Await(Ticket(ticket)) => [10, ticket.into(), 0, 0, 0, 0, 0],
        Step::Fence => [11, 0, 0, 0, 0, 0, 0],
    }
}

fn step_of(words: Words) -> Result<Step> {
    let pair = |word: u64| Ok((narrow(word >> 8)?, via(word & 0xff)?));
    let from = |word: u64| std::ptr::without_provenance::<u8>(word as usize);
    let into = |word: u64| std::ptr::without_provenance_mut::<u8>(word as usize);
    Ok(match words {
        [1, at, len, to, 0, 0, 0] => {
            let (peer, via) = pair(to)?;
            Step::Send { from: from(at), len: len as usize, peer, via }
        }
        [2, at, len, source, 0, 0, 0] => {
            let (peer, via) = pair(source)?;
            Step::Recv { into: into(at), len: len as usize, peer, via }
        }
        [3, at, count, to, datatype, 0, 0] => {
            let (peer, via) = pair(to)?;
            Step::SendItems { from: from(at), count: count as usize, datatype: narrow(datatype)?, peer, via }
        }
        [4, at, count, source, datatype, 0, 0] => {
            let (peer, via) = pair(source)?;
            Step::RecvItems { into: into(at), count: count as usize, datatype: narrow(datatype)?, peer, via }
        }
        [5, a, b, len, 0, 0, 0] => Step::Move { from: from(a), into: into(b), len: len as usize },
        [6, a, b, a_count, b_count, a_type, b_type] => Step::Convert {
            from: from(a),
            from_count: a_count as usize,
            from_type: narrow(a_type)?,
            into: into(b),
            into_count: b_count as usize,
            into_type: narrow(b_type)?,
        },
        [7, a, b, count, datatype, 0, 0] => {
            Step::Pack { from: from(a), count: count as usize, datatype: narrow(datatype)?, into: into(b) }
        }
        [8, a, b, count, datatype, 0, 0] => {
            Step::Unpack { from: from(a), into: into(b), count: count as usize, datatype: narrow(datatype)? }
        }
        [9, a, b, count, 0, 0, 0] => Step::Reduce { input: from(a), inout: into(b), count: count as usize },
        [10, ticket, 0, 0, 0, 0, 0] => Step::Await(Ticket(narrow(ticket)?)),
        [11, 0, 0, 0, 0, 0, 0] => Step::Fence,
        _ => return Err(INVALID),
    })
}

impl Portable {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        let [reads, writes] = &self.regions;
        let lengths = [self.endpoints.len(), reads.len(), writes.len(), self.types.len(), self.schedule.steps.len()];
        w.words([MAGIC, VERSION]);
        w.words(lengths.map(|len| len as u64));
        w.word(self.identity.process);
        for Channel { context, tag } in self.identity.channels {
            w.words([context, u64::from(tag as u32)]);
        }
        w.word(u32::from_le_bytes(self.operation.numbers()).into());
        w.word(self.schedule.transfers.into());
        self.endpoints.iter().for_each(|endpoint| w.words([endpoint.process, endpoint.via as u64]));
        reads.iter().chain(writes).for_each(|region| w.words([region.from, region.to]));
        self.types.iter().for_each(|flat| encode_type(&mut w, flat));
        self.schedule.steps.iter().for_each(|step| w.words(words_of(step)));
        w.0
    }

    /// What [`Portable::encode`] has written; an error for anything else. The bytes must not change meanwhile.
    pub fn decode(bytes: &[u8]) -> Result<Portable> {
        let mut r = Reader(bytes);
        if r.words()? != [MAGIC, VERSION] {
            return Err(INVALID);
        }
        let [endpoints, reads, writes, types, steps] = r.words()?;
        let mut identity = Identity { process: r.word()?, ..Identity::default() };
        for channel in &mut identity.channels {
            let [context, tag] = r.words()?;
            *channel = Channel { context, tag: narrow(tag)? as i32 };
        }
        let operation = Operation::from_numbers(narrow(r.word()?)?.to_le_bytes()).ok_or(INVALID)?;
        let transfers = narrow(r.word()?)?;
        let endpoints = r.list(endpoints, 2, |r| {
            let [process, through] = r.words()?;
            Ok(Endpoint { process, via: via(through)? })
        })?;
        let region = |r: &mut Reader<'_>| r.words().map(|[from, to]| Region { from, to });
        let regions = [r.list(reads, 2, region)?, r.list(writes, 2, region)?];
        let types = r.list(types, 4, decode_type)?;
        let steps = r.list(steps, STEP_WORDS, |r| step_of(r.words()?))?;
        let schedule = Schedule { steps, transfers, defect: None };
        let all = r.0.is_empty();
        let portable = Portable { identity, endpoints, types, operation, schedule, regions };
        if all { portable.check() } else { Err(INVALID) }
    }
}
