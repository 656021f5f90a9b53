//! Groups (MPI-5.0, 7.3): ordered sets of processes.
//!
//! A group is immutable. The first lookup by process in a long list builds a sorted index, so that set operations on
//! n members cost O(n log n). The empty group is always the predefined one.

use crate::cs::Section;
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use crate::owner::Owner;
use crate::status::{PROC_NULL, UNDEFINED};
use base::{Peer, Result, ensure, fail};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// How two groups or communicators compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Comparison {
    /// Same object, or same members in the same order.
    Ident,
    /// Communicators of identical groups.
    Congruent,
    /// Same members in another order.
    Similar,
    /// Different members.
    Unequal,
}

/// Lists up to this length are searched linearly.
const LINEAR_MAX: usize = 16;

/// An ordered set of processes.
pub struct Group {
    handle: Cell<Handle>,
    members: Members,
    /// The session that the members were taken from.
    session: Option<Rc<Owner>>,
}

enum Members {
    /// Endpoints `0..n`.
    Identity(u32),
    /// Any others. The index holds the positions in the list in the order of the processes.
    List { list: Box<[Peer]>, index: OnceCell<Box<[u32]>> },
}

impl Named for Group {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

/// Live groups.
static GROUPS: Inside<Table<Rc<Group>>> = Inside::new(Table::new(Kind::Group));

static EMPTY: Inside<OnceCell<Rc<Group>>> = Inside::new(OnceCell::new());

/// The group of a live handle, `MPI_GROUP_EMPTY` included.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<Group>> {
    if handle == Handle::GROUP_EMPTY {
        return Ok(Group::empty(cs));
    }
    match GROUPS.get(cs).get(handle) {
        Some(group) => Ok(group),
        None => fail!(ERR_GROUP, "no such group"),
    }
}

/// Whether one more has room.
pub fn ensure_room(cs: &Section) -> Result {
    GROUPS.get(cs).ensure_room()
}

/// A handle owned by the program for `group`.
pub fn share(cs: &Section, group: &Rc<Group>) -> Handle {
    GROUPS.get(cs).share(group)
}

/// `MPI_Group_free`. The empty group may be freed: functions return it like any other.
pub fn free(cs: &Section, handle: Handle) -> Result {
    let group = from_handle(cs, handle)?;
    if handle != Handle::GROUP_EMPTY && GROUPS.get(cs).release(handle).is_some() {
        group.handle.set(Handle(0));
    }
    Ok(())
}

impl Group {
    /// The processes of the first `size` endpoints.
    pub fn identity(size: u32) -> Group {
        Group { handle: Cell::default(), members: Members::Identity(size), session: None }
    }

    /// The processes in this order; all different.
    pub fn new(members: Vec<Peer>) -> Group {
        if members.iter().enumerate().all(|(i, p)| p.0 as usize == i) {
            return Group::identity(members.len() as u32);
        }
        let members = Members::List { list: members.into(), index: OnceCell::new() };
        Group { handle: Cell::default(), members, session: None }
    }

    /// As [`Group::new`], from a process set of a session.
    pub fn of_session(members: Vec<Peer>, session: Rc<Owner>) -> Group {
        Group { session: Some(session), ..Group::new(members) }
    }

    /// As [`Group::new`], but the predefined empty group if there are none.
    pub fn shared(cs: &Section, members: Vec<Peer>) -> Rc<Group> {
        if members.is_empty() { Group::empty(cs) } else { Rc::new(Group::new(members)) }
    }

    /// A group made from this one.
    fn derive(&self, cs: &Section, members: Vec<Peer>) -> Rc<Group> {
        match &self.session {
            Some(session) if !members.is_empty() => Rc::new(Group::of_session(members, Rc::clone(session))),
            _ => Group::shared(cs, members),
        }
    }

    /// The session that the members were taken from.
    pub fn session(&self) -> Option<&Rc<Owner>> {
        self.session.as_ref()
    }

    /// `MPI_GROUP_EMPTY`.
    pub fn empty(cs: &Section) -> Rc<Group> {
        let make = || Rc::new(Group { handle: Cell::new(Handle::GROUP_EMPTY), ..Group::identity(0) });
        Rc::clone(EMPTY.get(cs).get_or_init(make))
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> i32 {
        match &self.members {
            Members::Identity(n) => *n as i32,
            Members::List { list, .. } => list.len() as i32,
        }
    }

    /// The process with this rank, which must be in range.
    #[inline]
    pub fn peer(&self, rank: i32) -> Peer {
        match &self.members {
            Members::Identity(_) => Peer(rank as u32),
            Members::List { list, .. } => list[rank as usize],
        }
    }

    /// The process with this rank, if there is one.
    #[inline]
    pub fn get(&self, rank: i32) -> Option<Peer> {
        match &self.members {
            Members::Identity(n) => ((rank as u32) < *n).then_some(Peer(rank as u32)),
            Members::List { list, .. } => list.get(rank as u32 as usize).copied(),
        }
    }

    /// The members in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = Peer> + Clone + '_ {
        (0..self.size()).map(|rank| self.peer(rank))
    }

