//! Runs the schedules of several processes in another one, which reaches their memory by [`Memory`] only.
//!
//! Each schedule is a *run*; runs come and go at any time. Messages between them are copied from the sender's memory to the receiver's as soon as both ends
//! are there. [`run`] takes a whole set: there, a message to a process outside of the set is an error, as is a set that waits for itself.
//!
//! A run can go on in another process where it stopped ([`Progress`]). Each step and each message is told to [`Memory`] when it is done, and what can't be done twice
//! goes through [`Memory::put_once`].
//!
//! `memory.rs` is what the owners offer, `steps.rs` what is done there, `far.rs` messages with processes whose schedules another interpreter runs.

mod far;
mod memory;
mod steps;

use super::{Endpoint, INVALID, Identity, Portable};
use crate::coll::execute::{Cursor, Wire};
use crate::coll::schedule::Step;
use crate::coll::team::Via;
use base::{Class, Error, Result};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub use far::Far;
pub use memory::{Memory, Position, Progress};

/// Bytes that are copied at once.
pub const CHUNK_BYTES: usize = 64 << 10;

/// The number of a run; a later one may get it again.
pub type RunId = usize;

/// One end of a message: the run, and the place of the peer in its list of endpoints.
pub type End = (RunId, u32);

const STUCK: Error = Error::new(Class::ERR_INTERN, "the schedules of other processes wait for each other");
const OUTSIDE: Error = Error::new(Class::ERR_INTERN, "a schedule talks to a process whose schedule isn't here");
const ONLY_IN_OWNER: Error =
    Error::new(Class::ERR_OP, "a function of the program can only be called by its own process");
const TOO_LONG: Error = Error::new(Class::ERR_TRUNCATE, "a message is longer than its receive");

/// Runs all to their ends. The result is the first error of each.
pub fn run(schedules: Vec<Portable>, memory: &mut impl Memory) -> Result<Vec<Result>> {
    let processes: Vec<u64> = schedules.iter().map(|portable| portable.identity.process).collect();
    let mut runner = Runner::default();
    let mut ids = Vec::new();
    for portable in schedules {
        let outside = portable.endpoints.iter().any(|endpoint| !processes.contains(&endpoint.process));
        let identity = portable.identity;
        let id = runner.add(Rc::new(portable), identity, Progress::default(), memory)?;
        if outside {
            runner.fail(id, OUTSIDE);
        }
        ids.push(id);
    }
    let mut outcomes = vec![None; ids.len()];
    runner.advance(memory, |id, outcome| outcomes[id] = Some(outcome));
    outcomes.into_iter().collect::<Option<Vec<Result>>>().ok_or(STUCK)
}

/// Items in the memory of an owner.
#[derive(Clone, Copy)]
struct Items {
    run: RunId,
    address: usize,
    /// Items, or bytes without a type.
    count: u64,
    datatype: Option<u32>,
}

/// One end of a message: where its bytes are, the peer, and which transfer of the run ends with it.
#[derive(Clone, Copy)]
struct Half {
    items: Items,
    endpoint: u32,
    transfer: usize,
}

#[derive(Default)]
struct Queue {
    sends: VecDeque<Half>,
    receives: VecDeque<Half>,
}

/// What tells the messages of one sender to one receiver in one round of a collective from all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Route {
    /// Message space.
    pub context: u64,
    /// Tag.
    pub tag: i32,
    /// Round of a persistent collective.
    pub round: u64,
    /// Number of the sender.
    pub from: u64,
    /// Number of the receiver.
    pub to: u64,
}

impl Route {
    /// Of the messages that `identity` sends to an endpoint, or receives from there.
    pub fn of(identity: &Identity, endpoint: &Endpoint, sends: bool) -> Route {
        let channel = identity.channels[endpoint.via as usize];
        let (me, peer) = (identity.process, endpoint.process);
        let (from, to) = if sends { (me, peer) } else { (peer, me) };
        Route { context: channel.context, tag: channel.tag, round: identity.round, from, to }
    }
}

/// A schedule under way.
struct Run {
    portable: Rc<Portable>,
    identity: Identity,
    cursor: Cursor<usize>,
    /// Of each transfer.
    outcomes: Vec<Option<Result>>,
    /// By endpoint: messages begun, received and sent.
    begun: Vec<[u64; 2]>,
    progress: Progress,
    /// It is to be advanced.
    is_ready: bool,
    /// Somebody has given it up.
    failed: Option<Error>,
}

/// All runs, and the messages between them.
#[derive(Default)]
pub struct Runner {
    runs: Vec<Option<Run>>,
    ready: VecDeque<RunId>,
    queues: HashMap<Route, Queue>,
    /// Ends whose other end isn't here, which nobody has taken yet.
    far: Vec<Far>,
    buffer: Vec<u8>,
}

