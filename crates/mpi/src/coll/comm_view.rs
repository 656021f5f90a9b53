//! What a builder knows of the communicator: numbers only, so that it also runs without one.

use super::layout::Layout;
use super::needs::SelectionKey;
use super::offload::Known;
use super::select::{self, Algorithm};
use super::team::Team;
use crate::comm::choices::Choices;
use crate::status::{PROC_NULL, ROOT};
use base::{Result, ensure, fail};
use std::cell::Cell;

/// The place of a process in a communicator.
#[derive(Clone, Copy)]
pub struct CommView<'a> {
    /// Rank in the local group.
    pub rank: usize,
    /// Size of the local group.
    pub size: usize,
    /// Size of the remote group of an inter-communicator.
    pub remote: Option<usize>,
    /// Who shares a node, if there are several nodes.
    pub layout: Option<&'a Layout>,
    /// What the processes have agreed on.
    pub choices: &'a Choices,
    /// Learns the size on which a choice is based, if somebody wants to know.
    pub known: Option<&'a Cell<Option<Known>>>,
}

/// What a process is in a collective with a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The root.
    Root,
    /// Not the root, which is this rank (in the remote group of an inter-communicator).
    Leaf(usize),
    /// A member of the root's group of an inter-communicator.
    Idle,
}

impl<'a> CommView<'a> {
    /// Process `rank` of `size` in an intra-communicator.
    pub fn new(rank: usize, size: usize) -> CommView<'a> {
        CommView { rank, size, remote: None, layout: None, choices: &Choices::DEFAULT, known: None }
    }

    /// All processes of an intra-communicator, or of the local group.
    #[inline]
    pub fn team(&self) -> Team<'static> {
        match self.remote {
            None => Team::new(self.rank, self.size),
            Some(_) => Team::local(self.rank, self.size),
        }
    }

    /// The remote group. This process isn't in it: its rank is its own group's.
    pub fn remote_team(&self, size: usize) -> Team<'static> {
        Team::new(self.rank, size)
    }

    /// Number of processes that data is exchanged with.
    #[inline]
    pub fn peers(&self) -> usize {
        self.remote.unwrap_or(self.size)
    }

    /// Checks the argument `root`.
    #[inline]
    pub fn role(&self, root: i32) -> Result<Role> {
        if let Some(remote) = self.remote {
            return match root {
                ROOT => Ok(Role::Root),
                PROC_NULL => Ok(Role::Idle),
                r if r >= 0 && (r as usize) < remote => Ok(Role::Leaf(r as usize)),
                _ => fail!(ERR_ROOT, "root is neither a rank of the remote group nor MPI_ROOT or MPI_PROC_NULL"),
            };
        }
        ensure!(root >= 0 && (root as usize) < self.size, ERR_ROOT, "root is not a rank of the communicator");
        Ok(if root as usize == self.rank { Role::Root } else { Role::Leaf(root as usize) })
    }

    /// What the choice depends on, for a collective of the whole communicator or the local group.
    #[inline]
    pub fn selection_key(&self, bytes: usize) -> SelectionKey {
        SelectionKey {
            oversubscribed: self.choices.oversubscribed,
            nodes: self.layout.map_or(1, |l| l.nodes),
            ranks_per_node: self.layout.map_or(self.size, |l| l.ranks_per_node),
            ..SelectionKey::new(self.size, bytes)
        }
    }

    /// The algorithm for `s`.
    #[inline]
    pub fn choose<A: Algorithm>(&self, s: &SelectionKey) -> A {
        if let Some(known) = self.known
            && known.get().is_none()
        {
            known.set(Some(Known { bytes: s.bytes, even: s.even }));
        }
        select::choose(self.choices, s)
    }
}
