//! What is under way at a window, and the service that answers the messages of its other processes.
//!
//! The service runs with every poll of a wait. It never waits itself: a lock that is not free, or somebody else who accumulates, leaves the question where it is.
//! Questions are answered in the order in which they came, so those of one origin keep theirs (12.7.2).

use super::accumulate::{self, Fold};
use super::message::{Ask, Message};
use super::target::Local;
use super::{Flavor, Life, Window, memory};
use crate::cs::Section;
use crate::datatype::{self, Datatype};
use crate::owner::Owner;
use crate::p2p::transfer::{self, Transfer, start_recv_message, start_send};
use crate::progress::{self, Active};
use crate::request::{self, Operation};
use crate::status::Status;
use crate::{engine, losses};
use base::ids::Plane;
use base::{Class, Error, Result};
use protocol::engine::Mode;
use protocol::engine::one_sided::AccessId;
use protocol::matching::Pattern;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Messages that are being received at a time.
const INCOMING_MAX: usize = 64;
/// Accesses and questions to one target that may be under way before the next one waits.
const UNDER_WAY_MAX: usize = 4096;

/// A call with a request; complete when the access is.
pub struct Accessed(Cell<Option<Result>>);

impl Accessed {
    pub(super) fn done() -> Rc<Accessed> {
        Rc::new(Accessed(Cell::new(Some(Ok(())))))
    }

    pub(super) fn pending() -> Rc<Accessed> {
        Rc::new(Accessed(Cell::new(None)))
    }

    /// The handle of its request.
    pub fn enter(self: Rc<Accessed>, cs: &Section, owner: &Rc<Owner>) -> crate::handle::Handle {
        request::enter_collective(cs, self, owner)
    }
}

impl Active for Accessed {
    fn advance(&self, _cs: &mut Section) -> bool {
        self.0.get().is_some()
    }
}

impl Operation for Accessed {
    fn start(&self, _cs: &mut Section) -> Result {
        Err(Error::new(Class::ERR_REQUEST, "the request is not persistent"))
    }

    fn outcome(&self, _cs: &Section) -> Option<Result<Status>> {
        self.0.get().map(|result| result.map(|()| Status::EMPTY))
    }
}

/// Where what comes back goes.
pub struct Items {
    pub buf: *mut u8,
    pub count: usize,
    pub datatype: Rc<Datatype>,
}

impl Items {
    pub fn of(local: &Local<'_>) -> Items {
        Items { buf: local.buf, count: local.count, datatype: Rc::clone(local.datatype) }
    }

    fn fill(&self, packed: &[u8]) {
        let local = Local { buf: self.buf, count: self.count, datatype: &self.datatype };
        // SAFETY: the program leaves the items of an access alone until it is complete (12.3).
        unsafe { local.unpack(packed) };
    }
}

/// Accesses of the engine that make one call.
pub struct Access {
    pub rank: usize,
    pub ids: Vec<AccessId>,
    /// The packed data, where the items of either side are not one run.
    pub staged: Vec<u8>,
    /// Where they go in the end.
    pub items: Option<Items>,
    pub request: Option<Rc<Accessed>>,
    pub result: Result,
}

/// A question that was asked.
struct Asked {
    rank: usize,
    items: Option<Items>,
    request: Option<Rc<Accessed>>,
    /// Set when the answer is there.
    answered: Option<Rc<Accessed>>,
}

struct Incoming {
    from: usize,
    transfer: Transfer,
    bytes: Vec<u8>,
}

/// See the head of this file.
#[derive(Default)]
pub struct Traffic {
    /// Accesses and questions that are not complete, by target.
    under_way: BTreeMap<usize, usize>,
    accesses: Vec<Access>,
    /// Targets at which accesses of lanes may not be visible yet.
    pub unflushed: BTreeSet<usize>,
    asked: BTreeMap<u64, Asked>,
    next_token: u64,
    outgoing: Vec<(Transfer, Vec<u8>)>,
    incoming: VecDeque<Incoming>,
    /// A question that could not be answered yet.
    waiting: Option<(usize, Message)>,
    /// Who waits for the lock of this process's memory: rank, token, whether alone.
    lockers: VecDeque<(usize, u64, bool)>,
    /// Exposure epochs that other ranks have begun for this process, less those that it has taken part in.
    pub posts: BTreeMap<usize, i64>,
    /// Access epochs that other ranks have ended at this process, less those that it knows of.
    pub completes: BTreeMap<usize, i64>,
    /// Losses that have been looked into.
    losses: usize,
}

