//! Making progress and waiting for it.
//!
//! [`poll`] moves the engine and every active schedule; [`wait_until`] polls, spins, yields and sleeps as the waiter says.

use crate::runtime::rt;
use std::rc::Rc;

/// Something that advances outside of the calls that started it: a collective's schedule.
pub trait Active {
    /// Does what can be done now, without blocking. True when there is nothing left to do.
    fn advance(&self) -> bool;
}

/// Keeps `work` advancing until it says that it is done. Polls it once right away.
pub fn activate(work: Rc<dyn Active>) {
    if !work.advance() {
        rt().active.borrow_mut().push(work);
    }
}

/// One round of progress. True if anything happened.
pub fn poll() -> bool {
    let moved = rt().engine.with(|engine| engine.progress());
    if !rt().active.borrow().is_empty() {
        advance_active();
    }
    moved
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
