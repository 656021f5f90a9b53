//! Inter-communicators (MPI-5.0, 7.6): creation from two groups, and merging.
//!
//! The leaders tell each other what their groups must know ([`exchange`]), each then tells its own group ([`share`]); an
//! error of a leader reaches its whole group. The common context is the proposal of the group whose leader comes first.

use super::create::{meet_at, unpublished_from_group};
use super::duplicate::{collective_channel, remote_first};
use crate::coll::internal::bcast_bytes;
use crate::comm::agree::{Channel, NO_CONTEXT, NO_PROPOSAL, is_context, proposals};
use crate::comm::choices::Choices;
use crate::comm::exchange::{exchange, introduce};
use crate::comm::{Comm, Hints, publish};
use crate::cs::Section;
use crate::errhandler::Errhandler;
use crate::group::Group;
use crate::info::Info;
use crate::job;
use crate::losses::Participants;
use base::ids::ProcId;
use base::{Class, ContextId, Error, Peer, Result, ensure, fail};
use std::rc::Rc;

/// What leaders tell, as bytes: 64-bit numbers, then processes.
pub(super) struct Words {
    pub(super) bytes: Vec<u8>,
    at: usize,
}

impl Words {
    pub(super) fn new() -> Words {
        Words::from(Vec::new())
    }

    pub(super) fn from(bytes: Vec<u8>) -> Words {
        Words { bytes, at: 0 }
    }

