//! Making progress and waiting for it.
//!
//! [`poll`] moves the engine and every active schedule; [`wait_until`] polls, and when nothing happens spins, yields and
//! sleeps as the waiter says (decision 0021).

use crate::cs::Section;
use crate::handle::Handle;
use crate::inside::Inside;
use crate::sleepers::{self, Until};
use crate::{agent, cs, engine};
use base::Peer;
use channel::wait;
use channel::waiting::Waiting;
use protocol::engine::OpId;
use protocol::matching::Pattern;
use protocol::policy::testing::Testing;
use protocol::policy::waiting::Idle;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use sys::wake::Bell;

/// Something that advances outside of the calls that started it: a collective's schedule.
pub trait Active {
    /// Does what can be done now, without blocking. True when there is nothing left to do.
    fn advance(&self, cs: &mut Section) -> bool;
    /// Before a sleep: true if it can advance now. What it waits for wakes this process from now on.
    fn arm(&self, _cs: &Section) -> bool {
        false
    }
    /// After a sleep.
    fn disarm(&self, _cs: &Section) {}
}

/// Places of the program that hold requests.
pub trait Requests {
    /// The requests that are not null.
    fn each(&self, f: &mut dyn FnMut(Handle));
    /// The message of each that needs no more than one message.
    fn each_message(&self, cs: &Section, f: &mut dyn FnMut(Option<OpId>));
}

