//! The epochs of a process at a window (MPI-5.0, 12.5): what may follow what. Wrong order is `MPI_ERR_RMA_SYNC`, found where it happens.

use base::{Result, ensure, fail};
use std::collections::BTreeMap;

/// The assertions of synchronisation calls (12.5.5) that change what Ferrule does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Assertions {
    /// `MPI_MODE_NOCHECK`: no lock is in the way, or the matching call has been made.
    pub no_check: bool,
    /// `MPI_MODE_NOPRECEDE`: a fence completes no accesses of this process.
    pub no_precede: bool,
    /// `MPI_MODE_NOSUCCEED`: a fence begins no epoch.
    pub no_succeed: bool,
}

/// The assertions of synchronisation calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mode {
    NoCheck,
    NoStore,
    NoPut,
    NoPrecede,
    NoSucceed,
}

impl Assertions {
    /// Also `mode`.
    pub fn with(mut self, mode: Mode) -> Assertions {
        match mode {
            Mode::NoCheck => self.no_check = true,
            Mode::NoPrecede => self.no_precede = true,
            Mode::NoSucceed => self.no_succeed = true,
            // What is not stored and not put needs nothing here: memory is unified.
            Mode::NoStore | Mode::NoPut => {}
        }
        self
    }
}

/// A lock of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Shared with others.
    Shared,
    /// By this process alone.
    Alone,
    /// It was not taken (`MPI_MODE_NOCHECK`).
    Unchecked,
}

/// In which a process may access others.
#[derive(Default, Debug)]
enum Access {
    #[default]
    None,
    /// Since a fence.
    Fence {
        /// Whether anything was accessed.
        used: bool,
    },
    /// `MPI_Win_start`, of these ranks.
    Start(Vec<usize>),
    /// `MPI_Win_lock`, of these ranks.
    Locks(BTreeMap<usize, Held>),
    /// `MPI_Win_lock_all`; the locks that were taken so far. Others are taken when they are needed.
    All { no_check: bool, held: BTreeMap<usize, Held> },
}

/// Access and exposure of one process.
#[derive(Default, Debug)]
pub struct Epochs {
    access: Access,
    /// `MPI_Win_post`, for these ranks.
    posted: Option<Vec<usize>>,
    /// Locks of `MPI_PROC_NULL`: nobody is locked.
    null_locked: bool,
}

/// What an access needs before it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    Nothing,
    /// A shared lock, because of `MPI_Win_lock_all`.
    Lock,
}

impl Epochs {
    /// Whether the process may access `rank` now.
    pub fn access(&mut self, rank: usize) -> Result<Needs> {
        match &mut self.access {
            Access::Fence { used } => *used = true,
            Access::Start(ranks) if ranks.contains(&rank) => {}
            Access::Locks(held) if held.contains_key(&rank) => {}
            Access::All { no_check: false, held } if !held.contains_key(&rank) => return Ok(Needs::Lock),
            Access::All { .. } => {}
            Access::None => fail!(ERR_RMA_SYNC, "the process is in no epoch in which it may access others"),
            Access::Start(_) | Access::Locks(_) => fail!(ERR_RMA_SYNC, "the epoch is not for this target"),
        }
        Ok(Needs::Nothing)
    }

    /// Nothing that another epoch would have to wait for.
    fn may_begin(&self) -> bool {
        matches!(self.access, Access::None | Access::Fence { used: false })
    }

    /// A fence.
    pub fn fence(&self) -> Result {
        let fits = matches!(self.access, Access::None | Access::Fence { .. }) && !self.null_locked;
        ensure!(fits, ERR_RMA_SYNC, "a fence inside of an epoch of start or lock");
        ensure!(self.posted.is_none(), ERR_RMA_SYNC, "a fence inside of an epoch of post");
        Ok(())
    }

    /// A fence is complete.
    pub fn fenced(&mut self, begins: bool) {
        self.access = if begins { Access::Fence { used: false } } else { Access::None };
    }

    /// `MPI_Win_start`.
    pub fn start(&mut self, ranks: Vec<usize>) -> Result {
        ensure!(self.may_begin() && !self.null_locked, ERR_RMA_SYNC, "MPI_Win_start inside of another access epoch");
        self.access = Access::Start(ranks);
        Ok(())
    }

