//! Memory through which a rank hands collectives to the workers of its node: a sealed memfd of the rank, mapped by the rank and by each worker.
//!
//! ```text
//! header │ for each worker: control, queue of slot numbers, slots, journal
//! ```
//! A *slot* is one operation: where its schedule lies, what tells its messages from others, and how far it has come. The rank takes a free slot, fills it
//! in, and puts its number into the queue, whose only producer it is: that is all that posting costs. The worker notes each step and each message in the slot before
//! it goes on, so that another worker can continue where it stopped when it is killed. A write that can't be done twice goes through the journal.
//!
//! Both sides read every word once and check the copy. Words are offsets of this memory, so no word makes either side leave the mapping.

use crate::sleep::{self, OneToOne};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use sys::mem::{self, Mapping};

/// Operations that a rank may have with one worker at a time; later ones wait in the rank. It is large, because operations that wait there could be those for which
/// other ranks wait before they post what this rank's first ones need. Slots that are never used take no memory.
pub const SLOTS: usize = 16384;
/// The most workers of a node.
pub const WORKERS_MAX: usize = 16;
/// The most bytes that are written through the journal at once.
pub const JOURNAL_BYTES: usize = 64 << 10;
/// The most endpoints that one operation may have.
const ROUTES_MAX: usize = 1 << 20;

/// "FEROFFLD".
const MAGIC: u64 = u64::from_le_bytes(*b"FEROFFLD");
const VERSION: u64 = 2;
const WORD: usize = 8;
const HEADER: usize = 4096;
const CONTROL: usize = 4096;
const QUEUE: usize = SLOTS * WORD;
/// Words of a slot before its counts.
const SLOT_WORDS: usize = 16;
/// Words of an endpoint: messages received and sent, and who it is once the operation has ended.
const ROUTE_WORDS: usize = 3;

/// Words of the header.
mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const WORKERS: usize = 2;
    pub const ROUTES: usize = 3;
    pub const PID: usize = 4;
    pub const PROBE_ADDRESS: usize = 5;
    pub const PROBE_VALUE: usize = 6;
    pub const WAYS: usize = 7;
    /// The rank sleeps.
    pub const ASLEEP: usize = 16;
}

/// Words of a worker's control block.
mod control {
    /// Operations posted so far.
    pub const POSTED: usize = 0;
    /// Slots that were ever used: those before this one.
    pub const USED: usize = 1;
    /// The worker sleeps.
    pub const ASLEEP: usize = 8;
    /// Journal: valid, slot, sequence, position, address, length.
    pub const JOURNAL: usize = 16;
}

/// Words of a slot.
mod slot {
    pub const STATE: usize = 0;
    pub const SEQUENCE: usize = 1;
    pub const ADDRESS: usize = 2;
    pub const LEN: usize = 3;
    pub const ID: usize = 4;
    pub const CHANNELS: usize = 5;
    pub const POSITION: usize = 9;
    pub const CANCELLED: usize = 10;
    pub const OUTCOME: usize = 11;
    pub const ROUND: usize = 12;
    /// Endpoints of an operation that has ended, of whose messages a worker of another node may not know that they are there; 0 if there are none. The slot is not
    /// used again before.
    pub const HELD: usize = 13;
}

const FREE: u64 = 0;
const POSTED: u64 = 1;
const ENDED: u64 = 2;

/// How a rank's memory may be reached by its workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Its pid, as it sees itself.
    pub pid: i32,
    /// A word of its private memory, and its value: whoever reads that has the right process.
    pub probe: (u64, u64),
    /// Whether `process_vm_readv` and `process_vm_writev` are allowed.
    pub by_pid: bool,
}

/// One operation as the rank posts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Where its encoded schedule begins, in the rank's memory.
    pub address: u64,
    /// Bytes of the schedule.
    pub len: u64,
    /// The same number stands for the same bytes.
    pub id: u64,
    /// Context and tag of the messages, of the communicator and of its local group.
    pub channels: [(u64, u64); 2],
    /// Which round of a persistent collective it is, from 0.
    pub round: u64,
}

/// Messages that an operation which has ended has received from one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of the sender.
    pub process: u64,
    /// Through which of the operation's channels.
    pub channel: u8,
    /// How many.
    pub count: u64,
}

/// A write that is done once: the journal's entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Operation.
    pub slot: u32,
    /// Which operation of that slot.
    pub sequence: u64,
    /// Step and part.
    pub position: u64,
    /// Where it goes, in the rank's memory.
    pub address: u64,
    /// What is written.
    pub bytes: Vec<u8>,
}

