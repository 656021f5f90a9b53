//! Two groups of processes become an inter-communicator although no process of one knows any of the other (MPI-5.0, 11.9).
//!
//! ```text
//! each group:  all tell all where they are
//! leaders:     meet at a port, and tell each other their groups           (Introduction)
//! each group:  the leader tells the others; all get to know the strangers
//! leaders:     each says that its group is ready                          (so nobody is called by a stranger)
//! each group:  the leader tells the others
//! ```
//! An error of a leader reaches its whole group, and the other leader by the end of their connection.

use super::wait_for;
use crate::coll::internal::allgatherv_bytes;
use crate::comm::agree::take_counters;
use crate::comm::{Comm, publish};
use crate::constructors::share;
use crate::cs::Section;
use crate::engine;
use crate::group::Group;
use crate::job;
use crate::losses::Participants;
use base::{ContextId, Peer, Result, ensure, fail};
use channel::port::{Call, Meeting};
use channel::transports::jobs::{self, Stranger};
use protocol::control::meeting::{self, Introduction, Member};
use protocol::control::{decode, encode};
use protocol::realm::Realm;
use std::rc::Rc;

/// Which side of the meeting a leader was: the callee's group comes first, and its secret counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The group whose port was called.
    Callee,
    /// The group that has called.
    Caller,
}

/// Where the leaders met, and what the other one has said.
pub struct Met {
    pub meeting: Meeting,
    pub said: Vec<u8>,
    pub side: Side,
}

/// Makes the inter-communicator of `comm` and the group that its leader `root` meets by `find`, which tells the other leader some bytes and gets others.
pub fn meet(
    cs: &mut Section,
    comm: &Rc<Comm>,
    root: i32,
    find: impl FnOnce(&mut Section, &[u8], &Participants) -> Result<Met>,
) -> Result<Rc<Comm>> {
    ensure!(!comm.is_inter(), ERR_COMM, "an intra-communicator is needed");
    ensure!((0..comm.size()).contains(&root), ERR_ROOT, "the root is not in the communicator");
    let members = Participants::of(comm.groups());
    let own = engine::with(cs, |engine| jobs::own_address(engine.endpoints()));
    let id = job::id_of(job::me());
    let entry = own
        .map(|address| encode(&Member { job: id.job.0, rank: id.rank, proposers_end: job::proposers_end(), address }));
    let entries = allgatherv_bytes(cs, comm, entry.as_deref().unwrap_or_default())?;
    let mut connection = None;
    let told = share(cs, comm, root, |cs| {
        let mine = introduction(cs, &entries, root)?;
        let met = find(cs, &encode(&mine), &members)?;
        connection = Some(met.meeting);
        let theirs = Introduction::read(&met.said)?;
        Ok(encode(&meeting::Met { is_callee: met.side == Side::Callee, mine, theirs }))
    })?;
    let made = get_to_know(cs, &decode(&told)?);
    let ready = allgatherv_bytes(cs, comm, &[u8::from(made.is_ok())])?;
    let all_ready = ready.iter().all(|ready| ready == &[1]);
    share(cs, comm, root, |cs| match &mut connection {
        Some(connection) => await_ready(cs, connection, all_ready, &members).map(|()| vec![1]),
        None => fail!(ERR_INTERN, "the leader has met nobody"),
    })?;
    let (shared, own, others) = made?;
    let (group, others) = (Rc::clone(&comm.group), Group::shared(cs, others));
    Ok(publish(cs, Comm::inter_child(comm, shared, own, group, others)))
}

/// What the leader says of its group.
fn introduction(cs: &Section, entries: &[Vec<u8>], root: i32) -> Result<Introduction> {
    let mut members = Vec::with_capacity(entries.len());
    for entry in entries {
        ensure!(!entry.is_empty(), ERR_OTHER, "a member of the group can't be reached by other jobs");
        members.push(decode(entry)?);
    }
    let Some([shared, own]) = take_counters(cs) else { fail!(ERR_OTHER, "no context id is left") };
    let secret = channel::port::random();
    Ok(Introduction { version: meeting::VERSION, leader: root as u32, shared, own, secret, members })
}

/// Learns the processes of the other group; the context of both groups, that of the own one, and them.
fn get_to_know(cs: &Section, met: &meeting::Met) -> Result<(ContextId, ContextId, Vec<Peer>)> {
    let (mine, theirs) = (&met.mine, &met.theirs);
    let (first, second) = if met.is_callee { (mine, theirs) } else { (theirs, mine) };
    let (own, other) = (mine.ids(), theirs.ids());
    ensure!(!other.iter().any(|id| own.contains(id)), ERR_COMM, "a process is in both groups that connect");
    let all = first.ids().into_iter().chain(second.ids());
    let realm = Realm::connect(all, first.proposers_end().max(second.proposers_end()))?;
    let context = |said: &Introduction, counter| match realm.proposer(said.leader_id()?) {
        Some(proposer) => Ok(ContextId::new(proposer, counter)),
        None => fail!(ERR_INTERN, "a leader is not in its group"),
    };
    let (shared, local) = (context(first, first.shared)?, context(mine, mine.own)?);
    let strangers = theirs.members.iter().map(|m| Stranger { id: m.id(), address: m.address.clone() });
    let known = strangers.map(|other| engine::with(cs, |engine| jobs::admit(engine.endpoints(), other, first.secret)));
    let others = known.collect::<Result<Vec<Peer>>>()?;
    job::enter_realm(realm)?;
    Ok((shared, local, others))
}

/// Tells the other leader that this group is ready, and waits for its word.
fn await_ready(cs: &mut Section, meeting: &mut Meeting, all_ready: bool, members: &Participants) -> Result {
    meeting.send(&[u8::from(all_ready)])?;
    let mut word = None;
    wait_for(cs, members, |_| {
        // What has been said counts although its speaker has gone.
        if word.is_none() {
            word = meeting.poll()?;
        } else if !meeting.is_flushed() {
            meeting.poll()?;
        }
        Ok(word.as_ref().filter(|_| meeting.is_flushed()).map(drop))
    })?;
    ensure!(all_ready && word.as_deref() == Some(&[1]), ERR_OTHER, "a member of a group could not connect");
    Ok(())
}

/// The caller's part: reaches the port, says `told` and waits for what the other leader says.
pub fn call(cs: &mut Section, mut call: Call, told: &[u8], members: &Participants) -> Result<Met> {
    let mut meeting: Option<(Meeting, bool)> = None;
    let said = wait_for(cs, members, |_| {
        let Some((met, has_spoken)) = &mut meeting else {
            meeting = call.poll()?.map(|met| (met, false));
            return Ok(None);
        };
        match met.poll() {
            Ok(said) => {
                if met.is_open() && !std::mem::replace(has_spoken, true) {
                    met.send(told)?;
                }
                Ok(said)
            }
            // Another process may listen at that address of this host, or the port is closed.
            Err(error) if !*has_spoken => {
                call.failed(error.origin);
                meeting = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })?;
    match meeting {
        Some((meeting, _)) => Ok(Met { meeting, said, side: Side::Caller }),
        None => fail!(ERR_INTERN, "a port has answered that was not called"),
    }
}
