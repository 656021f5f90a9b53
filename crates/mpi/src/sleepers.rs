//! Threads that sleep in MPI at the same time, which takes `MPI_THREAD_MULTIPLE` (decision 0021).
//!
//! Each of them sleeps on a bell of its own and on everything that can wake this process: so the thread that a message is for is most often woken by the
//! message itself. But another one may be faster, and take message and wake-up with it. One of them, the *watcher*, arms and disarms. Why no wake-up is lost:
//! - While threads sleep there is a watcher, and it sleeps armed or is awake in its wait, where it polls. When it returns to the program, it
//!   appoints one of the sleepers and rings its bell ([`retire`]).
//! - What completes completes inside the critical section, so the next one inside sees it (`critical-section` in `cs`). Whoever leaves it, also to
//!   sleep or to yield, looks what the sleepers wait for and rings those whose wait may be over ([`look_after`]). A thread looks at what it
//!   waits for and becomes a sleeper without leaving in between, so each completion is either seen by the thread itself or by the one that
//!   leaves after it.
//! - What is left to do when a thread returns to the program or sleeps, and of which no peer will tell, is the watcher's: it is rung.
//! - A bell that rings before its thread sleeps stays readable.

use crate::cs::Section;
use crate::inside::Inside;
use crate::{cs, engine};
use base::Peer;
use channel::transports;
use protocol::engine::OpId;
use protocol::matching::Pattern;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use sys::wake::Bell;

/// When a sleeper's wait may be over, apart from the loss of a process.
pub(crate) enum Until {
    /// One of these messages is complete.
    Messages(Vec<OpId>),
    /// A probe finds something.
    Probed(Pattern, Option<Peer>),
    /// Anything has happened.
    Event,
}

struct Sleeper {
    thread: u64,
    bell: Arc<Bell>,
    until: Until,
    /// [`events`] and losses when it fell asleep.
    events: u64,
    losses: usize,
    rung: bool,
}

/// All threads that sleep, and who watches.
#[derive(Default)]
struct Sleepers {
    asleep: Vec<Sleeper>,
    watcher: Option<u64>,
    /// The bell of the migration thread while it sleeps. It arms for itself, and is never the watcher.
    attendant: Option<Arc<Bell>>,
}

impl Sleepers {
    /// Whether `thread` watches; it does from now on if nobody did.
    fn watches(&mut self, thread: u64) -> bool {
        *self.watcher.get_or_insert(thread) == thread
    }

    /// Rings the sleepers of which `is_meant` says so.
    fn ring(&mut self, mut is_meant: impl FnMut(&Sleeper) -> bool) {
        for sleeper in self.asleep.iter_mut().filter(|sleeper| !sleeper.rung) {
            if is_meant(sleeper) {
                sleeper.rung = true;
                sleeper.bell.ring();
            }
        }
    }

    /// `thread` sleeps no longer, so nobody rings it any more.
    fn wake(&mut self, thread: u64) {
        if let Some(at) = self.asleep.iter().position(|sleeper| sleeper.thread == thread) {
            let sleeper = self.asleep.swap_remove(at);
            if sleeper.rung {
                sleeper.bell.silence();
            }
        }
    }

    /// `thread` waits no longer.
    fn retire(&mut self, thread: u64) {
        if self.watcher != Some(thread) {
            return;
        }
        // One that is on its way out anyway would only hand on.
        let next = self.asleep.iter().min_by_key(|sleeper| sleeper.rung).map(|sleeper| sleeper.thread);
        self.watcher = next;
        self.ring(|sleeper| Some(sleeper.thread) == next);
    }
}

static SLEEPERS: Inside<RefCell<Sleepers>> =
    Inside::new(RefCell::new(Sleepers { asleep: Vec::new(), watcher: None, attendant: None }));

/// How often something has happened that may end a wait [`Until::Event`].
static EVENTS: Inside<Cell<u64>> = Inside::new(Cell::new(0));

thread_local! {
    /// What wakes this thread; `None` if there were no descriptors left.
    static BELL: Option<Arc<Bell>> = Bell::new().ok().map(Arc::new);
}

/// Something has happened that may end a wait [`Until::Event`].
#[inline]
pub(crate) fn happened(cs: &Section) {
    EVENTS.get(cs).set(EVENTS.get(cs).get() + 1);
}

/// Whether the calling thread, which is about to sleep, watches for all.
pub(crate) fn watches(cs: &Section) -> bool {
    BELL.with(Option::is_some) && SLEEPERS.get(cs).borrow_mut().watches(cs::thread_id())
}