/// The memory, mapped.
#[derive(Debug)]
pub struct Area {
    mapping: Mapping,
    workers: usize,
    routes: usize,
}

const fn slot_bytes(routes: usize) -> usize {
    ((SLOT_WORDS + ROUTE_WORDS * routes) * WORD).next_multiple_of(64)
}

const fn section_bytes(routes: usize) -> usize {
    (CONTROL + QUEUE + SLOTS * slot_bytes(routes) + JOURNAL_BYTES).next_multiple_of(4096)
}

const fn total_bytes(workers: usize, routes: usize) -> usize {
    HEADER + workers * section_bytes(routes)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Area {
    /// Makes it, for so many workers and operations of at most `routes` endpoints. Pages are taken when they are used.
    pub fn create(workers: usize, routes: usize, reach: Reach) -> io::Result<(Area, OwnedFd)> {
        if workers == 0 || workers > WORKERS_MAX || routes > ROUTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = mem::sealed_memfd(c"ferrule-offload", total_bytes(workers, routes))?;
        let mapping = Mapping::shared(std::os::fd::AsFd::as_fd(&fd), total_bytes(workers, routes))?;
        let area = Area { mapping, workers, routes };
        let set = |word: usize, value: u64| area.word(word * WORD).store(value, Relaxed);
        set(header::MAGIC, MAGIC);
        set(header::VERSION, VERSION);
        set(header::WORKERS, workers as u64);
        set(header::ROUTES, routes as u64);
        set(header::PID, reach.pid as u64);
        set(header::PROBE_ADDRESS, reach.probe.0);
        set(header::PROBE_VALUE, reach.probe.1);
        set(header::WAYS, reach.by_pid.into());
        Ok((area, fd))
    }

    /// Maps that of a rank; an error if it isn't one, or of another version.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Area> {
        let len = mem::fixed_size(fd)?;
        if len < total_bytes(1, 0) || len > total_bytes(WORKERS_MAX, ROUTES_MAX) {
            return Err(invalid("the memory for offloaded collectives has no such size"));
        }
        let mapping = Mapping::shared(fd, len)?;
        let first = Area { mapping, workers: 0, routes: 0 };
        let word = |word: usize| first.word(word * WORD).load(Relaxed);
        if (word(header::MAGIC), word(header::VERSION)) != (MAGIC, VERSION) {
            return Err(invalid("the memory for offloaded collectives is of another version"));
        }
        let (workers, routes) = (word(header::WORKERS) as usize, word(header::ROUTES) as usize);
        let sound = (1..=WORKERS_MAX).contains(&workers) && routes <= ROUTES_MAX;
        if !sound || total_bytes(workers, routes) != len {
            return Err(invalid("the memory for offloaded collectives contradicts its size"));
        }
        Ok(Area { mapping: first.mapping, workers, routes })
    }

    /// A word at a multiple of eight bytes.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(WORD) && offset + WORD <= self.mapping.len());
        // SAFETY: inside of the mapping and aligned, as was just checked; the mapping lives as long as `self`, and all sides use it as atomics only.
        unsafe { &*self.mapping.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    fn flag(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(WORD) && offset + WORD <= self.mapping.len());
        // SAFETY: as in `word`.
        unsafe { &*self.mapping.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// Number of workers that it has room for.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The most endpoints of an operation.
    pub fn routes(&self) -> usize {
        self.routes
    }

    /// What the rank says of its memory.
    pub fn reach(&self) -> Reach {
        let word = |word: usize| self.word(word * WORD).load(Relaxed);
        Reach {
            pid: i32::try_from(word(header::PID)).unwrap_or(0),
            probe: (word(header::PROBE_ADDRESS), word(header::PROBE_VALUE)),
            by_pid: word(header::WAYS) != 0,
        }
    }

    fn section(&self, worker: usize) -> usize {
        assert!(worker < self.workers);
        HEADER + worker * section_bytes(self.routes)
    }

    fn control(&self, worker: usize, word: usize) -> &AtomicU64 {
        self.word(self.section(worker) + word * WORD)
    }

    fn slot(&self, worker: usize, slot: u32, word: usize) -> &AtomicU64 {
        let at = CONTROL + QUEUE + slot as usize % SLOTS * slot_bytes(self.routes) + word * WORD;
        self.word(self.section(worker) + at)
    }

    fn queue(&self, worker: usize, position: u64) -> &AtomicU64 {
        self.word(self.section(worker) + CONTROL + position as usize % SLOTS * WORD)
    }

    /// Messages that are there from (or to, if `sends`) endpoint `route` of the operation.
    fn count(&self, worker: usize, slot: u32, route: usize, sends: bool) -> &AtomicU64 {
        assert!(route < self.routes);
        self.slot(worker, slot, SLOT_WORDS + ROUTE_WORDS * route + usize::from(sends))
    }

    /// Who an endpoint of an operation that has ended is.
    fn sender(&self, worker: usize, slot: u32, route: usize) -> &AtomicU64 {
        assert!(route < self.routes);
        self.slot(worker, slot, SLOT_WORDS + ROUTE_WORDS * route + 2)
    }

    fn is_held(&self, worker: usize, slot: u32) -> bool {
        // SYNC(offload.held): pairs with `Served::hold` and `Served::release`.
        self.slot(worker, slot, slot::HELD).load(Acquire) != 0
    }

    /// The rank's word: it sleeps.
    pub fn rank_sleeps(&self) -> OneToOne<'_> {
        OneToOne(self.flag(header::ASLEEP * WORD))
    }

    /// A worker's word: it sleeps.
    pub fn worker_sleeps(&self, worker: usize) -> OneToOne<'_> {
        OneToOne(self.flag(self.section(worker) + control::ASLEEP * WORD))
    }
}