impl Traffic {
    fn settle(&mut self, rank: usize) {
        if let Some(count) = self.under_way.get_mut(&rank) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&rank);
            }
        }
    }
}

impl Window {
    /// Sends a message to another process of the window.
    pub(super) fn tell(&self, cs: &Section, rank: usize, message: &Message) -> Result {
        let bytes = message.encode();
        let byte = datatype::byte();
        // SAFETY: the bytes are kept until the transfer is complete.
        let transfer = unsafe {
            start_send(
                cs,
                &self.comm,
                Plane::PointToPoint,
                Mode::Standard,
                bytes.as_ptr(),
                bytes.len(),
                byte,
                rank as i32,
                0,
            )
        }?;
        if let Transfer::Pending(_) = transfer {
            self.traffic.borrow_mut().outgoing.push((transfer, bytes));
        }
        Ok(())
    }

    /// Asks a target. `items` get the data of the answer.
    pub(super) fn ask(
        &self,
        cs: &Section,
        rank: usize,
        message: Message,
        items: Option<Items>,
        request: Option<Rc<Accessed>>,
    ) -> Result {
        self.ask_for(cs, rank, message, Asked { rank, items, request, answered: None })
    }

    fn ask_for(&self, cs: &Section, rank: usize, message: Message, asked: Asked) -> Result {
        let token = {
            let traffic = &mut *self.traffic.borrow_mut();
            traffic.next_token += 1;
            *traffic.under_way.entry(rank).or_default() += 1;
            traffic.asked.insert(traffic.next_token, asked);
            traffic.next_token
        };
        self.tell(cs, rank, &Message { token, ..message }).inspect_err(|_| {
            let mut traffic = self.traffic.borrow_mut();
            traffic.asked.remove(&token);
            traffic.settle(rank);
        })
    }

    /// Asks a target, and waits until it has answered.
    pub(super) fn ask_and_wait(&self, cs: &mut Section, rank: usize, message: Message) -> Result {
        let answered = Accessed::pending();
        let asked = Asked { rank, items: None, request: None, answered: Some(Rc::clone(&answered)) };
        self.ask_for(cs, rank, message, asked)?;
        progress::wait_until(cs, |_| answered.0.get().is_some());
        answered.0.get().unwrap_or(Ok(()))
    }

    /// Remembers accesses of the engine until they are complete.
    pub(super) fn follow(&self, cs: &Section, access: Access) {
        let mut traffic = self.traffic.borrow_mut();
        *traffic.under_way.entry(access.rank).or_default() += 1;
        traffic.unflushed.insert(access.rank);
        traffic.accesses.push(access);
        drop(traffic);
        self.reap(cs);
    }

    /// Ends the accesses that are complete.
    pub(super) fn reap(&self, cs: &Section) {
        let mut traffic = self.traffic.borrow_mut();
        let mut at = 0;
        while at < traffic.accesses.len() {
            let access = &mut traffic.accesses[at];
            let result = &mut access.result;
            access.ids.retain(|id| match engine::with(cs, |engine| engine.take_access(*id)) {
                Some(outcome) => {
                    *result = result.and(outcome.map(drop));
                    false
                }
                None => true,
            });
            if !access.ids.is_empty() {
                at += 1;
                continue;
            }
            let access = traffic.accesses.swap_remove(at);
            if let (Some(items), Ok(())) = (&access.items, access.result) {
                items.fill(&access.staged);
            }
            traffic.settle(access.rank);
            self.end(access.request, self.after_losses(cs, access.result));
        }
    }

