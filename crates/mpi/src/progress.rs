//! Making progress and waiting for it.
//!
//! [`poll`] moves the engine and every active schedule; [`wait_until`] polls, and when nothing happens spins, yields and
//! sleeps as the waiter says (decision 0021).

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

/// Something that advances outside of the calls that started it: a collective's schedule.
pub trait Active {
    /// Does what can be done now, without blocking. True when there is nothing left to do.
    fn advance(&self) -> bool;
}

/// Places of the program that hold requests.
pub trait Requests {
    /// The requests that are not null.
    fn each(&self, f: &mut dyn FnMut(Handle));
    /// The message of each that needs no more than one message.
    fn each_message(&self, f: &mut dyn FnMut(Option<OpId>));
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
pub(crate) fn set_waiting(waiting: Waiting) {
    *WAITING.borrow_mut() = Some(waiting);
}

/// Runs `f` on what decides how this process waits.
#[inline]
pub(crate) fn waiting<R>(f: impl FnOnce(&mut Waiting) -> R) -> R {
    f(WAITING.borrow_mut().as_mut().expect("MPI is initialised"))
}

/// Schedules that advance with every poll.
static ACTIVE: Inside<RefCell<Vec<Rc<dyn Active>>>> = Inside::new(RefCell::new(Vec::new()));

/// Tells the node agent what this rank waits for.
type Tell = fn(&Awaited<'_>);

/// Set by the initialisation: what the handles and messages mean, higher floors know.
static TELL: Inside<Cell<Option<Tell>>> = Inside::new(Cell::new(None));

/// Lets `tell` answer when the node agent asks what this rank waits for.
pub(crate) fn on_question(tell: Tell) {
    TELL.set(Some(tell));
}

/// Answers if somebody has asked since the last call.
#[inline]
fn answer(awaited: &Awaited<'_>) {
    if agent::take_report_request()
        && let Some(tell) = TELL.get()
    {
        tell(awaited);
    }
}

/// Whether schedules wait for progress.
#[inline]
pub fn has_active() -> bool {
    !ACTIVE.borrow().is_empty()
}

/// Forgets the schedules: MPI ends.
pub(crate) fn clear() {
    ACTIVE.borrow_mut().clear();
}

/// Keeps `work` advancing until it says that it is done. Advances it once right away.
pub fn activate(work: Rc<dyn Active>) {
    if !work.advance() {
        ACTIVE.borrow_mut().push(work);
    }
}

/// One round of progress. True if anything happened.
#[inline]
pub fn poll() -> bool {
    let moved = engine::with(|engine| engine.progress());
    if moved {
        sleepers::happened();
    }
    if has_active() {
        advance_active();
    }
    moved
}

/// Several rounds: what a test call does before it answers.
#[inline]
pub fn poll_some() {
    const ROUNDS: u32 = 16;
    for round in 0..ROUNDS {
        if !poll() {
            if round == 0 {
                found_nothing();
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
fn found_nothing() {
    if !TESTING.found_nothing() {
        return;
    }
    answer(&Awaited::Tested);
    if waiting(|waiting| waiting.waiter.oversubscribed()) {
        cs::released(sys::wake::yield_cpu);
    }
}

/// Advances the schedules. They may run callbacks of the program and start others, so no borrow is held meanwhile.
fn advance_active() {
    let mut round = std::mem::take(&mut *ACTIVE.borrow_mut());
    let before = round.len();
    round.retain(|work| !work.advance());
    if round.len() < before {
        sleepers::happened();
    }
    let mut started = ACTIVE.borrow_mut();
    round.append(&mut started);
    *started = round;
}

/// Makes progress until `done`; gives the processor away when there is nothing to do.
#[inline]
pub fn wait_until(done: impl FnMut() -> bool) {
    wait_for(Awaited::Anything, done);
}

/// As [`wait_until`], and says what is waited for to whoever asks.
#[inline]
pub fn wait_for(awaited: Awaited<'_>, mut done: impl FnMut() -> bool) {
    let (mut idle_polls, mut idled) = (0, false);
    while !done() {
        if poll() {
            idle_polls = 0;
        } else if done() {
            // A schedule or another thread has completed it.
            break;
        } else {
            (idle_polls, idled) = (idle_polls + 1, true);
            idle(idle_polls, &awaited);
        }
    }
    if idled {
        sleepers::retire();
    }
}

/// Nothing happened in the last `idle_polls` polls.
fn idle(idle_polls: u64, awaited: &Awaited<'_>) {
    answer(awaited);
    match waiting(|waiting| waiting.waiter.idle(idle_polls)) {
        Idle::Spin if !cs::is_locking() => std::hint::spin_loop(),
        Idle::Spin | Idle::Yield => cs::released(sys::wake::yield_cpu),
        Idle::ShortSleep => cs::released(wait::short_sleep),
        Idle::Sleep => sleep(awaited),
    }
}

/// Sleeps until something comes in. The doors are watched before the last look, so that nothing is missed. Of several threads one does that
/// for all.
fn sleep(awaited: &Awaited<'_>) {
    let crowd = cs::is_locking();
    let watches = !crowd || sleepers::watches();
    let (moved, limit) = engine::with(|engine| {
        if watches {
            waiting(|waiting| waiting.arm(engine));
        }
        (watches && engine.progress(), waiting(|waiting| waiting.sleep_limit(engine)))
    });
    if moved {
        sleepers::happened();
    } else {
        let set = waiting(|waiting| waiting.sleep_set());
        match crowd {
            true => sleepers::sleep(until(awaited), set.fd(), limit),
            false => cs::released(|| wait::sleep(set.fd(), limit)),
        }
    }
    if watches {
        engine::with(|engine| waiting(|waiting| waiting.disarm(engine.endpoints())));
    }
    if has_active() {
        advance_active();
    }
}

/// The most messages that others look at for a sleeper.
const LOOKED_AT_MAX: usize = 16;

/// When a wait for this may be over.
fn until(awaited: &Awaited<'_>) -> Until {
    let mut messages = Vec::new();
    match *awaited {
        Awaited::One(op) => messages.push(Some(op)),
        Awaited::Both(a, b) => messages.extend(a.into_iter().chain(b).map(Some)),
        Awaited::All(requests) | Awaited::Any(requests) => requests.each_message(&mut |op| {
            if messages.len() <= LOOKED_AT_MAX {
                messages.push(op);
            }
        }),
        Awaited::Message(pattern, expected) => return Until::Probed(*pattern, expected),
        Awaited::Anything | Awaited::Tested => {}
    }
    if let Awaited::All(_) | Awaited::Both(..) = awaited {
        // All are needed: what is complete ends nothing.
        engine::with(|engine| messages.retain(|op| op.is_none_or(|op| !engine.is_complete(op))));
    }
    let only_messages: Option<Vec<OpId>> = messages.into_iter().collect();
    match only_messages {
        Some(ops) if !ops.is_empty() && ops.len() <= LOOKED_AT_MAX => Until::Messages(ops),
        _ => Until::Event,
    }
}