/// What a rank knows of the slots of one worker.
#[derive(Clone, Debug, Default)]
struct Posts {
    /// Slots that were used and are free again.
    free: Vec<u32>,
    /// Slots of operations that have ended, which their worker still needs. The oldest come first.
    held: VecDeque<u32>,
    /// Slots that were ever used: those before this one.
    used: u32,
    /// Operations posted so far.
    posted: u64,
}

impl Posts {
    fn take_slot(&mut self, is_held: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(first) = self.held.front()
            && !is_held(*first)
        {
            return self.held.pop_front();
        }
        self.free.pop().or_else(|| {
            let next = self.used;
            self.used += u32::from((next as usize) < SLOTS);
            (self.used > next).then_some(next)
        })
    }
}

/// The rank's side of its memory.
#[derive(Debug)]
pub struct Poster {
    area: Area,
    /// By worker.
    queues: Vec<Posts>,
}

impl Poster {
    /// The side of the rank that has made `area`.
    pub fn new(area: Area) -> Poster {
        let queues = vec![Posts::default(); area.workers];
        Poster { area, queues }
    }

    /// The memory.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Hands an operation with `routes` endpoints to a worker; its slot, and whether the worker's bell must be rung. `None` while it has no free slot.
    pub fn post(&mut self, worker: usize, request: &Request, routes: usize) -> Option<(u32, bool)> {
        let posts = &mut self.queues[worker];
        let at = posts.take_slot(|slot| self.area.is_held(worker, slot))?;
        posts.posted += 1;
        let (posted, used) = (posts.posted, posts.used);
        let area = &self.area;
        let set = |word: usize, value: u64| area.slot(worker, at, word).store(value, Relaxed);
        for route in 0..routes {
            area.count(worker, at, route, false).store(0, Relaxed);
            area.count(worker, at, route, true).store(0, Relaxed);
        }
        set(slot::SEQUENCE, posted);
        set(slot::ADDRESS, request.address);
        set(slot::LEN, request.len);
        set(slot::ID, request.id);
        for (i, (context, tag)) in request.channels.into_iter().enumerate() {
            set(slot::CHANNELS + 2 * i, context);
            set(slot::CHANNELS + 2 * i + 1, tag);
        }
        set(slot::POSITION, 0);
        set(slot::CANCELLED, 0);
        set(slot::OUTCOME, 0);
        set(slot::ROUND, request.round);
        set(slot::HELD, 0);
        area.control(worker, control::USED).store(used.into(), Relaxed);
        // SYNC(offload.state): pairs with `Served::request`.
        area.slot(worker, at, slot::STATE).store(POSTED, Release);
        area.queue(worker, posted - 1).store(u64::from(at), Relaxed);
        // SYNC(offload.posted): pairs with `Served::take`.
        area.control(worker, control::POSTED).store(posted, Release);
        Some((at, sleep::must_ring(&area.worker_sleeps(worker), false)))
    }

