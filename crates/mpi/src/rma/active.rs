//! Synchronisation in which the target takes part (MPI-5.0, 12.5.1, 12.5.2).

use super::epoch::Assertions;
use super::message::{Ask, Message};
use super::{Window, passive};
use crate::coll::internal::barrier;
use crate::cs::Section;
use crate::group::Group;
use base::{Class, Error, Result};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence as memory_fence};

/// `MPI_Win_fence`.
pub fn fence(cs: &mut Section, win: &Rc<Window>, assertions: Assertions) -> Result {
    win.epochs.borrow().fence()?;
    if !assertions.no_precede {
        passive::finish(cs, win, None);
    }
    // What this process has stored is there for others after the barrier, and the other way round.
    memory_fence(Ordering::SeqCst);
    barrier(cs, &win.comm)?;
    memory_fence(Ordering::SeqCst);
    win.epochs.borrow_mut().fenced(!assertions.no_succeed);
    // Some may have left the barrier before they could know.
    if win.has_lost_one(cs) {
        return Err(win.lost(cs));
    }
    win.take_failure()
}

/// The ranks of a group in that of the window.
fn ranks_of(win: &Window, group: &Group) -> Result<Vec<usize>> {
    let rank = |peer| win.group().rank_of(peer).map(|rank| rank as usize);
    let ranks: Option<Vec<usize>> = group.peers().map(rank).collect();
    ranks.ok_or(Error::new(Class::ERR_GROUP, "the group has processes that the window doesn't have"))
}

/// Counts what a rank has told: `-1` where this process knew it before it was told (`MPI_MODE_NOCHECK`).
fn take(counts: &mut std::collections::BTreeMap<usize, i64>, ranks: &[usize]) {
    for rank in ranks {
        *counts.entry(*rank).or_default() -= 1;
    }
    counts.retain(|_, count| *count != 0);
}

/// `MPI_Win_post`.
pub fn post(cs: &mut Section, win: &Rc<Window>, group: &Group) -> Result {
    let ranks = ranks_of(win, group)?;
    win.epochs.borrow_mut().post(ranks.clone())?;
    memory_fence(Ordering::SeqCst);
    tell_all(cs, win, &ranks, Ask::Post)
}

/// Tells ranks of the beginning or end of an epoch. All get it who are there.
fn tell_all(cs: &Section, win: &Window, ranks: &[usize], ask: Ask) -> Result {
    let mut outcome = Ok(());
    for &rank in ranks {
        let told = if rank == win.me() {
            let traffic = &mut *win.traffic.borrow_mut();
            let counts = if ask == Ask::Post { &mut traffic.posts } else { &mut traffic.completes };
            *counts.entry(rank).or_default() += 1;
            Ok(())
        } else {
            win.tell(cs, rank, &Message::new(ask, 0))
        };
        outcome = outcome.and(told);
    }
    outcome
}

/// `MPI_Win_start`: waits until all targets have posted.
pub fn start(cs: &mut Section, win: &Rc<Window>, group: &Group, assertions: Assertions) -> Result {
    let ranks = ranks_of(win, group)?;
    win.epochs.borrow_mut().start(ranks.clone())?;
    if !assertions.no_check {
        let waited = win.wait_for(cs, |_| {
            let posts = &win.traffic.borrow().posts;
            ranks.iter().all(|rank| posts.get(rank).is_some_and(|count| *count > 0))
        });
        if waited.is_err() {
            win.epochs.borrow_mut().complete();
            return waited;
        }
    }
    take(&mut win.traffic.borrow_mut().posts, &ranks);
    memory_fence(Ordering::SeqCst);
    Ok(())
}

/// `MPI_Win_complete`.
pub fn complete(cs: &mut Section, win: &Rc<Window>) -> Result {
    let ranks = win.epochs.borrow().started()?;
    for rank in &ranks {
        passive::finish(cs, win, Some(*rank));
    }
    memory_fence(Ordering::SeqCst);
    let told = tell_all(cs, win, &ranks, Ask::Complete);
    win.epochs.borrow_mut().complete();
    win.take_failure().and(told)
}

fn are_complete(win: &Window, ranks: &[usize]) -> bool {
    let completes = &win.traffic.borrow().completes;
    ranks.iter().all(|rank| completes.get(rank).is_some_and(|count| *count > 0))
}

fn end_exposure(win: &Window, ranks: &[usize]) {
    take(&mut win.traffic.borrow_mut().completes, ranks);
    win.epochs.borrow_mut().unposted();
    memory_fence(Ordering::SeqCst);
}

/// `MPI_Win_wait`.
pub fn wait(cs: &mut Section, win: &Rc<Window>) -> Result {
    let ranks = win.epochs.borrow().posted()?;
    let waited = win.wait_for(cs, |_| are_complete(win, &ranks));
    match waited {
        Ok(()) => end_exposure(win, &ranks),
        Err(_) => win.epochs.borrow_mut().unposted(),
    }
    waited
}

/// `MPI_Win_test`: whether the exposure epoch has ended.
pub fn test(cs: &mut Section, win: &Rc<Window>) -> Result<bool> {
    let ranks = win.epochs.borrow().posted()?;
    crate::progress::poll_some(cs);
    let ended = are_complete(win, &ranks);
    if ended {
        end_exposure(win, &ranks);
    } else if win.has_lost_one(cs) {
        win.epochs.borrow_mut().unposted();
        return Err(win.lost(cs));
    }
    Ok(ended)
}