    pub(super) fn wide(mut self, value: u64) -> Words {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub(super) fn peers(mut self, peers: impl Iterator<Item = Peer>) -> Words {
        self.bytes.extend(peers.flat_map(|peer| job::id_of(peer).encode()));
        self
    }

    pub(super) fn take_wide(&mut self) -> Result<u64> {
        let Some(word) = self.bytes[self.at..].first_chunk::<8>() else {
            fail!(ERR_INTERN, "a message about a new communicator is too short");
        };
        self.at += 8;
        Ok(u64::from_le_bytes(*word))
    }

    fn choices(self, choices: Choices) -> Words {
        choices.words().into_iter().fold(self, Words::wide)
    }

    fn take_choices(&mut self) -> Result<Choices> {
        Ok(Choices::from_words([self.take_wide()?, self.take_wide()?, self.take_wide()?]))
    }

    /// The rest.
    pub(super) fn take_peers(&mut self) -> Result<Vec<Peer>> {
        let rest = self.bytes.split_off(self.at);
        let (ids, odd) = rest.as_chunks();
        ensure!(odd.is_empty(), ERR_INTERN, "a message about a new communicator has a wrong length");
        let found: Option<Vec<Peer>> = ids.iter().map(|id| job::find(ProcId::decode(id)?)).collect();
        let Some(found) = found else {
            fail!(ERR_INTERN, "a message about a new communicator names an unknown process")
        };
        Ok(found)
    }
}

/// The leader of `local` finds something out and tells everybody in it, also when that failed.
pub(crate) fn share(
    cs: &mut Section,
    local: &Rc<Comm>,
    leader: i32,
    produce: impl FnOnce(&mut Section) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let found = if local.rank == leader { produce(cs) } else { Ok(Vec::new()) };
    let mut header = [0; 12];
    if local.rank == leader {
        let class = found.as_ref().err().map_or(0, |error| error.class.0);
        header[..4].copy_from_slice(&class.to_le_bytes());
        header[4..].copy_from_slice(&found.as_ref().map_or(0, |bytes| bytes.len() as u64).to_le_bytes());
    }
    bcast_bytes(cs, local, leader, &mut header)?;
    let mut bytes = found?;
    let class = i32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    if class != 0 {
        return Err(Error::new(Class(class), "the leader of the group could not create the communicator"));
    }
    bytes.resize(u64::from_le_bytes(std::array::from_fn(|i| header[4 + i])) as usize, 0);
    bcast_bytes(cs, local, leader, &mut bytes)?;
    Ok(bytes)
}

/// The common context out of both leaders' proposals: that of the lower leader. Both sides fail if either has none to propose.
pub(super) fn accept(is_lower: bool, mine: u64, theirs: u64) -> Result<u64> {
    if !(is_context(mine) && is_context(theirs)) {
        return Err(NO_CONTEXT);
    }
    Ok(if is_lower { mine } else { theirs })
}

/// Whether `a` comes before `b` in the order on which all processes agree.
pub(super) fn is_before(a: Peer, b: Peer) -> bool {
    job::id_of(a) < job::id_of(b)
}

/// What every member learns about a new inter-communicator.
struct Introduced {
    shared: ContextId,
    own: ContextId,
    others: Vec<Peer>,
}

/// The leader of `local` meets the process that `find` names over the channel that it names; all of `local` learn about it. The other
/// group may be known before.
fn meet(
    cs: &mut Section,
    local: &Rc<Comm>,
    leader: i32,
    remote: Option<&Rc<Group>>,
    find: impl FnOnce() -> Result<(Channel, Peer)>,
) -> Result<Introduced> {
    let told = share(cs, local, leader, |cs| {
        let (channel, other) = find()?;
        let members = Participants::of([Some(&local.group), remote]);
        // Only those who are in the realm of the place where the leaders meet can use its contexts.
        let place = ContextId::of_plane(channel.context);
        let all_there = local.group.peers().all(|peer| job::find_proposer(place, peer).is_some());
        let [mine, own] = if all_there { proposals(cs, channel.context) } else { [NO_PROPOSAL; 2] };
        let told = Words::new().wide(mine).peers(local.group.peers());
        let others = |told: &[u8]| {
            Words::from(told.get(size_of::<u64>()..).unwrap_or_default().to_vec()).take_peers().unwrap_or_default()
        };
        let mut theirs = Words::from(introduce(cs, channel, other, &told.bytes, &members, others)?);
        let shared = accept(is_before(job::me(), other), mine, theirs.take_wide()?)?;
        let others = theirs.take_peers()?;
        let overlap = others.iter().any(|p| local.group.contains(*p));
        ensure!(!overlap, ERR_COMM, "a process is in both groups of an inter-communicator");
        Ok(Words::new().wide(shared).wide(own).peers(others.into_iter()).bytes)
    })?;
    let mut told = Words::from(told);
    Ok(Introduced {
        shared: ContextId(told.take_wide()?),
        own: ContextId(told.take_wide()?),
        others: told.take_peers()?,
    })
}

/// `MPI_Intercomm_create`. `peer` and `remote_leader` matter on the local leader only.
pub fn intercomm_create(
    cs: &mut Section,
    local: &Rc<Comm>,
    local_leader: i32,
    peer: Result<Rc<Comm>>,
    remote_leader: i32,
    tag: i32,
) -> Result<Rc<Comm>> {
    ensure!(!local.is_inter(), ERR_COMM, "an intra-communicator is needed");
    ensure!((0..local.size()).contains(&local_leader), ERR_RANK, "the local leader is not in the communicator");
    ensure!(tag >= 0, ERR_TAG, "the tag is negative");
    let met = meet(cs, local, local_leader, None, || {
        let peer = peer?;
        ensure!((0..peer.peer_size()).contains(&remote_leader), ERR_RANK, "no such remote leader");
        let other = peer.peer(remote_leader);
        ensure!(other != job::me(), ERR_RANK, "the remote leader is the local leader");
        Ok((Channel { context: leader_context(&peer), tag }, other))
    })?;
    let (group, others) = (Rc::clone(&local.group), Group::shared(cs, met.others));
    Ok(publish(cs, Comm::inter_child(local, met.shared, met.own, group, others)))
}

/// The message space in which leaders meet: the fourth plane of a communicator's context.
fn leader_context(comm: &Comm) -> u64 {
    comm.context.0 | 3
}

/// `MPI_Intercomm_create_from_groups`. The remote arguments matter on the local leader only.
#[expect(clippy::too_many_arguments, reason = "these are MPI's own")]
pub fn intercomm_create_from_groups(
    cs: &mut Section,
    local_group: &Rc<Group>,
    local_leader: i32,
    remote: Result<Rc<Group>>,
    remote_leader: i32,
    stringtag: &[u8],
    info: Option<&Info>,
    errhandler: Errhandler,
) -> Result<Option<Rc<Comm>>> {
    ensure!(
        local_group.size() == 0 || (0..local_group.size()).contains(&local_leader),
        ERR_RANK,
        "the local leader is not in the group"
    );
    let Some(local) = unpublished_from_group(cs, local_group, stringtag, info, errhandler)? else { return Ok(None) };
    let local = Rc::new(local);
    let known = remote.as_ref().ok().cloned();
    let met = meet(cs, &local, local_leader, known.as_ref(), || {
        let remote = remote?;
        ensure!((0..remote.size()).contains(&remote_leader), ERR_RANK, "the remote leader is not in the group");
        let (mine, other) = (job::me(), remote.peer(remote_leader));
        ensure!(mine != other, ERR_RANK, "the remote leader is the local leader");
        ensure!(
            job::contains_all([mine, other].into_iter()),
            ERR_GROUP,
            "an inter-communicator from groups of several jobs is not implemented"
        );
        let leaders = if is_before(mine, other) { [mine, other] } else { [other, mine] };
        Ok((meet_at(stringtag, leaders.into_iter()), other))
    })?;
    let group = Rc::clone(local_group);
    let comm = Comm::inter_child(&local, met.shared, met.own, group, Group::shared(cs, met.others));
    *comm.hints.borrow_mut() = info.map(Hints::of).unwrap_or_default();
    Ok(Some(publish(cs, comm)))
}

/// `MPI_Intercomm_merge`.
pub fn intercomm_merge(cs: &mut Section, comm: &Rc<Comm>, high: bool) -> Result<Rc<Comm>> {
    let (Some(local), Some(remote), Some(other)) = (&comm.local, &comm.remote, remote_first(comm)) else {
        fail!(ERR_COMM, "an inter-communicator is needed");
    };
    let channel = collective_channel(comm);
    let is_lower = is_before(comm.group.peer(0), other);
    let told = share(cs, local, 0, |cs| {
        let [mine, _] = proposals(cs, channel.context);
        let tell = Words::new().wide(u64::from(high)).wide(mine).choices(comm.choices);
        let theirs = exchange(cs, channel, other, &tell.bytes, &Participants::of(comm.groups()))?;
        let mut theirs = Words::from(theirs);
        let (their_high, proposed) = (theirs.take_wide()? != 0, theirs.take_wide()?);
        let first = if high == their_high { is_lower } else { !high };
        let their_choices = theirs.take_choices()?;
        let shared = accept(is_lower, mine, proposed)?;
        let choices = match is_lower {
            true => comm.choices.merge(their_choices),
            false => their_choices.merge(comm.choices),
        };
        Ok(Words::new().wide(u64::from(first)).wide(shared).choices(choices).bytes)
    })?;
    let mut told = Words::from(told);
    let (first, shared) = (told.take_wide()? != 0, ContextId(told.take_wide()?));
    let choices = told.take_choices()?;
    let group = if first { comm.group.union(cs, remote) } else { remote.union(cs, &comm.group) };
    Ok(publish(cs, Comm::child(comm, shared, group).with_choices(choices)))
}