    /// The outcome of an operation that has ended: 0, or the number of an error. Its slot is free from then on.
    pub fn outcome(&mut self, worker: usize, at: u32) -> Option<u64> {
        // SYNC(offload.ended): pairs with `Served::end`.
        if self.area.slot(worker, at, slot::STATE).load(Acquire) != ENDED {
            return None;
        }
        let outcome = self.area.slot(worker, at, slot::OUTCOME).load(Relaxed);
        self.area.slot(worker, at, slot::STATE).store(FREE, Relaxed);
        let posts = &mut self.queues[worker];
        match self.area.is_held(worker, at) {
            true => posts.held.push_back(at),
            false => posts.free.push(at),
        }
        Some(outcome)
    }

    /// Whether an operation has ended.
    pub fn has_ended(&self, worker: usize, at: u32) -> bool {
        self.area.slot(worker, at, slot::STATE).load(Acquire) == ENDED
    }

    /// Asks the worker to drop an operation, which ends then; whether its bell must be rung.
    pub fn cancel(&self, worker: usize, at: u32) -> bool {
        self.area.slot(worker, at, slot::CANCELLED).store(1, Release);
        sleep::must_ring(&self.area.worker_sleeps(worker), false)
    }
}

/// A worker's side of the memory of one rank.
#[derive(Debug)]
pub struct Served {
    area: Area,
    worker: usize,
    taken: u64,
}

impl Served {
    /// The side of worker `worker`.
    pub fn new(area: Area, worker: usize) -> io::Result<Served> {
        if worker >= area.workers {
            return Err(invalid("the memory for offloaded collectives has no room for this worker"));
        }
        Ok(Served { area, worker, taken: 0 })
    }

    /// The memory.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Operations that a worker before this one has not ended: slots. What is posted from now on comes from [`Served::take`].
    pub fn unfinished(&mut self) -> Vec<u32> {
        self.taken = self.area.control(self.worker, control::POSTED).load(Acquire);
        (0..self.used()).filter(|at| self.request(*at).is_some()).collect()
    }

    /// Slots that were ever used: those before this one.
    fn used(&self) -> u32 {
        self.area.control(self.worker, control::USED).load(Relaxed).min(SLOTS as u64) as u32
    }

    /// The slot of the next operation, if there is one.
    pub fn take(&mut self) -> Option<u32> {
        // SYNC(offload.posted): pairs with `Poster::post`.
        let posted = self.area.control(self.worker, control::POSTED).load(Acquire);
        // A count that is none, of a rank that has written where it must not, is followed for no longer than the queue is.
        if posted.wrapping_sub(self.taken) > SLOTS as u64 {
            self.taken = posted;
        }
        if posted == self.taken {
            return None;
        }
        let at = self.area.queue(self.worker, self.taken).load(Relaxed);
        self.taken = self.taken.wrapping_add(1);
        Some((at % SLOTS as u64) as u32)
    }

    /// Whether [`Served::take`] would find something.
    pub fn has_more(&self) -> bool {
        self.area.control(self.worker, control::POSTED).load(Acquire) != self.taken
    }

    /// What has been posted there, and its number; `None` if it isn't under way.
    pub fn request(&self, at: u32) -> Option<(u64, Request)> {
        // SYNC(offload.state): pairs with `Poster::post`.
        if self.area.slot(self.worker, at, slot::STATE).load(Acquire) != POSTED {
            return None;
        }
        Some(self.words(at))
    }

    fn words(&self, at: u32) -> (u64, Request) {
        let word = |word: usize| self.area.slot(self.worker, at, word).load(Relaxed);
        let channel = |i: usize| (word(slot::CHANNELS + 2 * i), word(slot::CHANNELS + 2 * i + 1));
        let request = Request {
            address: word(slot::ADDRESS),
            len: word(slot::LEN),
            id: word(slot::ID),
            channels: [channel(0), channel(1)],
            round: word(slot::ROUND),
        };
        (word(slot::SEQUENCE), request)
    }

    /// Whether the rank wants it dropped.
    pub fn is_cancelled(&self, at: u32) -> bool {
        self.area.slot(self.worker, at, slot::CANCELLED).load(Acquire) != 0
    }

    /// How far it has come.
    pub fn position(&self, at: u32) -> u64 {
        self.area.slot(self.worker, at, slot::POSITION).load(Acquire)
    }

    /// Notes how far it has come.
    pub fn set_position(&self, at: u32, position: u64) {
        self.area.slot(self.worker, at, slot::POSITION).store(position, Release);
    }

    /// Messages that are there.
    pub fn count(&self, at: u32, route: usize, sends: bool) -> u64 {
        self.area.count(self.worker, at, route, sends).load(Acquire)
    }

    /// Notes how many messages are there.
    pub fn set_count(&self, at: u32, route: usize, sends: bool, count: u64) {
        self.area.count(self.worker, at, route, sends).store(count, Release);
    }