/// What a wait is for.
#[derive(Clone, Copy)]
pub enum Awaited<'a> {
    /// Whatever is pending.
    Anything,
    /// One transfer, and if it belongs to a collective, all of it.
    One(OpId),
    /// Several transfers.
    Both(Option<OpId>, Option<OpId>),
    /// All of these requests.
    All(&'a dyn Requests),
    /// One of these requests.
    Any(&'a dyn Requests),
    /// A message that a probe would find.
    Message(&'a Pattern, Option<Peer>),
    /// Nothing: the program tests and will come again.
    Tested,
}

/// How this process waits, while there is an engine.
static WAITING: Inside<RefCell<Option<Waiting>>> = Inside::new(RefCell::new(None));

/// Sets how this process waits.
pub(crate) fn set_waiting(cs: &Section, waiting: Waiting) {
    *WAITING.get(cs).borrow_mut() = Some(waiting);
}

/// Runs `f` on what decides how this process waits.
#[inline]
pub(crate) fn waiting<R>(cs: &Section, f: impl FnOnce(&mut Waiting) -> R) -> R {
    f(WAITING.get(cs).borrow_mut().as_mut().expect("MPI is initialised"))
}

/// Schedules that advance with every poll.
static ACTIVE: Inside<RefCell<Vec<Rc<dyn Active>>>> = Inside::new(RefCell::new(Vec::new()));

/// What serves other processes, with every poll of a wait, for as long as it is there. Messages on the short path don't ask for it.
static SERVICES: Inside<RefCell<Vec<Rc<dyn Active>>>> = Inside::new(RefCell::new(Vec::new()));

/// Tells the node agent what this rank waits for.
type Tell = fn(&Section, &Awaited<'_>);

/// Set by the initialisation: what the handles and messages mean, higher floors know.
static TELL: Inside<Cell<Option<Tell>>> = Inside::new(Cell::new(None));

/// Lets `tell` answer when the node agent asks what this rank waits for.
pub(crate) fn on_question(cs: &Section, tell: Tell) {
    TELL.get(cs).set(Some(tell));
}

/// Answers if somebody has asked since the last call.
#[inline]
fn answer(cs: &Section, awaited: &Awaited<'_>) {
    if agent::take_report_request(cs)
        && let Some(tell) = TELL.get(cs).get()
    {
        tell(cs, awaited);
    }
}

/// Whether schedules wait for progress.
#[inline]
pub fn has_active(cs: &Section) -> bool {
    !ACTIVE.get(cs).borrow().is_empty()
}

/// Forgets the schedules: MPI ends.
pub(crate) fn clear(cs: &Section) {
    ACTIVE.get(cs).borrow_mut().clear();
    SERVICES.get(cs).borrow_mut().clear();
}

/// Keeps `work` advancing until it says that it is done. Advances it once right away.
pub fn activate(cs: &mut Section, work: Rc<dyn Active>) {
    if !work.advance(cs) {
        ACTIVE.get(cs).borrow_mut().push(work);
    }
}

/// As [`activate`], without advancing it right away.
pub(crate) fn attach(cs: &Section, work: Rc<dyn Active>) {
    ACTIVE.get(cs).borrow_mut().push(work);
}

/// Serves other processes by `service` from now on, until it says that it is done.
pub fn serve(cs: &Section, service: Rc<dyn Active>) {
    SERVICES.get(cs).borrow_mut().push(service);
}

/// Whether there is something to do beside the engine.
#[inline]
fn has_work(cs: &Section) -> bool {
    has_active(cs) || !SERVICES.get(cs).borrow().is_empty()
}

/// One round of progress. True if anything happened.
#[inline]
pub fn poll(cs: &mut Section) -> bool {
    if has_work(cs) {
        return poll_with_work(cs);
    }
    let moved = engine::with(cs, |engine| engine.progress());
    if moved {
        sleepers::happened(cs);
    }
    moved
}

/// As [`poll`], when there is something to do beside the engine. Whoever observes messages is part of that (`tool::messages`).
fn poll_with_work(cs: &mut Section) -> bool {
    let moved = engine::with(cs, |engine| engine.progress_observed());
    if moved {
        sleepers::happened(cs);
    }
    advance_active(cs);
    moved
}

/// Several rounds: what a test call does before it answers.
#[inline]
pub fn poll_some(cs: &mut Section) {
    const ROUNDS: u32 = 16;
    for round in 0..ROUNDS {
        if !poll(cs) {
            if round == 0 {
                found_nothing(cs);
            } else {
                TESTING.found_something();
            }
            break;
        }
    }
}

/// When test calls give the processor away.
static TESTING: Testing = Testing::new();

/// Gives the processor away every so often, if it is shared.
fn found_nothing(cs: &mut Section) {
    if !TESTING.found_nothing() {
        return;
    }
    answer(cs, &Awaited::Tested);
    if waiting(cs, |waiting| waiting.waiter.oversubscribed()) {
        cs::released(cs, sys::wake::yield_cpu);
    }
}

/// Advances the schedules and services.
fn advance_active(cs: &mut Section) {
    advance_all(cs, &SERVICES);
    advance_all(cs, &ACTIVE);
}

/// They may run callbacks of the program and start others, so no borrow is held meanwhile.
fn advance_all(cs: &mut Section, list: &'static Inside<RefCell<Vec<Rc<dyn Active>>>>) {
    let mut round = std::mem::take(&mut *list.get(cs).borrow_mut());
    let before = round.len();
    round.retain(|work| !work.advance(cs));
    if round.len() < before {
        sleepers::happened(cs);
    }
    let mut started = list.get(cs).borrow_mut();
    round.append(&mut started);
    *started = round;
}

/// Makes progress until `done`; gives the processor away when there is nothing to do.
#[inline]
pub fn wait_until(cs: &mut Section, done: impl FnMut(&mut Section) -> bool) {
    wait_for(cs, Awaited::Anything, done);
}

/// As [`wait_until`], and says what is waited for to whoever asks.
#[inline]
pub fn wait_for(cs: &mut Section, awaited: Awaited<'_>, mut done: impl FnMut(&mut Section) -> bool) {
    let (mut idle_polls, mut idled) = (0, false);
    while !done(cs) {
        if poll(cs) {
            idle_polls = 0;
        } else if done(cs) {
            // A schedule or another thread has completed it.
            break;
        } else {
            (idle_polls, idled) = (idle_polls + 1, true);
            idle(cs, idle_polls, &awaited);
        }
    }
    if idled {
        sleepers::retire(cs);
    }
}

/// As [`wait_until`], for what another process changes in shared memory: as nothing tells of that, this one never sleeps for long.
pub fn wait_for_memory(cs: &mut Section, mut done: impl FnMut(&mut Section) -> bool) {
    let mut idle_polls = 0;
    while !done(cs) {
        if poll(cs) {
            idle_polls = 0;
            continue;
        }
        idle_polls += 1;
        answer(cs, &Awaited::Anything);
        match waiting(cs, |waiting| waiting.waiter.idle(idle_polls)) {
            Idle::Spin if !cs::is_locking() => std::hint::spin_loop(),
            Idle::Spin | Idle::Yield => cs::released(cs, sys::wake::yield_cpu),
            Idle::ShortSleep | Idle::Sleep => cs::released(cs, wait::short_sleep),
        }
    }
}

/// Rounds after which the migration thread lets others in.
const ATTENDED_ROUNDS: usize = 64;

/// Makes progress until `done`, for the migration thread: with the engine alone, as schedules and services may call the program. Those who wait for them are woken.
pub(crate) fn attend(cs: &mut Section, bell: &Arc<Bell>, mut done: impl FnMut(&mut Section) -> bool) {
    loop {
        let rounds = (0..ATTENDED_ROUNDS).take_while(|_| poll_engine(cs)).count();
        if done(cs) {
            return;
        }
        if rounds == ATTENDED_ROUNDS {
            cs::released(cs, sys::wake::yield_cpu);
            continue;
        }
        let (moved, limit) = engine::with(cs, |engine| {
            waiting(cs, |waiting| waiting.arm(engine));
            (engine.progress_observed(), waiting(cs, |waiting| waiting.sleep_limit(engine)))
        });
        if moved {
            tell(cs);
        } else {
            let set = waiting(cs, |waiting| waiting.sleep_set());
            sleepers::sleep_attending(cs, bell, set.fd(), limit);
        }
        engine::with(cs, |engine| waiting(cs, |waiting| waiting.disarm(engine.endpoints())));
    }
}

fn poll_engine(cs: &Section) -> bool {
    let moved = engine::with(cs, |engine| engine.progress_observed());
    if moved {
        tell(cs);
    }
    moved
}

/// Something has happened, of which schedules and services may have to know.
fn tell(cs: &Section) {
    sleepers::happened(cs);
    if has_work(cs) {
        sleepers::wake_all(cs);
    }
}

/// Nothing happened in the last `idle_polls` polls.
fn idle(cs: &mut Section, idle_polls: u64, awaited: &Awaited<'_>) {
    answer(cs, awaited);
    match waiting(cs, |waiting| waiting.waiter.idle(idle_polls)) {
        Idle::Spin if !cs::is_locking() => std::hint::spin_loop(),
        Idle::Spin | Idle::Yield => cs::released(cs, sys::wake::yield_cpu),
        Idle::ShortSleep => cs::released(cs, wait::short_sleep),
        Idle::Sleep => sleep(cs, awaited),
    }
}

/// Sleeps until something comes in. The doors are watched before the last look, so that nothing is missed. Of several threads one does that
/// for all.
fn sleep(cs: &mut Section, awaited: &Awaited<'_>) {
    let crowd = cs::is_locking();
    let watches = !crowd || sleepers::watches(cs);
    let (moved, limit) = engine::with(cs, |engine| {
        if watches {
            waiting(cs, |waiting| waiting.arm(engine));
        }
        (watches && engine.progress_observed(), waiting(cs, |waiting| waiting.sleep_limit(engine)))
    });
    let ready = watches && ACTIVE.get(cs).borrow().iter().fold(false, |ready, work| work.arm(cs) | ready);
    if moved {
        sleepers::happened(cs);
    } else if !ready {
        let set = waiting(cs, |waiting| waiting.sleep_set());
        match crowd {
            true => sleepers::sleep(cs, until(cs, awaited), set.fd(), limit),
            false => cs::released(cs, || wait::sleep(set.fd(), limit)),
        }
    }
    if watches {
        ACTIVE.get(cs).borrow().iter().for_each(|work| work.disarm(cs));
        engine::with(cs, |engine| waiting(cs, |waiting| waiting.disarm(engine.endpoints())));
    }
    if has_work(cs) {
        advance_active(cs);
    }
}

/// The most messages that others look at for a sleeper.
const LOOKED_AT_MAX: usize = 16;

/// When a wait for this may be over.
fn until(cs: &Section, awaited: &Awaited<'_>) -> Until {
    let mut messages = Vec::new();
    match *awaited {
        Awaited::One(op) => messages.push(Some(op)),
        Awaited::Both(a, b) => messages.extend(a.into_iter().chain(b).map(Some)),
        Awaited::All(requests) | Awaited::Any(requests) => requests.each_message(cs, &mut |op| {
            if messages.len() <= LOOKED_AT_MAX {
                messages.push(op);
            }
        }),
        Awaited::Message(pattern, expected) => return Until::Probed(*pattern, expected),
        Awaited::Anything | Awaited::Tested => {}
    }
    if let Awaited::All(_) | Awaited::Both(..) = awaited {
        // All are needed: what is complete ends nothing.
        engine::with(cs, |engine| messages.retain(|op| op.is_none_or(|op| !engine.is_complete(op))));
    }
    let only_messages: Option<Vec<OpId>> = messages.into_iter().collect();
    match only_messages {
        Some(ops) if !ops.is_empty() && ops.len() <= LOOKED_AT_MAX => Until::Messages(ops),
        _ => Until::Event,
    }
}