    /// The rank of a process.
    pub fn rank_of(&self, peer: Peer) -> Option<i32> {
        match &self.members {
            Members::Identity(n) => (peer.0 < *n).then_some(peer.0 as i32),
            Members::List { list, .. } if list.len() <= LINEAR_MAX => {
                list.iter().position(|&p| p == peer).map(|i| i as i32)
            }
            Members::List { list, index } => {
                let index = index.get_or_init(|| {
                    let mut order: Box<[u32]> = (0..list.len() as u32).collect();
                    order.sort_unstable_by_key(|&i| list[i as usize]);
                    order
                });
                let at = index.binary_search_by_key(&peer, |&i| list[i as usize]).ok()?;
                Some(index[at] as i32)
            }
        }
    }

    /// Whether the process is a member.
    pub fn contains(&self, peer: Peer) -> bool {
        self.rank_of(peer).is_some()
    }

    /// `MPI_Group_compare`.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if std::ptr::eq(self, other) || self.peers().eq(other.peers()) {
            return Comparison::Ident;
        }
        if self.peers().all(|p| other.contains(p)) { Comparison::Similar } else { Comparison::Unequal }
    }

    /// `MPI_Group_translate_ranks` of one rank.
    pub fn translate(&self, rank: i32, other: &Group) -> Result<i32> {
        if rank == PROC_NULL {
            return Ok(PROC_NULL);
        }
        ensure!((0..self.size()).contains(&rank), ERR_RANK, "rank is not in the first group");
        Ok(other.rank_of(self.peer(rank)).unwrap_or(UNDEFINED))
    }

    /// `MPI_Group_incl`: the members with these ranks, in this order.
    pub fn include(&self, cs: &Section, ranks: &[i32]) -> Result<Rc<Group>> {
        self.marked(ranks.iter().copied())?;
        Ok(self.derive(cs, ranks.iter().map(|&rank| self.peer(rank)).collect()))
    }

    /// `MPI_Group_excl`: the members but those with these ranks.
    pub fn exclude(&self, cs: &Section, ranks: &[i32]) -> Result<Rc<Group>> {
        Ok(self.without(cs, &self.marked(ranks.iter().copied())?))
    }

    /// `MPI_Group_range_incl` with ranges (first, last, stride).
    pub fn include_ranges(&self, cs: &Section, ranges: &[[i32; 3]]) -> Result<Rc<Group>> {
        self.include(cs, &self.expand(ranges)?)
    }

    /// `MPI_Group_range_excl` with ranges (first, last, stride).
    pub fn exclude_ranges(&self, cs: &Section, ranges: &[[i32; 3]]) -> Result<Rc<Group>> {
        self.exclude(cs, &self.expand(ranges)?)
    }

    /// `MPI_Group_union`: all members of `self`, then those of `other` that are new.
    pub fn union(&self, cs: &Section, other: &Group) -> Rc<Group> {
        let new = other.peers().filter(|&p| !self.contains(p));
        self.derive(cs, self.peers().chain(new).collect())
    }

    /// `MPI_Group_intersection`, in the order of `self`.
    pub fn intersection(&self, cs: &Section, other: &Group) -> Rc<Group> {
        self.derive(cs, self.peers().filter(|&p| other.contains(p)).collect())
    }

    /// `MPI_Group_difference`, in the order of `self`.
    pub fn difference(&self, cs: &Section, other: &Group) -> Rc<Group> {
        self.derive(cs, self.peers().filter(|&p| !other.contains(p)).collect())
    }

    /// For each rank whether it was named. All must be valid and different.
    fn marked(&self, ranks: impl Iterator<Item = i32>) -> Result<Vec<bool>> {
        let mut named = vec![false; self.size() as usize];
        for rank in ranks {
            ensure!((0..self.size()).contains(&rank), ERR_RANK, "rank is not in the group");
            ensure!(!named[rank as usize], ERR_RANK, "rank is given twice");
            named[rank as usize] = true;
        }
        Ok(named)
    }

    fn without(&self, cs: &Section, named: &[bool]) -> Rc<Group> {
        self.derive(cs, self.peers().zip(named).filter(|(_, named)| !**named).map(|(p, _)| p).collect())
    }

    /// The ranks of the ranges; stops at the first that isn't valid, so that the work is bounded by the group's size.
    fn expand(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            ensure!(stride != 0, ERR_ARG, "range with stride zero");
            let mut rank = i64::from(first);
            while if stride > 0 { rank <= i64::from(last) } else { rank >= i64::from(last) } {
                ensure!((0..i64::from(self.size())).contains(&rank), ERR_RANK, "range leaves the group");
                ensure!(ranks.len() < self.size() as usize, ERR_RANK, "rank is given twice");
                ranks.push(rank as i32);
                rank += i64::from(stride);
            }
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;
    use proptest::prelude::*;

    fn group(members: &[u32]) -> Group {
        Group::new(members.iter().map(|&m| Peer(m)).collect())
    }

    fn list(group: &Group) -> Vec<u32> {
        group.peers().map(|p| p.0).collect()
    }

    fn set() -> impl Strategy<Value = Vec<u32>> {
        (proptest::collection::hash_set(0u32..64, 0..48), any::<u64>()).prop_map(|(set, seed)| {
            let mut v: Vec<u32> = set.into_iter().collect();
            v.sort_by_key(|m| (u64::from(*m) + 1).wrapping_mul(seed | 1));
            v
        })
    }

    proptest! {
        #[test]
        fn set_operations_agree_with_lists(a in set(), b in set()) {
            let mut inside = crate::cs::enter_test();
            let cs = inside.section();
            let (ga, gb) = (group(&a), group(&b));
            let mut union = a.clone();
            union.extend(b.iter().filter(|m| !a.contains(m)));
            prop_assert_eq!(list(&ga.union(cs, &gb)), union);
            let both: Vec<u32> = a.iter().copied().filter(|m| b.contains(m)).collect();
            prop_assert_eq!(list(&ga.intersection(cs, &gb)), both);
            let rest: Vec<u32> = a.iter().copied().filter(|m| !b.contains(m)).collect();
            prop_assert_eq!(list(&ga.difference(cs, &gb)), rest);
            for p in 0..70 {
                prop_assert_eq!(ga.rank_of(Peer(p)), a.iter().position(|&m| m == p).map(|i| i as i32));
            }
        }

        #[test]
        fn comparison_agrees_with_lists(a in set(), b in set(), reverse: bool) {
            let mut c = a.clone();
            if reverse { c.reverse(); }
            let expected = if a == c { Comparison::Ident } else { Comparison::Similar };
            prop_assert_eq!(group(&a).compare(&group(&c)), expected);
            let sorted = |v: &[u32]| { let mut v = v.to_vec(); v.sort_unstable(); v };
            let expected = if a == b { Comparison::Ident } else if sorted(&a) == sorted(&b) { Comparison::Similar } else { Comparison::Unequal };
            prop_assert_eq!(group(&a).compare(&group(&b)), expected);
        }

        #[test]
        fn including_and_excluding_are_complements(a in set(), picks in proptest::collection::vec(any::<bool>(), 64)) {
            let mut inside = crate::cs::enter_test();
            let cs = inside.section();
            let ranks: Vec<i32> = (0..a.len()).filter(|&i| picks[i]).map(|i| i as i32).collect();
            let g = group(&a);
            let (inside, outside) = (g.include(cs, &ranks).unwrap(), g.exclude(cs, &ranks).unwrap());
            prop_assert_eq!(g.difference(cs, &inside).compare(&outside), Comparison::Ident);
            prop_assert_eq!(inside.size() + outside.size(), g.size());
        }

        #[test]
        fn ranges_never_escape(first in -70..70, last in -70..70, stride in -9..9) {
            let mut inside = crate::cs::enter_test();
            let cs = inside.section();
            let g = Group::identity(40);
            let naive: Option<Vec<i32>> = (stride != 0).then(|| {
                let mut v = vec![];
                let mut r = first;
                while (stride > 0 && r <= last) || (stride < 0 && r >= last) { v.push(r); r += stride; }
                v
            });
            match (naive, g.include_ranges(cs, &[[first, last, stride]])) {
                (None, got) => prop_assert_eq!(got.err().map(|e| e.class), Some(Class::ERR_ARG)),
                (Some(v), got) if v.iter().all(|r| (0..40).contains(r)) => {
                    let got: Vec<i32> = list(&got.unwrap()).iter().map(|&p| p as i32).collect();
                    prop_assert_eq!(got, v);
                }
                (Some(_), got) => prop_assert_eq!(got.err().map(|e| e.class), Some(Class::ERR_RANK)),
            }
        }
    }

    #[test]
    fn bad_ranks_are_refused() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();

        let g = Group::identity(4);
        for ranks in [&[4][..], &[-1], &[1, 1]] {
            assert_eq!(g.include(cs, ranks).err().unwrap().class, Class::ERR_RANK);
            assert_eq!(g.exclude(cs, ranks).err().unwrap().class, Class::ERR_RANK);
        }
        assert_eq!(g.include_ranges(cs, &[[0, 3, 1], [2, 2, 1]]).err().unwrap().class, Class::ERR_RANK);
        assert_eq!(g.exclude_ranges(cs, &[[0, i32::MAX, 1]]).err().unwrap().class, Class::ERR_RANK);
    }

    #[test]
    fn ranks_are_translated() {
        let (a, b) = (group(&[5, 3, 1]), group(&[1, 5]));
        assert_eq!(a.translate(0, &b), Ok(1));
        assert_eq!(a.translate(1, &b), Ok(UNDEFINED));
        assert_eq!(a.translate(PROC_NULL, &b), Ok(PROC_NULL));
        assert_eq!(a.translate(3, &b).unwrap_err().class, Class::ERR_RANK);
    }

    #[test]
    fn empty_results_are_the_predefined_group() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();

        let g = Group::identity(2);
        assert_eq!(g.exclude(cs, &[0, 1]).unwrap().handle.get(), Handle::GROUP_EMPTY);
        assert_eq!(g.difference(cs, &g).handle.get(), Handle::GROUP_EMPTY);
    }
}
