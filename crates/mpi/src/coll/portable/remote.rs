//! Runs the schedules of several processes in another one, which reaches their memory by `get` and `put` only.
//!
//! Messages between the processes of the set are copied from the sender's memory to the receiver's. A message to a process outside of
//! the set is an error, as is a set that waits for itself.

use super::operation::Operation;
use super::{INVALID, Portable};
use crate::coll::execute::{Cursor, Wire};
use crate::coll::schedule::Step;
use crate::coll::team::Via;
use crate::datatype::flat::FlatType;
use crate::op;
use base::{Class, Error, Result};
use std::collections::{HashMap, VecDeque};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The memory of the owners. Addresses are those of the owner, and lie in the regions that its schedule lists.
pub trait Memory {
    /// Reads from `address` of the owner of schedule `owner`.
    fn get(&mut self, owner: usize, address: u64, into: &mut [u8]) -> Result;
    /// Writes to `address` of the owner of schedule `owner`.
    fn put(&mut self, owner: usize, address: u64, from: &[u8]) -> Result;
}

const STUCK: Error = Error::new(Class::ERR_INTERN, "the schedules of other processes wait for each other");
const OUTSIDE: Error = Error::new(Class::ERR_INTERN, "a schedule talks to a process whose schedule isn't here");
const ONLY_IN_OWNER: Error =
    Error::new(Class::ERR_OP, "a function of the program can only be called by its own process");
const TOO_LONG: Error = Error::new(Class::ERR_TRUNCATE, "a message is longer than its receive");

/// Runs all to their ends. The result is the first error of each.
pub fn run(schedules: &[Portable], memory: &mut impl Memory) -> Result<Vec<Result>> {
    if !schedules.iter().all(Portable::runs_anywhere) {
        return Err(ONLY_IN_OWNER);
    }
    let numbers = schedules.iter().enumerate().map(|(i, portable)| (portable.identity.process, i)).collect();
    let mut post =
        Post { schedules, memory, numbers, queues: HashMap::new(), outcomes: Vec::new(), buffer: Vec::new() };
    let mut cursors: Vec<Cursor<usize>> = schedules.iter().map(|_| Cursor::default()).collect();
    for (cursor, portable) in cursors.iter_mut().zip(schedules) {
        cursor.rewind(&portable.schedule);
    }
    let mut running: Vec<usize> = (0..schedules.len()).collect();
    while !running.is_empty() {
        let before: Vec<_> = cursors.iter().map(Cursor::position).collect();
        // SAFETY: the wire never dereferences the addresses of the steps.
        running.retain(|&me| !unsafe {
            cursors[me].advance::<false, _>(&schedules[me].schedule, &mut RemoteWire { post: &mut post, me })
        });
        if !running.is_empty() && cursors.iter().map(Cursor::position).eq(before) {
            return Err(STUCK);
        }
    }
    Ok(cursors.iter().map(Cursor::outcome).collect())
}

/// Items in the memory of an owner.
#[derive(Clone, Copy)]
struct Items {
    owner: usize,
    address: usize,
    /// Items, or bytes without a type.
    count: u64,
    datatype: Option<u32>,
}

/// One end of a message: where its bytes are, and which transfer ends with it.
type Half = (Items, usize);

#[derive(Default)]
struct Queue {
    sends: VecDeque<Half>,
    receives: VecDeque<Half>,
}

/// Context, tag, sender, receiver.
type Route = (u64, i32, usize, usize);

struct Post<'a, M> {
    schedules: &'a [Portable],
    memory: &'a mut M,
    /// Place of each process in the set.
    numbers: HashMap<u64, usize>,
    queues: HashMap<Route, Queue>,
    /// Of each transfer.
    outcomes: Vec<Option<Result>>,
    buffer: Vec<u8>,
}

