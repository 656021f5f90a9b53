//! Who takes part in a phase of a collective, seen by an algorithm: ranks `0..size`.

/// Through which communicator a phase talks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Via {
    /// The communicator itself: its peers are the remote group if it is an inter-communicator.
    Comm = 0,
    /// The intra-communicator of an inter-communicator's local group.
    Local = 1,
}

/// A set of processes that run one algorithm together.
#[derive(Clone, Copy, Debug)]
pub struct Team<'a> {
    /// This process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Communicator ranks of the members; `None` if they are the same numbers.
    members: Option<&'a [u32]>,
    /// Where messages go.
    pub via: Via,
}

impl<'a> Team<'a> {
    /// All of a communicator.
    #[inline]
    pub fn new(rank: usize, size: usize) -> Team<'static> {
        Team { rank, size, members: None, via: Via::Comm }
    }

    /// The local group of an inter-communicator.
    pub fn local(rank: usize, size: usize) -> Team<'static> {
        Team { rank, size, members: None, via: Via::Local }
    }

    /// The processes with these communicator ranks; `rank` is this process's place among them.
    pub fn subset(members: &'a [u32], rank: usize, via: Via) -> Team<'a> {
        Team { rank, size: members.len(), members: Some(members), via }
    }

    /// Communicator rank of member `rank`.
    #[inline]
    pub fn peer(&self, rank: usize) -> u32 {
        match self.members {
            None => rank as u32,
            Some(members) => members[rank],
        }
    }

    /// The member `distance` places after this one, cyclically.
    #[inline]
    pub fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// The member `distance <= size` places before this one, cyclically.
    #[inline]
    pub fn before(&self, distance: usize) -> usize {
        (self.rank + self.size - distance) % self.size
    }

    /// This process's distance from `root`.
    #[inline]
    pub fn relative(&self, root: usize) -> usize {
        (self.rank + self.size - root) % self.size
    }

    /// The member at `distance` from `root`.
    #[inline]
    pub fn absolute(&self, distance: usize, root: usize) -> usize {
        (distance + root) % self.size
    }
}