    /// The ranks of the epoch that `MPI_Win_complete` ends.
    pub fn started(&self) -> Result<Vec<usize>> {
        match &self.access {
            Access::Start(ranks) => Ok(ranks.clone()),
            _ => fail!(ERR_RMA_SYNC, "MPI_Win_complete without MPI_Win_start"),
        }
    }

    /// Ends the access epoch.
    pub fn complete(&mut self) {
        self.access = Access::None;
    }

    /// `MPI_Win_post`.
    pub fn post(&mut self, ranks: Vec<usize>) -> Result {
        ensure!(self.posted.is_none(), ERR_RMA_SYNC, "MPI_Win_post inside of another exposure epoch");
        let used = matches!(self.access, Access::Fence { used: true });
        ensure!(!used, ERR_RMA_SYNC, "MPI_Win_post inside of an epoch of fence");
        self.posted = Some(ranks);
        Ok(())
    }

    /// The ranks of the epoch that `MPI_Win_wait` ends.
    pub fn posted(&self) -> Result<Vec<usize>> {
        match &self.posted {
            Some(ranks) => Ok(ranks.clone()),
            None => fail!(ERR_RMA_SYNC, "MPI_Win_wait or MPI_Win_test without MPI_Win_post"),
        }
    }

    /// Ends the exposure epoch.
    pub fn unposted(&mut self) {
        self.posted = None;
    }

    /// Whether `MPI_Win_lock` of `rank` may be called.
    pub fn may_lock(&self, rank: usize) -> Result {
        match &self.access {
            Access::Locks(held) if held.contains_key(&rank) => fail!(ERR_RMA_SYNC, "the target is locked already"),
            Access::Locks(_) => Ok(()),
            _ if self.may_begin() => Ok(()),
            _ => fail!(ERR_RMA_SYNC, "MPI_Win_lock inside of another access epoch"),
        }
    }

    /// A lock was taken.
    pub fn locked(&mut self, rank: usize, lock: Held) {
        match &mut self.access {
            Access::Locks(held) | Access::All { held, .. } => drop(held.insert(rank, lock)),
            other => *other = Access::Locks(BTreeMap::from([(rank, lock)])),
        }
    }

    /// `MPI_Win_lock` of `MPI_PROC_NULL`.
    pub fn lock_null(&mut self) -> Result {
        let fits = self.may_begin() || matches!(self.access, Access::Locks(_));
        ensure!(fits && !self.null_locked, ERR_RMA_SYNC, "MPI_Win_lock inside of another access epoch");
        self.null_locked = true;
        Ok(())
    }

    /// `MPI_Win_unlock` of `MPI_PROC_NULL`.
    pub fn unlock_null(&mut self) -> Result {
        ensure!(self.null_locked, ERR_RMA_SYNC, "MPI_Win_unlock without MPI_Win_lock");
        self.null_locked = false;
        Ok(())
    }

    /// The lock that `MPI_Win_unlock` gives back.
    pub fn lock_of(&self, rank: usize) -> Result<Held> {
        match &self.access {
            Access::Locks(held) if held.contains_key(&rank) => Ok(held[&rank]),
            _ => fail!(ERR_RMA_SYNC, "MPI_Win_unlock without MPI_Win_lock of this target"),
        }
    }

    /// A lock was given back.
    pub fn unlocked(&mut self, rank: usize) {
        if let Access::Locks(held) = &mut self.access {
            held.remove(&rank);
            if held.is_empty() {
                self.access = Access::None;
            }
        }
    }

    /// `MPI_Win_lock_all`.
    pub fn lock_all(&mut self, no_check: bool) -> Result {
        ensure!(self.may_begin() && !self.null_locked, ERR_RMA_SYNC, "MPI_Win_lock_all inside of another access epoch");
        self.access = Access::All { no_check, held: BTreeMap::new() };
        Ok(())
    }