impl<M: Memory> Post<'_, M> {
    fn flat(&self, items: &Items) -> Option<&FlatType> {
        items.datatype.map(|datatype| &self.schedules[items.owner].types[datatype as usize])
    }

    fn bytes(&self, items: &Items) -> u64 {
        items.count * self.flat(items).map_or(1, FlatType::size)
    }

    /// Address and length of the runs that hold bytes `from .. to`.
    fn runs(&self, items: &Items, from: u64, to: u64) -> Vec<(u64, usize)> {
        let at = |offset: i64| (items.address as u64).wrapping_add_signed(offset);
        match self.flat(items) {
            None => vec![(at(from as i64), (to - from) as usize)],
            Some(flat) => {
                let mut runs: Vec<(u64, usize)> = Vec::new();
                flat.walk(items.count, from, to, &mut |offset, len| match runs.last_mut() {
                    Some(last) if last.0 + last.1 as u64 == at(offset) => last.1 += len as usize,
                    _ => runs.push((at(offset), len as usize)),
                });
                runs
            }
        }
    }

    /// Copies the bytes of `from` to the first of `into`; all of them are read before any is written if they fit the buffer.
    fn copy(&mut self, from: Items, into: Items) -> Result {
        let len = self.bytes(&from).min(self.bytes(&into));
        let mut done = 0;
        while done < len {
            let step = (len - done).min(CHUNK_BYTES as u64);
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(step as usize, 0);
            let mut at = 0;
            for (address, len) in self.runs(&from, done, done + step) {
                self.memory.get(from.owner, address, &mut buffer[at..at + len])?;
                at += len;
            }
            at = 0;
            for (address, len) in self.runs(&into, done, done + step) {
                self.memory.put(into.owner, address, &buffer[at..at + len])?;
                at += len;
            }
            self.buffer = buffer;
            done += step;
        }
        Ok(())
    }

    /// As [`Post::copy`] for bytes of one process that may overlap.
    fn move_bytes(&mut self, owner: usize, from: usize, into: usize, len: usize) -> Result {
        let bytes = |at: usize, len: usize| Items { owner, address: at, count: len as u64, datatype: None };
        let chunks = (0..len).step_by(CHUNK_BYTES).map(|at| (at, CHUNK_BYTES.min(len - at)));
        let mut one = |(at, len): (usize, usize)| self.copy(bytes(from + at, len), bytes(into + at, len));
        if into > from {
            let backwards: Vec<_> = chunks.collect();
            backwards.into_iter().rev().try_for_each(&mut one)
        } else {
            chunks.into_iter().try_for_each(one)
        }
    }

    fn reduce(&mut self, owner: usize, input: usize, inout: usize, count: usize) -> Result {
        let Operation::Predefined(which, builtin) = self.schedules[owner].operation else { return Err(INVALID) };
        let extent = builtin.extent();
        let each = (CHUNK_BYTES / extent).max(1);
        for first in (0..count).step_by(each) {
            let len = each.min(count - first) * extent;
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            let at = |base: usize| (base + first * extent) as u64;
            self.memory.get(owner, at(input), &mut a)?;
            self.memory.get(owner, at(inout), &mut b)?;
            // SAFETY: both hold this number of items, and the operation is defined on their type.
            unsafe { op::apply_predefined(which, builtin, a.as_ptr(), b.as_mut_ptr(), len / extent) };
            self.memory.put(owner, at(inout), &b)?;
        }
        Ok(())
    }

    /// Performs a step that is no transfer.
    fn perform(&mut self, owner: usize, step: Step) -> Result {
        let items = |at: usize, count: usize, datatype| Items { owner, address: at, count: count as u64, datatype };
        match step {
            Step::Move { from, into, len } => self.move_bytes(owner, from.addr(), into.addr(), len),
            Step::Convert { from, from_count, from_type, into, into_count, into_type } => self
                .copy(items(from.addr(), from_count, Some(from_type)), items(into.addr(), into_count, Some(into_type))),
            Step::Pack { from, count, datatype, into } => {
                let from = items(from.addr(), count, Some(datatype));
                self.copy(from, items(into.addr(), self.bytes(&from) as usize, None))
            }
            Step::Unpack { from, into, count, datatype } => {
                let into = items(into.addr(), count, Some(datatype));
                self.copy(items(from.addr(), self.bytes(&into) as usize, None), into)
            }
            Step::Reduce { input, inout, count } => self.reduce(owner, input.addr(), inout.addr(), count),
            _ => Ok(()),
        }
    }

    /// Enters one end of a message, and delivers what has both.
    fn enter(&mut self, me: usize, peer: u32, items: Items, sends: bool) -> Result<usize> {
        let portable = &self.schedules[me];
        let endpoint = portable.endpoints[peer as usize];
        let channel = portable.identity.channels[endpoint.via as usize];
        let other = *self.numbers.get(&endpoint.process).ok_or(OUTSIDE)?;
        let (from, to) = if sends { (me, other) } else { (other, me) };
        let transfer = self.outcomes.len();
        self.outcomes.push(None);
        let queue = self.queues.entry((channel.context, channel.tag, from, to)).or_default();
        if sends { &mut queue.sends } else { &mut queue.receives }.push_back((items, transfer));
        if queue.sends.is_empty() || queue.receives.is_empty() {
            return Ok(transfer);
        }
        if let (Some((from, sent)), Some((into, received))) = (queue.sends.pop_front(), queue.receives.pop_front()) {
            let fits = self.bytes(&from) <= self.bytes(&into);
            let copied = self.copy(from, into);
            self.outcomes[sent] = Some(copied);
            self.outcomes[received] = Some(copied.and(if fits { Ok(()) } else { Err(TOO_LONG) }));
        }
        Ok(transfer)
    }
}

/// One owner's schedule among those of the set.
struct RemoteWire<'a, 'b, M> {
    post: &'a mut Post<'b, M>,
    me: usize,
}

impl<M> RemoteWire<'_, '_, M> {
    fn items(&self, at: *const u8, count: usize, datatype: Option<u32>) -> Items {
        Items { owner: self.me, address: at.addr(), count: count as u64, datatype }
    }
}

impl<M: Memory> Wire for RemoteWire<'_, '_, M> {
    type Transfer = usize;
    const DONE: usize = usize::MAX;

    unsafe fn send(&mut self, _: Via, peer: u32, from: *const u8, len: usize) -> Result<usize> {
        self.post.enter(self.me, peer, self.items(from, len, None), true)
    }

    unsafe fn recv(&mut self, _: Via, peer: u32, into: *mut u8, len: usize) -> Result<usize> {
        self.post.enter(self.me, peer, self.items(into, len, None), false)
    }

    unsafe fn send_items(&mut self, _: Via, peer: u32, from: *const u8, count: usize, datatype: u32) -> Result<usize> {
        self.post.enter(self.me, peer, self.items(from, count, Some(datatype)), true)
    }

    unsafe fn recv_items(&mut self, _: Via, peer: u32, into: *mut u8, count: usize, datatype: u32) -> Result<usize> {
        self.post.enter(self.me, peer, self.items(into, count, Some(datatype)), false)
    }

    unsafe fn perform(&mut self, step: &Step) -> Result {
        self.post.perform(self.me, *step)
    }

    fn is_done(transfer: usize) -> bool {
        transfer == usize::MAX
    }

    fn test(&mut self, transfer: usize) -> Option<Result> {
        self.post.outcomes[transfer]
    }

    fn wait(&mut self, _: usize, _: usize) -> Option<Result> {
        unreachable!("schedules of others never block")
    }
}
