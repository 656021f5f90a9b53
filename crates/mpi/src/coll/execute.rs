//! Runs a [`Schedule`]: the only interpreter of steps, for blocking, non-blocking and persistent collectives, for processes that run
//! schedules of others, and for the tests' simulator. It never touches memory: that is the [`Wire`]'s part.
//!
//! An error doesn't stop a schedule: other processes wait for our messages. It is remembered ([`Fate`]), nothing is
//! reduced any more, and it is the outcome at the end. What a loss means, [`crate::losses`] decides. After one nothing is sent any more: what we have
//! is not what the others should get, and they learn of the loss, too.

use super::schedule::{Schedule, Step, Ticket};
use super::team::Via;
use crate::losses::{Fate, LOST};
use base::Result;

/// Where a schedule runs: starts and finishes its transfers, and reaches its memory.
pub trait Wire {
    /// A started transfer.
    type Transfer: Copy;

    /// A transfer that needs no waiting.
    const DONE: Self::Transfer;

    /// Starts sending bytes.
    ///
    /// # Safety
    /// The memory must be readable until the transfer is complete; likewise for the other methods.
    unsafe fn send(&mut self, via: Via, peer: u32, from: *const u8, len: usize) -> Result<Self::Transfer>;

    /// Starts receiving bytes.
    ///
    /// # Safety
    /// See [`Wire::send`].
    unsafe fn recv(&mut self, via: Via, peer: u32, into: *mut u8, len: usize) -> Result<Self::Transfer>;

    /// Starts sending items.
    ///
    /// # Safety
    /// See [`Wire::send`].
    unsafe fn send_items(
        &mut self,
        via: Via,
        peer: u32,
        from: *const u8,
        count: usize,
        datatype: u32,
    ) -> Result<Self::Transfer>;

    /// Starts receiving items.
    ///
    /// # Safety
    /// See [`Wire::send`].
    unsafe fn recv_items(
        &mut self,
        via: Via,
        peer: u32,
        into: *mut u8,
        count: usize,
        datatype: u32,
    ) -> Result<Self::Transfer>;

    /// Performs a step that is no transfer.
    ///
    /// # Safety
    /// The memory that the step names is valid.
    unsafe fn perform(&mut self, step: &Step) -> Result;

    /// Whether the transfer needs no more waiting.
    fn is_done(transfer: Self::Transfer) -> bool;

    /// The outcome of a transfer; `None` while it is under way.
    fn test(&mut self, transfer: Self::Transfer) -> Option<Result>;

    /// Waits for a transfer; `None` as soon as [`Wire::losses`] is no longer `losses`.
    fn wait(&mut self, transfer: Self::Transfer, losses: usize) -> Option<Result>;

    /// How many processes are known to be lost.
    fn losses(&self) -> usize {
        0
    }

    /// Whether one of the processes that take part is lost.
    fn is_broken(&self) -> bool {
        false
    }

    /// The run has come to this step: all before it is done, but for transfers.
    #[inline]
    fn came_to(&mut self, _step: usize) {}

    /// Gives a transfer up; false if it must be waited for all the same.
    fn abandon(&mut self, _transfer: Self::Transfer) -> bool {
        false
    }
}

/// How far a run of a schedule has come.
pub struct Cursor<T> {
    next_step: usize,
    transfers: Vec<T>,
    /// All transfers before this one are complete.
    open: usize,
    fate: Fate,
}

impl<T> Default for Cursor<T> {
    fn default() -> Cursor<T> {
        Cursor { next_step: 0, transfers: Vec::new(), open: 0, fate: Fate::default() }
    }
}

impl<T: Copy> Cursor<T> {
    /// Back to the start of `schedule`.
    #[inline]
    pub fn rewind(&mut self, schedule: &Schedule) {
        self.next_step = 0;
        self.transfers.clear();
        self.open = 0;
        self.fate = Fate::new(schedule.defect());
    }

    /// The outcome of a run that has ended.
    #[inline]
    pub fn outcome(&self) -> Result {
        self.fate.outcome()
    }

    /// How far the run has come.
    pub fn position(&self) -> (usize, usize) {
        (self.next_step, self.open)
    }

    /// Starts the transfers of the steps before `end` again and leaves out the rest: the run has come there already.
    ///
    /// # Safety
    /// As for [`Cursor::advance`].
    pub unsafe fn skip<W: Wire<Transfer = T>>(&mut self, schedule: &Schedule, end: usize, wire: &mut W) {
        let end = end.min(schedule.steps().len());
        for step in &schedule.steps()[..end] {
            if let Step::Send { .. } | Step::Recv { .. } | Step::SendItems { .. } | Step::RecvItems { .. } = step {
                // SAFETY: by the contract of this function.
                unsafe { self.execute::<false, W>(step, wire) };
            }
        }
        self.next_step = end;
    }

