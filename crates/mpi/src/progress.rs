//! Making progress and waiting for it.
//!
//! [`poll`] moves the engine and every active schedule; [`wait_until`] polls, and when nothing happens spins, yields and
//! sleeps as the waiter says (decision 0021).

use crate::cs;
use crate::runtime::rt;
use crate::waits::{self, Awaited};
use channel::shared_cpu;
use channel::wait::{self, Idle};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Something that advances outside of the calls that started it: a collective's schedule.
pub trait Active {
    /// Does what can be done now, without blocking. True when there is nothing left to do.
    fn advance(&self) -> bool;
}

/// Keeps `work` advancing until it says that it is done. Advances it once right away.
pub fn activate(work: Rc<dyn Active>) {
    if !work.advance() {
        rt().active.borrow_mut().push(work);
    }
}

/// One round of progress. True if anything happened.
#[inline]
pub fn poll() -> bool {
    let moved = rt().engine.with(|engine| engine.progress());
    if rt().has_active() {
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
                found_something();
            }
            break;
        }
    }
}

/// Test calls that have found nothing since the processor was last given away. Only a hint, so threads may overwrite each other's.
static IN_VAIN: AtomicU32 = AtomicU32::new(0);
/// How many of them it takes until it is given away again.
static PATIENCE: AtomicU32 = AtomicU32::new(PATIENCE_LEAST);
const PATIENCE_LEAST: u32 = 16;
const PATIENCE_MOST: u32 = 128;

/// A program that tests in a loop on a node with more ranks than processors would keep the others from what it waits for:
/// every so often its processor is given away. Each time that brings nothing soon makes it rarer, for a program may also test
/// between the steps of its own work.
fn found_nothing() {
    let count = IN_VAIN.load(Ordering::Relaxed) + 1;
    let patience = PATIENCE.load(Ordering::Relaxed);
    if count < patience {
        IN_VAIN.store(count, Ordering::Relaxed);
        return;
    }
    IN_VAIN.store(0, Ordering::Relaxed);
    PATIENCE.store((patience * 2).min(PATIENCE_MOST), Ordering::Relaxed);
    waits::answer(&Awaited::Tested);
    if rt().waiting(|waiting| waiting.waiter.yields_early()) {
        cs::released(sys::wake::yield_cpu);
    }
}

/// What is found soon after the processor was given away shows that this was worth it: it is given away as often again.
fn found_something() {
    const SOON: u32 = 2 * PATIENCE_LEAST;
    if IN_VAIN.load(Ordering::Relaxed) < SOON {
        PATIENCE.store(PATIENCE_LEAST, Ordering::Relaxed);
    }
    IN_VAIN.store(0, Ordering::Relaxed);
}

/// Advances the schedules. They may run callbacks of the program and start others, so no borrow is held meanwhile.
fn advance_active() {
    let round = std::mem::take(&mut *rt().active.borrow_mut());
    for work in round {
        if !work.advance() {
            rt().active.borrow_mut().push(work);
        }
    }
}

/// Makes progress until `done`; gives the processor away when there is nothing to do.
#[inline]
pub fn wait_until(done: impl FnMut() -> bool) {
    wait_for(Awaited::Anything, done);
}

/// As [`wait_until`], and says what is waited for to whoever asks.
#[inline]
pub fn wait_for(awaited: Awaited<'_>, mut done: impl FnMut() -> bool) {
    let mut idle_polls = 0;
    while !done() {
        if poll() {
            idle_polls = 0;
        } else if done() {
            // A schedule or another thread has completed it.
            return;
        } else {
            idle_polls += 1;
            idle(idle_polls, &awaited);
        }
    }
}

/// Nothing happened in the last `idle_polls` polls.
fn idle(idle_polls: u64, awaited: &Awaited<'_>) {
    waits::answer(awaited);
    match rt().waiting(|waiting| waiting.waiter.idle(idle_polls)) {
        Idle::Spin if !cs::is_locking() => std::hint::spin_loop(),
        Idle::Spin | Idle::Yield => cs::released(sys::wake::yield_cpu),
        Idle::Nap => cs::released(shared_cpu::nap),
        Idle::Sleep => sleep(),
    }
}

/// How long a thread sleeps when another one may complete what it waits for, and take the wake-up with it.
const SHARED_SLEEP: Duration = Duration::from_millis(1);

/// Sleeps until something comes in. The doors are watched before the last look, so that nothing is missed.
fn sleep() {
    let limit = rt().engine.with(|engine| {
        rt().waiting(|waiting| waiting.arm(engine));
        if engine.progress() { None } else { Some(rt().waiting(|waiting| waiting.sleep_limit(engine))) }
    });
    if let Some(limit) = limit {
        let limit = if cs::is_locking() { Some(SHARED_SLEEP) } else { limit };
        let set = rt().waiting(|waiting| waiting.sleep_set());
        cs::released(|| wait::sleep(Some(set.fd()), limit));
    }
    rt().engine.with(|engine| rt().waiting(|waiting| waiting.disarm(engine.endpoints())));
    if rt().has_active() {
        advance_active();
    }
}