impl Runner {
    /// A schedule that begins, or goes on as `progress` says. `identity` is who it is of, whatever the schedule says. It is refused if it calls a function of the
    /// program.
    pub fn add(
        &mut self,
        portable: Rc<Portable>,
        identity: Identity,
        progress: Progress,
        memory: &mut impl Memory,
    ) -> Result<RunId> {
        if !portable.runs_anywhere() {
            return Err(ONLY_IN_OWNER);
        }
        let endpoints = portable.endpoints.len();
        let mut progress = progress;
        progress.messages.resize(endpoints, [0; 2]);
        let step = progress.position.step as usize;
        let mut cursor = Cursor::default();
        cursor.rewind(&portable.schedule);
        let run = Run {
            portable: portable.clone(),
            identity,
            cursor,
            outcomes: Vec::new(),
            begun: vec![[0; 2]; endpoints],
            progress,
            is_ready: false,
            failed: None,
        };
        let id = self.next_id();
        if id == self.runs.len() {
            self.runs.push(None);
        }
        self.runs[id] = Some(run);
        if step > 0 {
            self.resume(id, &portable, step, memory);
        }
        self.wake(id);
        Ok(id)
    }

    /// The number that the next run gets.
    pub fn next_id(&self) -> RunId {
        self.runs.iter().position(Option::is_none).unwrap_or(self.runs.len())
    }

    /// Begins the messages again that were begun before this step, and leaves out everything else.
    fn resume(&mut self, id: RunId, portable: &Portable, step: usize, memory: &mut impl Memory) {
        let mut cursor = Cursor::default();
        cursor.rewind(&portable.schedule);
        // SAFETY: the wire never dereferences the addresses of the steps.
        unsafe { cursor.skip(&portable.schedule, step, &mut RemoteWire { runner: self, memory, me: id }) };
        if let Some(run) = &mut self.runs[id] {
            run.cursor = cursor;
        }
    }