    /// What has become of an access by key. A target that has freed the window after a loss knows its memory no longer, which this process may learn before it learns of the loss. Of all
    /// windows but dynamic ones the range was checked before.
    pub(super) fn after_losses<T>(&self, cs: &Section, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            let refused = error.class == Class::ERR_RMA_RANGE;
            if refused && (self.flavor != Flavor::Dynamic || self.has_lost_one(cs)) { losses::LOST } else { error }
        })
    }

    /// A call is complete.
    fn end(&self, request: Option<Rc<Accessed>>, result: Result) {
        match (request, result) {
            (Some(request), result) => request.0.set(Some(result)),
            (None, Err(error)) => self.fail(error),
            (None, Ok(())) => {}
        }
    }

    /// Whether nothing to `rank`, or to anybody for `None`, is under way.
    pub(super) fn is_quiet(&self, cs: &Section, rank: Option<usize>) -> bool {
        self.reap(cs);
        let traffic = self.traffic.borrow();
        rank.map_or(traffic.under_way.is_empty(), |rank| !traffic.under_way.contains_key(&rank))
    }

    /// Waits while too much is under way to a target.
    pub(super) fn throttle(&self, cs: &mut Section, rank: usize) {
        let is_full =
            |window: &Window| window.traffic.borrow().under_way.get(&rank).is_some_and(|n| *n >= UNDER_WAY_MAX);
        if is_full(self) {
            progress::wait_until(cs, |cs| {
                self.reap(cs);
                !is_full(self)
            });
        }
    }

    /// Whether a process of the window is gone.
    pub(super) fn has_lost_one(&self, cs: &Section) -> bool {
        losses::count(cs) > 0 && losses::any(cs, |peer| self.comm.group.contains(peer))
    }

    /// Whether a rank is gone.
    pub(super) fn is_lost(&self, cs: &Section, rank: usize) -> bool {
        let peer = self.targets.get(rank).map(|target| target.peer);
        losses::count(cs) > 0 && losses::any(cs, |lost| Some(lost) == peer)
    }

    /// Whether a lock may never be given back: whoever has it alone is gone, or somebody is who may have shared it.
    pub(super) fn is_stuck(&self, cs: &Section, words: &memory::Words) -> bool {
        words.holder().map_or_else(|| self.has_lost_one(cs), |rank| self.is_lost(cs, rank))
    }

    /// Waits for what others do; an error if one of them is gone before.
    pub(super) fn wait_for(&self, cs: &mut Section, mut done: impl FnMut(&mut Section) -> bool) -> Result {
        let mut is_done = false;
        progress::wait_until(cs, |cs| {
            is_done = done(cs);
            is_done || self.has_lost_one(cs)
        });
        if is_done { Ok(()) } else { Err(self.lost(cs)) }
    }

    /// The answer to a question.
    fn on_done(&self, message: &Message) {
        let asked = {
            let mut traffic = self.traffic.borrow_mut();
            let asked = traffic.asked.remove(&message.token);
            if let Some(asked) = &asked {
                traffic.settle(asked.rank);
            }
            asked
        };
        let Some(asked) = asked else { return };
        let result = match message.flag {
            0 => Ok(()),
            class => Err(Error::new(Class(class as i32), "the target has refused the access")),
        };
        if let (Some(items), Ok(())) = (&asked.items, result) {
            items.fill(&message.data);
        }
        match asked.answered {
            Some(answered) => answered.0.set(Some(result)),
            None => self.end(asked.request, result),
        }
    }

    /// Ends the questions to processes that are gone.
    fn look_for_losses(&self, cs: &Section) {
        let count = losses::count(cs);
        if std::mem::replace(&mut self.traffic.borrow_mut().losses, count) == count {
            return;
        }
        let is_lost = |rank: usize| losses::any(cs, |peer| peer == self.targets[rank].peer);
        let mut traffic = self.traffic.borrow_mut();
        let tokens: Vec<u64> = traffic.asked.iter().filter(|(_, asked)| is_lost(asked.rank)).map(|(t, _)| *t).collect();
        let mut ended = Vec::new();
        for token in tokens {
            if let Some(asked) = traffic.asked.remove(&token) {
                traffic.settle(asked.rank);
                ended.push(asked);
            }
        }
        traffic.lockers.retain(|(rank, ..)| !is_lost(*rank));
        drop(traffic);
        for asked in ended {
            match asked.answered {
                Some(answered) => answered.0.set(Some(Err(losses::LOST))),
                None => self.end(asked.request, Err(losses::LOST)),
            }
        }
    }

    /// Takes what has come.
    fn receive(&self, cs: &Section) {
        let pattern = Pattern { context: self.comm.context.plane(Plane::PointToPoint), source: None, tag: None };
        while self.traffic.borrow().incoming.len() < INCOMING_MAX {
            let Some((id, found)) = engine::with(cs, |engine| engine.extract(&pattern)) else { break };
            let mut bytes = vec![0; found.length as usize];
            // SAFETY: the vector is kept until the transfer is complete.
            let started = unsafe { start_recv_message(cs, id, bytes.as_mut_ptr(), bytes.len(), datatype::byte()) };
            if let Ok(transfer) = started {
                let from = found.envelope.source as usize;
                self.traffic.borrow_mut().incoming.push_back(Incoming { from, transfer, bytes });
            }
        }
    }

    /// The next question, in order, once all of it is there.
    fn next_question(&self, cs: &Section) -> Option<(usize, Message)> {
        let mut traffic = self.traffic.borrow_mut();
        if let Some(waiting) = traffic.waiting.take() {
            return Some(waiting);
        }
        loop {
            let outcome = transfer::test(cs, traffic.incoming.front()?.transfer)?;
            let incoming = traffic.incoming.pop_front()?;
            // What a lost process has sent in part is nobody's.
            let Ok(message) = outcome.and_then(|_| Message::decode(&incoming.bytes)) else { continue };
            return Some((incoming.from, message));
        }
    }

    /// Answers; an error has nobody to be told, as the one who asked is gone.
    fn answer(&self, cs: &Section, rank: usize, token: u64, outcome: Result<Vec<u8>>) {
        let (flag, data) = match outcome {
            Ok(data) => (0, data),
            Err(error) => (i64::from(error.class.0), Vec::new()),
        };
        let _ = self.tell(cs, rank, &Message { flag, data, ..Message::new(Ask::Done, token) });
    }

    /// Does what a message asks; gives it back if that isn't possible yet.
    fn handle(&self, cs: &mut Section, from: usize, message: Message) -> Option<Message> {
        let outcome = match message.ask {
            Ask::Done => {
                self.on_done(&message);
                return None;
            }
            Ask::Post => {
                *self.traffic.borrow_mut().posts.entry(from).or_default() += 1;
                return None;
            }
            Ask::Complete => {
                *self.traffic.borrow_mut().completes.entry(from).or_default() += 1;
                return None;
            }
            Ask::Lock => {
                self.traffic.borrow_mut().lockers.push_back((from, message.token, message.flag == 1));
                return None;
            }
            Ask::Unlock => {
                self.own_words().unlock(message.flag == 1);
                Ok(Vec::new())
            }
            Ask::Put => self.runs_of(&message, true).map(|runs| {
                // SAFETY: the runs are memory of the window, and as long as the data.
                unsafe { accumulate::scatter(&runs, &message.data) };
                Vec::new()
            }),
            Ask::Get => {
                // SAFETY: the runs are memory of the window.
                self.runs_of(&message, false).map(|runs| unsafe { accumulate::gather(&runs) })
            }
            Ask::Accumulate | Ask::CompareSwap => {
                let words = self.own_words();
                if !words.try_accumulate(self.me()) {
                    if !words.accumulator().is_some_and(|rank| self.is_lost(cs, rank)) {
                        return Some(message);
                    }
                    self.answer(cs, from, message.token, Err(losses::LOST));
                    return None;
                }
                let outcome = self.fold(cs, &message);
                words.end_accumulate();
                outcome
            }
        };
        self.answer(cs, from, message.token, outcome);
        None
    }

    fn own_words(&self) -> &memory::Words {
        let words = self.own.borrow().words();
        // SAFETY: they are there until the window is freed, which nothing of the service outlives.
        unsafe { &*words }
    }

    /// What a message combines with this process's memory; the elements before, if it wants them.
    fn fold(&self, cs: &mut Section, message: &Message) -> Result<Vec<u8>> {
        let runs = self.runs_of(message, false)?;
        let builtin = message.builtin();
        let fold = match message.ask {
            Ask::CompareSwap => Fold::CompareSwap,
            _ => Fold::Op(message.op),
        };
        accumulate::check(fold, builtin)?;
        let len: usize = runs.iter().map(|(_, len)| len).sum();
        let fits = match fold {
            Fold::CompareSwap => message.data.len() == 2 * builtin.size() && len == builtin.size(),
            Fold::Op(crate::op::Predefined::NoOp) => true,
            Fold::Op(_) => message.data.len() == len && len.is_multiple_of(builtin.size()),
        };
        if !fits {
            return Err(Error::new(Class::ERR_TYPE, "data and memory of an accumulate differ in size"));
        }
        // SAFETY: the runs are memory of the window, and the data has the size that the operation needs.
        let before = unsafe { accumulate::fold_memory(cs, &runs, builtin, fold, &message.data, message.flag == 1) };
        Ok(if message.flag == 1 { before } else { Vec::new() })
    }

    /// Address and length of the runs of this process's memory that a message names.
    fn runs_of(&self, message: &Message, has_data: bool) -> Result<Vec<(usize, usize)>> {
        let bounds = message.layout.bounds(message.count)?;
        let Some((size, low, high)) = bounds else { return Ok(Vec::new()) };
        let at = i128::from(message.at);
        let base = self.own_memory(at + i128::from(low), at + i128::from(high))?;
        if has_data && size != message.data.len() as u64 {
            return Err(Error::new(Class::ERR_TYPE, "data and items of a put differ in size"));
        }
        let mut runs = Vec::new();
        message.layout.walk(message.count, 0, size, &mut |offset, len| {
            runs.push(((base as usize).wrapping_add_signed((message.at + offset) as isize), len as usize));
        });
        Ok(runs)
    }

    /// Refuses what others ask of a window that is freed here.
    fn refuse(&self, cs: &Section) {
        self.receive(cs);
        while let Some((from, message)) = self.next_question(cs) {
            if !matches!(message.ask, Ask::Done | Ask::Post | Ask::Complete) {
                self.answer(cs, from, message.token, Err(losses::LOST));
            }
            self.receive(cs);
        }
        for (rank, token, _) in std::mem::take(&mut self.traffic.borrow_mut().lockers) {
            self.answer(cs, rank, token, Err(losses::LOST));
        }
    }

    /// Gives the lock to those who wait for it, in order.
    pub(super) fn grant(&self, cs: &Section) {
        loop {
            let Some((rank, token, alone)) = self.traffic.borrow().lockers.front().copied() else { return };
            let outcome = match self.own_words() {
                words if words.try_lock(alone, rank) => Ok(Vec::new()),
                words if self.is_stuck(cs, words) => Err(losses::LOST),
                _ => return,
            };
            self.traffic.borrow_mut().lockers.pop_front();
            self.answer(cs, rank, token, outcome);
        }
    }
}

/// Serves a window until it is freed by all; to the end, if they can't know that of each other.
pub struct Service(pub Rc<Window>);

impl Active for Service {
    fn advance(&self, cs: &mut Section) -> bool {
        let window = &self.0;
        if window.life.get() == Life::FreedAfterLoss {
            window.refuse(cs);
        } else if window.life.get() == Life::Open {
            window.reap(cs);
            window.look_for_losses(cs);
            window.receive(cs);
            while let Some((from, message)) = window.next_question(cs) {
                if let Some(left) = window.handle(cs, from, message) {
                    window.traffic.borrow_mut().waiting = Some((from, left));
                    break;
                }
                window.receive(cs);
            }
            window.grant(cs);
        }
        let mut traffic = window.traffic.borrow_mut();
        traffic.outgoing.retain(|(transfer, _)| transfer::test(cs, *transfer).is_none());
        window.life.get() == Life::Freed && traffic.outgoing.is_empty()
    }
}