/// Sleeps outside of the critical section until the wait may be over or `set` is readable, at most as long as `limit`.
pub(crate) fn sleep(cs: &mut Section, until: Until, set: BorrowedFd<'_>, limit: Option<Duration>) {
    let Some(bell) = BELL.with(Clone::clone) else {
        return cs::released(cs, channel::wait::short_sleep);
    };
    let thread = cs::thread_id();
    if SLEEPERS.get(cs).borrow().watcher != Some(thread) {
        tell_watcher(cs);
    }
    let losses = engine::with(cs, |engine| engine.losses());
    let sleeper = Sleeper { thread, bell: Arc::clone(&bell), until, events: EVENTS.get(cs).get(), losses, rung: false };
    SLEEPERS.get(cs).borrow_mut().asleep.push(sleeper);
    cs::on_leaving(cs, look_after);
    cs::released(cs, || channel::wait::sleep_on(set, Some(bell.as_fd()), limit));
    SLEEPERS.get(cs).borrow_mut().wake(thread);
}

/// As [`sleep`], of the migration thread.
pub(crate) fn sleep_attending(cs: &mut Section, bell: &Arc<Bell>, set: BorrowedFd<'_>, limit: Option<Duration>) {
    SLEEPERS.get(cs).borrow_mut().attendant = Some(Arc::clone(bell));
    cs::on_leaving(cs, look_after);
    cs::released(cs, || channel::wait::sleep_on(set, Some(bell.as_fd()), limit));
    SLEEPERS.get(cs).borrow_mut().attendant = None;
    bell.silence();
}

/// Wakes all sleepers: there is something to do that the thread which has noticed it leaves to them.
pub(crate) fn wake_all(cs: &Section) {
    SLEEPERS.get(cs).borrow_mut().ring(|_| true);
}

/// The wait of the calling thread is over: if it watched, another one does.
pub(crate) fn retire(cs: &Section) {
    SLEEPERS.get(cs).borrow_mut().retire(cs::thread_id());
}

/// Rings the sleepers whose wait may be over; called by every thread that leaves the critical section.
fn look_after(cs: &mut Section, returns: bool) {
    let nobody_sleeps = {
        let sleepers = SLEEPERS.get(cs).borrow();
        sleepers.asleep.is_empty() && sleepers.attendant.is_none()
    };
    if nobody_sleeps || !engine::is_set() {
        return;
    }
    if returns {
        tell_watcher(cs);
    }
    let events = EVENTS.get(cs).get();
    engine::with(cs, |engine| {
        let losses = engine.losses();
        SLEEPERS.get(cs).borrow_mut().ring(|sleeper| {
            let may_be_over = match &sleeper.until {
                Until::Messages(ops) => ops.iter().any(|op| engine.is_complete(*op)),
                Until::Probed(pattern, expected) => engine.probe_or_lost(pattern, *expected).is_some(),
                Until::Event => sleeper.events != events,
            };
            may_be_over || sleeper.losses != losses
        });
    });
}

/// Rings the watcher if there is something to do that it doesn't know of.
fn tell_watcher(cs: &Section) {
    let has_work = engine::with(cs, |engine| engine.has_backlog() || transports::have_own_work(engine.endpoints()));
    if has_work {
        let mut sleepers = SLEEPERS.get(cs).borrow_mut();
        let watcher = sleepers.watcher;
        sleepers.ring(|sleeper| Some(sleeper.thread) == watcher);
        if let Some(bell) = &sleepers.attendant {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::wake::sleep_until_readable;

    fn asleep(sleepers: &mut Sleepers, thread: u64) -> Arc<Bell> {
        let bell = Arc::new(Bell::new().expect("a descriptor"));
        sleepers.asleep.push(Sleeper {
            thread,
            bell: Arc::clone(&bell),
            until: Until::Event,
            events: 0,
            losses: 0,
            rung: false,
        });
        bell
    }

    fn rings(bell: &Bell) -> bool {
        sleep_until_readable(bell.as_fd(), Duration::ZERO)
    }

    #[test]
    fn a_watcher_that_returns_appoints_a_sleeper() {
        let mut sleepers = Sleepers::default();
        assert!(sleepers.watches(1) && !sleepers.watches(2) && !sleepers.watches(3));
        let (second, third) = (asleep(&mut sleepers, 2), asleep(&mut sleepers, 3));
        sleepers.retire(3);
        assert!(sleepers.watches(1) && !rings(&second) && !rings(&third), "only the watcher appoints");
        sleepers.ring(|sleeper| sleeper.thread == 2);
        sleepers.retire(1);
        assert!(rings(&third) && sleepers.watches(3), "rather one that nobody has rung");
        sleepers.wake(3);
        sleepers.retire(3);
        assert!(sleepers.watches(2), "one that was rung must come by before it returns, too");
        sleepers.wake(2);
        assert!(!rings(&second));
        sleepers.retire(2);
        assert!(sleepers.watches(4), "nobody sleeps: the next one watches");
    }
}