    fn wake(&mut self, id: RunId) {
        if let Some(run) = self.runs[id].as_mut().filter(|run| !run.is_ready) {
            run.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Ends a run with an error, at the next [`Runner::advance`].
    pub fn fail(&mut self, id: RunId, error: Error) {
        if let Some(run) = &mut self.runs[id] {
            run.failed.get_or_insert(error);
            self.wake(id);
        }
    }

    /// Forgets a run, and its ends of messages.
    pub fn remove(&mut self, id: RunId) {
        if self.runs.get_mut(id).and_then(Option::take).is_some() {
            self.queues.retain(|_, queue| {
                queue.sends.retain(|half| half.items.run != id);
                queue.receives.retain(|half| half.items.run != id);
                !queue.sends.is_empty() || !queue.receives.is_empty()
            });
            self.far.retain(|far| far.run() != id);
        }
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.iter().flatten().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does what can be done now; `ended` learns which runs have ended and how. True if anything was done.
    pub fn advance(&mut self, memory: &mut impl Memory, mut ended: impl FnMut(RunId, Result)) -> bool {
        let mut moved = false;
        while let Some(id) = self.ready.pop_front() {
            let Some(run) = self.runs[id].as_mut() else { continue };
            moved = true;
            run.is_ready = false;
            let (mut cursor, portable) = (std::mem::take(&mut run.cursor), run.portable.clone());
            let mut failed = run.failed;
            if failed.is_none() {
                let mut wire = RemoteWire { runner: self, memory, me: id };
                // SAFETY: the wire never dereferences the addresses of the steps.
                if unsafe { !cursor.advance::<false, _>(&portable.schedule, &mut wire) } {
                    failed = self.put_back(id, cursor);
                    if failed.is_none() {
                        continue;
                    }
                } else {
                    let outcome = cursor.outcome();
                    self.end(id);
                    ended(id, outcome);
                    continue;
                }
            }
            self.remove(id);
            ended(id, failed.map_or(Ok(()), Err));
        }
        moved
    }

    fn put_back(&mut self, id: RunId, cursor: Cursor<usize>) -> Option<Error> {
        let run = self.runs[id].as_mut()?;
        run.cursor = cursor;
        run.failed
    }

    /// A run has come to its end, so none of its messages is left.
    fn end(&mut self, id: RunId) {
        self.runs[id] = None;
    }

    fn of(&self, id: RunId) -> Result<&Run> {
        self.runs.get(id).and_then(Option::as_ref).ok_or(INVALID)
    }

    /// Enters one end of a message, and delivers what has both.
    fn enter(&mut self, memory: &mut impl Memory, me: RunId, endpoint: u32, items: Items, sends: bool) -> usize {
        let Some(run) = self.runs[me].as_mut() else { return usize::MAX };
        let begun = &mut run.begun[endpoint as usize][usize::from(sends)];
        *begun += 1;
        if *begun <= run.progress.messages[endpoint as usize][usize::from(sends)] {
            // It was there before the run was begun again.
            return usize::MAX;
        }
        let (transfer, number) = (run.outcomes.len(), *begun);
        run.outcomes.push(None);
        let other = run.portable.endpoints[endpoint as usize];
        let route = Route::of(&run.identity, &other, sends);
        let half = Half { items, endpoint, transfer };
        if !memory.is_here(other.process) {
            self.leave_far(route, number, half, sends);
            return transfer;
        }
        let queue = self.queues.entry(route).or_default();
        if sends { &mut queue.sends } else { &mut queue.receives }.push_back(half);
        if queue.sends.is_empty() || queue.receives.is_empty() {
            return transfer;
        }
        let pair = queue.sends.pop_front().zip(queue.receives.pop_front());
        if queue.sends.is_empty() && queue.receives.is_empty() {
            self.queues.remove(&route);
        }
        if let Some((from, into)) = pair {
            self.deliver(memory, from, into);
        }
        transfer
    }

    fn deliver(&mut self, memory: &mut impl Memory, from: Half, into: Half) {
        let fits = self.bytes(&from.items).and_then(|sent| Ok(sent <= self.bytes(&into.items)?));
        let copied = self.copy(memory, from.items, into.items);
        if copied.is_err_and(|error| error.class == Class::ERR_PROC_ABORTED) {
            // One of the two is gone, and who is left is about to learn it from its agent.
            return;
        }
        let received = copied.and(fits).and_then(|fits| if fits { Ok(()) } else { Err(TOO_LONG) });
        self.count(memory, into, false, received);
        self.count(memory, from, true, copied);
    }

    /// One end of a message is over.
    fn count(&mut self, memory: &mut impl Memory, half: Half, sends: bool, outcome: Result) {
        let id = half.items.run;
        let Some(run) = self.runs[id].as_mut() else { return };
        run.outcomes[half.transfer] = Some(outcome);
        let count = &mut run.progress.messages[half.endpoint as usize][usize::from(sends)];
        *count += 1;
        memory.counted((id, half.endpoint), sends, *count);
        self.wake(id);
    }
}

/// What each of these has done, made to agree: a message that one end has noted is there at the other end, too. A worker is never more than one message ahead.
pub fn reconcile(runs: &mut [(Rc<Portable>, Identity, Progress)]) {
    let mut known: HashMap<Route, u64> = HashMap::new();
    let mut each = |f: &mut dyn FnMut(Route, &mut u64)| {
        for (portable, identity, progress) in runs.iter_mut() {
            progress.messages.resize(portable.endpoints.len(), [0; 2]);
            for (endpoint, counts) in portable.endpoints.iter().zip(&mut progress.messages) {
                f(Route::of(identity, endpoint, false), &mut counts[0]);
                f(Route::of(identity, endpoint, true), &mut counts[1]);
            }
        }
    };
    each(&mut |route, count| {
        let most = known.entry(route).or_default();
        *most = (*most).max(*count);
    });
    each(&mut |route, count| *count = (*count).max(known[&route]));
}

/// One run among the others.
struct RemoteWire<'a, M> {
    runner: &'a mut Runner,
    memory: &'a mut M,
    me: RunId,
}

impl<M: Memory> RemoteWire<'_, M> {
    fn enter(&mut self, peer: u32, at: *const u8, (count, datatype): (usize, Option<u32>), sends: bool) -> usize {
        let items = Items { run: self.me, address: at.addr(), count: count as u64, datatype };
        self.runner.enter(self.memory, self.me, peer, items, sends)
    }
}

impl<M: Memory> Wire for RemoteWire<'_, M> {
    type Transfer = usize;
    const DONE: usize = usize::MAX;

    unsafe fn send(&mut self, _: Via, peer: u32, from: *const u8, len: usize) -> Result<usize> {
        Ok(self.enter(peer, from, (len, None), true))
    }

    unsafe fn recv(&mut self, _: Via, peer: u32, into: *mut u8, len: usize) -> Result<usize> {
        Ok(self.enter(peer, into, (len, None), false))
    }

    unsafe fn send_items(&mut self, _: Via, peer: u32, from: *const u8, count: usize, datatype: u32) -> Result<usize> {
        Ok(self.enter(peer, from, (count, Some(datatype)), true))
    }

    unsafe fn recv_items(&mut self, _: Via, peer: u32, into: *mut u8, count: usize, datatype: u32) -> Result<usize> {
        Ok(self.enter(peer, into, (count, Some(datatype)), false))
    }

    unsafe fn perform(&mut self, step: &Step) -> Result {
        self.runner.perform(self.memory, self.me, *step)
    }

    fn is_done(transfer: usize) -> bool {
        transfer == usize::MAX
    }

    fn test(&mut self, transfer: usize) -> Option<Result> {
        self.runner.runs[self.me].as_ref().map_or(Some(Err(INVALID)), |run| run.outcomes[transfer])
    }

    fn wait(&mut self, _: usize, _: usize) -> Option<Result> {
        unreachable!("schedules of others never block")
    }

    fn came_to(&mut self, step: usize) {
        let position = Position { step: step as u32, part: 0 };
        if let Some(run) = self.runner.runs[self.me].as_mut() {
            run.progress.position = position;
        }
        self.memory.came_to(self.me, position);
    }
}
