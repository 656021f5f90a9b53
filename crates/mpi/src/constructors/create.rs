//! Communicators from groups: `MPI_Comm_create`, `MPI_Comm_create_group`, `MPI_Comm_create_from_group` (MPI-5.0, 7.4.2).

use super::duplicate::{collective_channel, remote_first};
use super::inter::{Words, accept, is_before, share};
use crate::comm::agree::{Channel, agree, proposals};
use crate::comm::choices;
use crate::comm::exchange::exchange;
use crate::comm::{Comm, Hints, publish};
use crate::cs::Section;
use crate::errhandler::Errhandler;
use crate::group::Group;
use crate::info::Info;
use crate::job;
use crate::losses::Participants;
use base::ids::{Plane, ProcId, Proposer};
use base::{ContextId, Peer, Result, ensure, fail};
use std::rc::Rc;

/// `MPI_MAX_STRINGTAG_LEN`, with the terminating zero.
pub const MAX_STRINGTAG_LEN: usize = 1024;

/// `MPI_Comm_create`. Processes may name different groups if these don't overlap; none for those outside.
pub fn create(cs: &mut Section, comm: &Rc<Comm>, group: &Rc<Group>) -> Result<Option<Rc<Comm>>> {
    ensure!(
        group.peers().all(|p| comm.group.contains(p)),
        ERR_GROUP,
        "the group is not a subset of the communicator's"
    );
    if comm.is_inter() { create_inter(cs, comm, group) } else { from_members(cs, comm, group) }
}

/// The intra-communicator of `group`, which is a subset of the group of `comm`; collective over `comm`.
pub(crate) fn from_members(cs: &mut Section, comm: &Rc<Comm>, group: &Rc<Group>) -> Result<Option<Rc<Comm>>> {
    let channel = collective_channel(comm);
    if !group.contains(job::me()) {
        return Ok(None);
    }
    let contexts = agree(cs, channel, group, None)?;
    Ok(Some(publish(cs, Comm::child(comm, contexts.shared(), Rc::clone(group)))))
}

/// Both sides tell each other their members; a side without members makes it none for everybody.
fn create_inter(cs: &mut Section, comm: &Rc<Comm>, group: &Rc<Group>) -> Result<Option<Rc<Comm>>> {
    let channel = collective_channel(comm);
    let (Some(local), Some(remote)) = (&comm.local, remote_first(comm)) else {
        fail!(ERR_INTERN, "an inter-communicator lacks its local part");
    };
    let lower = is_before(comm.group.peer(0), remote);
    let told = share(cs, local, 0, |cs| {
        let [mine, own] = proposals(cs, channel.context);
        let told = Words::new().wide(mine).peers(group.peers());
        let mut theirs = Words::from(exchange(cs, channel, remote, &told.bytes, &Participants::of(comm.groups()))?);
        let shared = accept(lower, mine, theirs.take_wide()?)?;
        Ok(Words::new().wide(shared).wide(own).peers(theirs.take_peers()?.into_iter()).bytes)
    })?;
    let mut told = Words::from(told);
    let (shared, own) = (ContextId(told.take_wide()?), ContextId(told.take_wide()?));
    let others = told.take_peers()?;
    if !group.contains(job::me()) || others.is_empty() {
        return Ok(None);
    }
    Ok(Some(publish(cs, Comm::inter_child(comm, shared, own, Rc::clone(group), Group::shared(cs, others)))))
}

/// `MPI_Comm_create_group`: collective over `group` only.
pub fn create_group(cs: &mut Section, comm: &Rc<Comm>, group: &Rc<Group>, tag: i32) -> Result<Option<Rc<Comm>>> {
    ensure!(!comm.is_inter(), ERR_COMM, "an intra-communicator is needed");
    ensure!(tag >= 0, ERR_TAG, "the tag is negative");
    ensure!(
        group.peers().all(|p| comm.group.contains(p)),
        ERR_GROUP,
        "the group is not a subset of the communicator's"
    );
    if !group.contains(job::me()) {
        return Ok(None);
    }
    // The tags of collectives on this plane aren't negative.
    let contexts = agree(cs, Channel { context: comm.context.plane(Plane::Management), tag: !tag }, group, None)?;
    Ok(Some(publish(cs, Comm::child(comm, contexts.shared(), Rc::clone(group)))))
}

/// `MPI_Comm_create_from_group`; none for the empty group.
pub fn create_from_group(
    cs: &mut Section,
    group: &Rc<Group>,
    stringtag: &[u8],
    info: Option<&Info>,
    errhandler: Errhandler,
) -> Result<Option<Rc<Comm>>> {
    let comm = unpublished_from_group(cs, group, stringtag, info, errhandler)?;
    Ok(comm.map(|comm| publish(cs, comm)))
}

/// As [`create_from_group`], for our own use of the communicator.
pub(super) fn unpublished_from_group(
    cs: &mut Section,
    group: &Rc<Group>,
    stringtag: &[u8],
    info: Option<&Info>,
    errhandler: Errhandler,
) -> Result<Option<Comm>> {
    ensure!(stringtag.len() < MAX_STRINGTAG_LEN, ERR_ARG, "the string tag is too long");
    if group.size() == 0 {
        return Ok(None);
    }
    ensure!(group.contains(job::me()), ERR_GROUP, "this process is not in the group");
    // Its members have agreed on nothing yet but what their job has told them.
    ensure!(
        job::contains_all(group.peers()),
        ERR_GROUP,
        "a communicator from a group of several jobs is not implemented"
    );
    let channel = meet_at(stringtag, group.peers());
    let contexts = agree(cs, channel, group, None)?;
    let comm =
        Comm::new(contexts.shared(), Rc::clone(group), errhandler, group.session().cloned(), choices::of_job(cs));
    *comm.hints.borrow_mut() = info.map(Hints::of).unwrap_or_default();
    Ok(Some(comm))
}

/// Where processes that share no communicator yet meet, of which there is at least one: at the first one.
pub(super) fn meet_at(stringtag: &[u8], members: impl Iterator<Item = Peer> + Clone) -> Channel {
    let host = members.clone().next().map_or(Proposer::NOBODY, job::proposer_in_job);
    meeting_point(host, stringtag, members.map(job::id_of))
}

/// A context of `host` that no communicator has, and a tag, both from a hash of the string tag and the members.
fn meeting_point(host: Proposer, stringtag: &[u8], members: impl Iterator<Item = ProcId>) -> Channel {
    let members = members.flat_map(ProcId::encode);
    let bytes = stringtag.iter().copied().chain([0]).chain(members);
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let context = ContextId::meeting(host, (hash >> 32) as u32);
    Channel { context: context.plane(Plane::Management), tag: (hash & 0x7fff_ffff) as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WorldRank;
    use base::ids::JobId;

    #[test]
    fn meeting_points_differ_by_tag_and_members() {
        let member = |rank| ProcId { job: JobId(1), rank: WorldRank(rank) };
        let at = |host, tag: &[u8], n| meeting_point(Proposer(host), tag, (0..n).map(member));
        assert_eq!(at(1, b"a", 3), at(1, b"a", 3));
        for other in [at(2, b"a", 3), at(1, b"b", 3), at(1, b"a", 4)] {
            assert_ne!(at(1, b"a", 3), other);
        }
        assert!(at(5, b"x", 2).tag >= 0);
        assert_eq!(at(5, b"x", 2).context >> 32, 5);
    }
}