    /// Goes on until the end or, unless `BLOCK`, until something must be waited for. True at the end.
    ///
    /// # Safety
    /// The memory that the schedule names is valid until the run has ended.
    #[inline]
    pub unsafe fn advance<const BLOCK: bool, W: Wire<Transfer = T>>(
        &mut self,
        schedule: &Schedule,
        wire: &mut W,
    ) -> bool {
        let steps = schedule.steps();
        while let Some(step) = steps.get(self.next_step) {
            // SAFETY: by the contract of this function.
            if !unsafe { self.execute::<BLOCK, W>(step, wire) } {
                return false;
            }
            self.next_step += 1;
            wire.came_to(self.next_step);
        }
        let ended = self.settle_all::<BLOCK, W>(wire);
        // Also if nothing had to be waited for: no outcome is right without the lost process.
        if ended && self.fate.losses() != wire.losses() {
            self.look_for_losses(wire);
        }
        ended
    }

    #[inline]
    fn settle_all<const BLOCK: bool, W: Wire<Transfer = T>>(&mut self, wire: &mut W) -> bool {
        while self.open < self.transfers.len() {
            if !self.settle::<BLOCK, W>(Ticket(self.open as u32), wire) {
                return false;
            }
            self.open += 1;
        }
        true
    }

    #[inline]
    fn settle<const BLOCK: bool, W: Wire<Transfer = T>>(&mut self, ticket: Ticket, wire: &mut W) -> bool {
        if W::is_done(self.transfers[ticket.0 as usize]) {
            return true;
        }
        if self.fate.has_failed() && self.give_up(ticket, wire) {
            return true;
        }
        let slot = &mut self.transfers[ticket.0 as usize];
        let result = if BLOCK { wire.wait(*slot, self.fate.losses()) } else { wire.test(*slot) };
        let Some(result) = result else {
            return self.look_for_losses(wire) && self.settle::<BLOCK, W>(ticket, wire);
        };
        *slot = W::DONE;
        self.fate.note(result);
        true
    }

    /// Whether a process was lost since the last call; if so, which transfers that has ended.
    #[cold]
    fn look_for_losses<W: Wire<Transfer = T>>(&mut self, wire: &mut W) -> bool {
        if !self.fate.has_news(wire.losses()) {
            return false;
        }
        for other in self.open..self.transfers.len() {
            if !W::is_done(self.transfers[other])
                && let Some(result) = wire.test(self.transfers[other])
            {
                self.transfers[other] = W::DONE;
                self.fate.note(result);
            }
        }
        if wire.is_broken() {
            self.fate.note(Err(LOST));
        }
        true
    }

    /// After a loss: whether this transfer needs no more waiting, because it is complete or could be abandoned.
    #[cold]
    fn give_up<W: Wire<Transfer = T>>(&mut self, ticket: Ticket, wire: &mut W) -> bool {
        if !self.fate.is_lost() {
            return false;
        }
        let slot = &mut self.transfers[ticket.0 as usize];
        let result = wire.test(*slot);
        if result.is_none() && !wire.abandon(*slot) {
            return false;
        }
        *slot = W::DONE;
        self.fate.note(result.unwrap_or(Ok(())));
        true
    }

    #[inline]
    fn started<W: Wire<Transfer = T>>(&mut self, transfer: Result<T>) {
        match transfer {
            Ok(transfer) => self.transfers.push(transfer),
            Err(error) => {
                self.transfers.push(W::DONE);
                self.fate.note(Err(error));
            }
        }
    }

    /// Executes a step; false if it waits for something. The step is matched once and where it lies: with a copy and a second match, the interpreter
    /// takes 1.7 times as many instructions for a small all-to-all.
    ///
    /// # Safety
    /// The memory that the step names is valid until the run has ended.
    #[inline]
    unsafe fn execute<const BLOCK: bool, W: Wire<Transfer = T>>(&mut self, step: &Step, wire: &mut W) -> bool {
        // SAFETY: by the contract of this function, for every arm.
        unsafe {
            match *step {
                Step::Await(ticket) => return self.settle::<BLOCK, W>(ticket, wire),
                Step::Fence => return self.settle_all::<BLOCK, W>(wire),
                Step::Send { .. } | Step::SendItems { .. } if self.fate.is_lost() => self.transfers.push(W::DONE),
                Step::Send { from, len, peer, via } => self.started::<W>(wire.send(via, peer, from, len)),
                Step::Recv { into, len, peer, via } => self.started::<W>(wire.recv(via, peer, into, len)),
                Step::SendItems { from, count, datatype, peer, via } => {
                    self.started::<W>(wire.send_items(via, peer, from, count, datatype));
                }
                Step::RecvItems { into, count, datatype, peer, via } => {
                    self.started::<W>(wire.recv_items(via, peer, into, count, datatype));
                }
                Step::Reduce { .. } if self.fate.has_failed() => {}
                _ => {
                    let result = wire.perform(step);
                    self.fate.note(result);
                }
            }
        }
        true
    }
}