    /// Before the end of an operation: its slot is not used again before [`Served::release`], because some senders may not know that their messages are there.
    /// `senders` says of each endpoint whether it is one: number of the process, channel.
    pub fn hold(&self, at: u32, senders: &[Option<(u64, u8)>]) {
        let senders = &senders[..senders.len().min(self.area.routes)];
        for (route, sender) in senders.iter().enumerate() {
            let word = sender.map_or(0, |(process, channel)| (process + 1) << 8 | u64::from(channel));
            self.area.sender(self.worker, at, route).store(word, Relaxed);
        }
        // SYNC(offload.held): pairs with `Area::is_held`.
        self.area.slot(self.worker, at, slot::HELD).store(senders.len() as u64, Release);
    }

    /// The operations that a worker before this one has held, with what they have received.
    pub fn held(&self) -> Vec<(u32, Request, Vec<Received>)> {
        let held = (0..self.used()).filter(|at| self.area.is_held(self.worker, *at) && self.request(*at).is_none());
        let read = |at: u32| {
            let routes = self.area.slot(self.worker, at, slot::HELD).load(Relaxed).min(self.area.routes as u64);
            let received = (0..routes as usize).filter_map(|route| {
                let sender = self.area.sender(self.worker, at, route).load(Relaxed);
                let process = (sender >> 8).checked_sub(1)?;
                Some(Received { process, channel: sender as u8, count: self.count(at, route, false) })
            });
            (at, self.words(at).1, received.collect())
        };
        held.map(read).collect()
    }

    /// Ends what [`Served::hold`] has begun.
    pub fn release(&self, at: u32) {
        // SYNC(offload.held): pairs with `Area::is_held`.
        self.area.slot(self.worker, at, slot::HELD).store(0, Release);
    }

    /// Ends an operation; whether the rank's bell must be rung.
    pub fn end(&self, at: u32, outcome: u64) -> bool {
        self.area.slot(self.worker, at, slot::OUTCOME).store(outcome, Relaxed);
        // SYNC(offload.ended): pairs with `Poster::outcome`.
        self.area.slot(self.worker, at, slot::STATE).store(ENDED, Release);
        sleep::must_ring(&self.area.rank_sleeps(), false)
    }

    fn journal(&self, word: usize) -> &AtomicU64 {
        self.area.control(self.worker, control::JOURNAL + word)
    }

    fn journal_data(&self) -> *mut u8 {
        let at = self.area.section(self.worker) + CONTROL + QUEUE + SLOTS * slot_bytes(self.area.routes);
        assert!(at + JOURNAL_BYTES <= self.area.mapping.len());
        // SAFETY: inside of the mapping, as was just checked.
        unsafe { self.area.mapping.as_ptr().add(at) }
    }

    /// Writes down what is about to be written to the rank's memory: at most [`JOURNAL_BYTES`].
    pub fn write_journal(&self, (slot, sequence): (u32, u64), position: u64, address: u64, bytes: &[u8]) {
        assert!(bytes.len() <= JOURNAL_BYTES);
        // SAFETY: the journal has room for that, and nobody else of this process writes it. What the rank does there harms only itself.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.journal_data(), bytes.len()) };
        for (i, word) in [u64::from(slot), sequence, position, address, bytes.len() as u64].into_iter().enumerate() {
            self.journal(1 + i).store(word, Relaxed);
        }
        // SYNC(offload.journal): pairs with `Served::read_journal`.
        self.journal(0).store(1, Release);
    }

    /// The write is done.
    pub fn clear_journal(&self) {
        self.journal(0).store(0, Release);
    }

    /// What was about to be written when the worker before this one ended.
    pub fn read_journal(&self) -> Option<Entry> {
        // SYNC(offload.journal): pairs with `Served::write_journal`.
        if self.journal(0).load(Acquire) != 1 {
            return None;
        }
        let [slot, sequence, position, address, len] = [1, 2, 3, 4, 5].map(|word| self.journal(word).load(Relaxed));
        let len = usize::try_from(len).ok().filter(|len| *len <= JOURNAL_BYTES)?;
        let mut bytes = vec![0; len];
        // SAFETY: the journal has so many bytes. A rank that writes there meanwhile harms only itself.
        unsafe { std::ptr::copy_nonoverlapping(self.journal_data(), bytes.as_mut_ptr(), len) };
        Some(Entry { slot: u32::try_from(slot).ok()?, sequence, position, address, bytes })
    }
}

#[cfg(test)]
mod tests;