    /// The locks that `MPI_Win_unlock_all` gives back.
    pub fn locks_of_all(&self) -> Result<Vec<usize>> {
        match &self.access {
            Access::All { held, .. } => Ok(held.keys().copied().collect()),
            _ => fail!(ERR_RMA_SYNC, "MPI_Win_unlock_all without MPI_Win_lock_all"),
        }
    }

    /// Whether `rank`, or any for `None`, may be flushed: only in passive target epochs.
    pub fn flush(&self, rank: Option<usize>) -> Result {
        let fits = match (&self.access, rank) {
            (Access::Locks(held), Some(rank)) => held.contains_key(&rank),
            (Access::Locks(_) | Access::All { .. }, _) => true,
            _ => false,
        };
        ensure!(fits, ERR_RMA_SYNC, "a flush outside of an epoch of MPI_Win_lock or MPI_Win_lock_all");
        Ok(())
    }

    /// Whether calls with requests may be made: only in passive target epochs (12.3.5).
    pub fn request(&self) -> Result {
        let fits = matches!(self.access, Access::Locks(_) | Access::All { .. }) || self.null_locked;
        ensure!(fits, ERR_RMA_SYNC, "a request outside of an epoch of MPI_Win_lock or MPI_Win_lock_all");
        Ok(())
    }

    /// Whether the window may be freed.
    pub fn free(&self) -> Result {
        let closed = matches!(self.access, Access::None | Access::Fence { .. });
        let closed = closed && self.posted.is_none() && !self.null_locked;
        ensure!(closed, ERR_RMA_SYNC, "the window is freed inside of an epoch");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_begins_where_none_is() {
        let mut epochs = Epochs::default();
        assert!(epochs.access(0).is_err() && epochs.flush(None).is_err() && epochs.started().is_err());
        epochs.fence().unwrap();
        epochs.fenced(true);
        assert!(epochs.may_lock(1).is_ok(), "nothing was accessed since the fence");
        assert_eq!(epochs.access(1), Ok(Needs::Nothing));
        assert!(epochs.may_lock(1).is_err() && epochs.post(vec![1]).is_err() && epochs.request().is_err());
        epochs.fenced(false);
        assert!(epochs.access(1).is_err());
    }

    #[test]
    fn locks_are_per_target() {
        let mut epochs = Epochs::default();
        epochs.may_lock(1).unwrap();
        epochs.locked(1, Held::Alone);
        epochs.may_lock(2).unwrap();
        epochs.locked(2, Held::Shared);
        assert!(epochs.may_lock(1).is_err() && epochs.fence().is_err() && epochs.free().is_err());
        assert!(epochs.access(1).is_ok() && epochs.access(3).is_err());
        assert!(epochs.flush(Some(2)).is_ok() && epochs.flush(Some(3)).is_err() && epochs.flush(None).is_ok());
        assert_eq!((epochs.lock_of(1), epochs.lock_of(2)), (Ok(Held::Alone), Ok(Held::Shared)));
        epochs.unlocked(1);
        assert!(epochs.lock_of(1).is_err());
        epochs.unlocked(2);
        epochs.free().unwrap();
    }

    #[test]
    fn all_are_locked_when_they_are_needed() {
        let mut epochs = Epochs::default();
        epochs.lock_all(false).unwrap();
        assert!(epochs.lock_all(false).is_err() && epochs.may_lock(0).is_err());
        assert_eq!(epochs.access(4), Ok(Needs::Lock));
        epochs.locked(4, Held::Shared);
        assert_eq!(epochs.access(4), Ok(Needs::Nothing));
        assert_eq!(epochs.locks_of_all(), Ok(vec![4]));
        epochs.complete();
        assert!(epochs.locks_of_all().is_err());
    }

    #[test]
    fn exposure_goes_by_itself() {
        let mut epochs = Epochs::default();
        epochs.post(vec![0]).unwrap();
        epochs.start(vec![1]).unwrap();
        assert!(epochs.access(1).is_ok() && epochs.access(0).is_err() && epochs.post(vec![0]).is_err());
        assert_eq!((epochs.started(), epochs.posted()), (Ok(vec![1]), Ok(vec![0])));
        epochs.complete();
        assert!(epochs.fence().is_err(), "still exposed");
        epochs.unposted();
        epochs.fence().unwrap();
    }
}
