//! Synchronisation in which only the origin takes part (MPI-5.0, 12.5.3, 12.5.4).

use super::Window;
use super::epoch::{Assertions, Held};
use super::message::{Ask, Message};
use crate::cs::Section;
use crate::progress;
use crate::status::PROC_NULL;
use base::Result;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence as memory_fence};

/// Takes the lock of a target's memory.
pub(super) fn take(cs: &mut Section, win: &Rc<Window>, rank: usize, alone: bool) -> Result {
    let Some(words) = win.words(cs, rank) else {
        return win.ask_and_wait(cs, rank, Message { flag: i64::from(alone), ..Message::new(Ask::Lock, 0) });
    };
    let (me, mut taken) = (win.me(), false);
    progress::wait_for_memory(cs, |cs| {
        taken = words.try_lock(alone, me);
        // A target that is gone may have given its lock to a process that never heard of it.
        taken || win.is_stuck(cs, words) || win.is_lost(cs, rank)
    });
    if taken { Ok(()) } else { Err(win.lost(cs)) }
}

/// Gives it back.
fn give_back(cs: &mut Section, win: &Rc<Window>, rank: usize, held: Held) -> Result {
    let alone = match held {
        Held::Unchecked => return Ok(()),
        Held::Shared => false,
        Held::Alone => true,
    };
    match win.words(cs, rank) {
        Some(words) => {
            words.unlock(alone);
            // Whoever has asked for this process's lock comes first: a program that locks its own memory in a loop polls only while it has the lock.
            if rank == win.me() {
                win.grant(cs);
            }
            Ok(())
        }
        None => win.ask_and_wait(cs, rank, Message { flag: i64::from(alone), ..Message::new(Ask::Unlock, 0) }),
    }
}

/// Waits until what this process has begun at `rank`, or at all for `None`, is complete. Errors are kept.
pub(super) fn finish(cs: &mut Section, win: &Rc<Window>, rank: Option<usize>) {
    progress::wait_until(cs, |cs| win.is_quiet(cs, rank));
    let left = std::mem::take(&mut win.traffic.borrow_mut().unflushed);
    let (now, later) = left.into_iter().partition(|other| rank.is_none_or(|rank| rank == *other));
    win.traffic.borrow_mut().unflushed = later;
    let flushes: std::collections::BTreeSet<usize> = now;
    for target in flushes {
        win.flush(cs, target);
    }
    // A program may wait for what another process does to this one's memory by calls that find nothing to do here.
    progress::poll_some(cs);
    memory_fence(Ordering::SeqCst);
}

/// `MPI_Win_lock`.
pub fn lock(cs: &mut Section, win: &Rc<Window>, alone: bool, rank: i32, assertions: Assertions) -> Result {
    if rank == PROC_NULL {
        return win.epochs.borrow_mut().lock_null();
    }
    let rank = win.rank(rank)?;
    win.epochs.borrow().may_lock(rank)?;
    let held = match (assertions.no_check, alone) {
        (true, _) => Held::Unchecked,
        (false, true) => Held::Alone,
        (false, false) => Held::Shared,
    };
    if held != Held::Unchecked {
        take(cs, win, rank, alone)?;
    }
    win.epochs.borrow_mut().locked(rank, held);
    memory_fence(Ordering::SeqCst);
    Ok(())
}

/// `MPI_Win_unlock`.
pub fn unlock(cs: &mut Section, win: &Rc<Window>, rank: i32) -> Result {
    if rank == PROC_NULL {
        return win.epochs.borrow_mut().unlock_null();
    }
    let rank = win.rank(rank)?;
    let held = win.epochs.borrow().lock_of(rank)?;
    finish(cs, win, Some(rank));
    let given = give_back(cs, win, rank, held);
    win.epochs.borrow_mut().unlocked(rank);
    win.take_failure().and(given)
}

/// `MPI_Win_lock_all`. Locks are taken when a target is first accessed, and at once where the program may load and store by itself.
pub fn lock_all(cs: &mut Section, win: &Rc<Window>, assertions: Assertions) -> Result {
    win.epochs.borrow_mut().lock_all(assertions.no_check)?;
    if assertions.no_check {
        return Ok(());
    }
    let ranks = if win.flavor == super::Flavor::Shared { 0..win.targets.len() } else { win.me()..win.me() + 1 };
    for rank in ranks {
        if let Err(error) = take(cs, win, rank, false) {
            let _ = unlock_all(cs, win);
            return Err(error);
        }
        win.epochs.borrow_mut().locked(rank, Held::Shared);
    }
    memory_fence(Ordering::SeqCst);
    Ok(())
}

/// `MPI_Win_unlock_all`.
pub fn unlock_all(cs: &mut Section, win: &Rc<Window>) -> Result {
    let held = win.epochs.borrow().locks_of_all()?;
    finish(cs, win, None);
    let mut given = Ok(());
    for rank in held {
        given = given.and(give_back(cs, win, rank, Held::Shared));
    }
    win.epochs.borrow_mut().complete();
    win.take_failure().and(given)
}

/// `MPI_Win_flush`, and `MPI_Win_flush_local`: what is complete at the target is so here.
pub fn flush(cs: &mut Section, win: &Rc<Window>, rank: i32) -> Result {
    if rank == PROC_NULL {
        return Ok(());
    }
    let rank = win.rank(rank)?;
    win.epochs.borrow().flush(Some(rank))?;
    finish(cs, win, Some(rank));
    win.take_failure()
}

/// `MPI_Win_flush_all`, and `MPI_Win_flush_local_all`.
pub fn flush_all(cs: &mut Section, win: &Rc<Window>) -> Result {
    win.epochs.borrow().flush(None)?;
    finish(cs, win, None);
    win.take_failure()
}

/// `MPI_Win_sync`. Programs poll memory between two of these, so others get their turn.
pub fn sync(cs: &mut Section, _win: &Rc<Window>) -> Result {
    memory_fence(Ordering::SeqCst);
    progress::poll_some(cs);
    memory_fence(Ordering::SeqCst);
    Ok(())
}
