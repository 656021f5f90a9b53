//! How the members of a new communicator agree on its context id, without blocking.
//!
//! The number is proposed by one process from its own counter, so it is unique without asking anybody, and travels down a
//! binomial tree. With two groups the leader of the *lower* one (whose first process has the smaller number) proposes
//! the common context, and each leader a context for its own group. All messages of one agreement have a tag of their own in
//! a context that the parent provides, so any number of agreements may be under way at the same time. A process that does
//! not get the number because a peer is gone passes that on. Once a member is known to be lost nobody waits any more: what should
//! come may hang on messages of the lost one, or of somebody who has left before.

use super::Comm;
use crate::engine;
use crate::group::Group;
use crate::inside::Inside;
use crate::job;
use crate::p2p::transfer::{self, Transfer, start_recv_bytes, start_send_bytes};
use crate::progress::{self, Active, Awaited};
use crate::request::Operation;
use crate::status::Status;
use base::{Class, ContextId, Error, Peer, Result, ensure};
use protocol::engine::PEER_LOST;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::rc::Rc;

/// The context ids of a new communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contexts {
    /// Of the communicator.
    pub shared: u64,
    /// Of the local group's own communicator, for an inter-communicator.
    pub local: u64,
}

impl Contexts {
    /// The communicator's context.
    pub fn shared(&self) -> ContextId {
        ContextId(self.shared)
    }

    /// The local group's context.
    pub fn local(&self) -> ContextId {
        ContextId(self.local)
    }
}

/// Sent instead of a context id when there is none: the process above has failed to get it.
const NONE: u64 = u64::MAX;

const CONTEXT_BYTES: usize = 8;
const BYTES: usize = 2 * CONTEXT_BYTES;

/// Contexts below this are those of the predefined communicators.
const FIRST_CONTEXT: u32 = 16;

/// Counter of the contexts that this process has proposed.
static NEXT_CONTEXT: Inside<Cell<u32>> = Inside::new(Cell::new(FIRST_CONTEXT));

/// A number for a new context that no other context proposed by this process has.
pub(crate) fn propose_counter() -> u32 {
    let counter = NEXT_CONTEXT.get();
    NEXT_CONTEXT.set(counter + 1);
    counter
}

/// A new context id of this process.
pub fn propose() -> ContextId {
    ContextId::new(job::me(), propose_counter())
}

/// Where the messages of an agreement travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Context of the messages.
    pub context: u64,
    /// Their tag.
    pub tag: i32,
}

/// The processes that take part in something.
pub struct Members {
    groups: [Option<Rc<Group>>; 2],
    /// Losses that have been looked into.
    losses: Cell<usize>,
}

impl Members {
    /// Those of a group, and of the other one if there are two.
    pub fn new(group: &Rc<Group>, other: Option<&Rc<Group>>) -> Members {
        Members { groups: [Some(Rc::clone(group)), other.map(Rc::clone)], losses: Cell::new(0) }
    }

    /// Those of a communicator.
    pub fn of(comm: &Comm) -> Members {
        Members::new(&comm.group, comm.remote.as_ref())
    }

    /// Whether somebody was lost since the last call, or ever before the first, who takes part.
    pub fn have_lost_one(&self) -> bool {
        let losses = engine::with(|engine| engine.losses());
        if self.losses.replace(losses) == losses {
            return false;
        }
        let takes_part = |peer| self.groups.iter().flatten().any(|group| group.contains(peer));
        engine::with(|engine| engine.any_lost(takes_part))
    }
}

/// What one process receives and then sends: whom, and the number of bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Part {
    receive: Option<(Peer, usize)>,
    sends: Vec<(Peer, usize)>,
    proposes_shared: bool,
    proposes_local: bool,
}

/// The part of member `rank` of `group`; `remote` is the first process of the other group.
fn part(group: &Group, rank: i32, remote: Option<Peer>) -> Part {
    let mut part = Part::default();
    if rank > 0 {
        part.receive = Some((group.peer(rank & (rank - 1)), BYTES));
    } else {
        let lower = remote.is_none_or(|remote| group.peer(0) < remote);
        part.proposes_shared = lower;
        part.proposes_local = remote.is_some();
        match remote {
            Some(remote) if lower => part.sends.push((remote, CONTEXT_BYTES)),
            Some(remote) => part.receive = Some((remote, CONTEXT_BYTES)),
            None => {}
        }
    }
    let children = (0..31).map(|bit| 1 << bit).take_while(|bit| rank == 0 || *bit < (rank & -rank));
    let children = children.map(|bit| rank + bit).take_while(|child| *child < group.size());
    part.sends.extend(children.map(|child| (group.peer(child), BYTES)));
    part
}

enum State {
    Receiving(Transfer),
    Sending(Vec<Transfer>),
    Done,
}

/// One agreement, as seen by one member. Must be advanced until it is done once it has been started.
pub struct Agreement {
    channel: Channel,
    members: Members,
    part: Part,
    bytes: UnsafeCell<[u8; BYTES]>,
    state: RefCell<State>,
    error: Cell<Option<Error>>,
    #[expect(clippy::type_complexity, reason = "a callback, once")]
    finish: RefCell<Option<Box<dyn FnOnce(Contexts)>>>,
}

impl Agreement {
    /// An agreement of `group`, and with the group `remote` if there are two, that has not been started. `finish` is called once
    /// with the result, if there is one.
    pub fn new(
        channel: Channel,
        group: &Rc<Group>,
        remote: Option<&Rc<Group>>,
        finish: impl FnOnce(Contexts) + 'static,
    ) -> Agreement {
        let members = Members::new(group, remote);
        let remote = remote.map(|remote| remote.peer(0));
        let rank = group.rank_of(job::me()).unwrap_or(0);
        Agreement {
            channel,
            members,
            part: part(group, rank, remote),
            bytes: UnsafeCell::new([0; BYTES]),
            state: RefCell::new(State::Done),
            error: Cell::new(None),
            finish: RefCell::new(Some(Box::new(finish))),
        }
    }

    fn begin_sends(&self) {
        let start = self.bytes.get().cast::<u8>();
        if self.part.proposes_shared && self.error.get().is_none() {
            self.write(0, propose().0);
        }
        if self.part.proposes_local && self.error.get().is_none() {
            self.write(CONTEXT_BYTES, propose().0);
        }
        let mut transfers = Vec::with_capacity(self.part.sends.len());
        for &(peer, len) in &self.part.sends {
            let Channel { context, tag } = self.channel;
            // SAFETY: `bytes` is as long as `len`, and lives and stays unchanged until the state is `Done`.
            match unsafe { start_send_bytes(peer, context, job::me().0, tag, start, len) } {
                Ok(transfer) => transfers.push(transfer),
                Err(error) => self.error.set(Some(error)),
            }
        }
        *self.state.borrow_mut() = State::Sending(transfers);
    }

    /// Those below must not wait for ever.
    fn fail(&self, error: Error) {
        self.write(0, NONE);
        self.error.set(Some(error));
    }

    fn write(&self, at: usize, value: u64) {
        // SAFETY: no transfer uses the bytes: the receive is complete and no send has been started.
        unsafe { (&mut *self.bytes.get())[at..at + CONTEXT_BYTES].copy_from_slice(&value.to_le_bytes()) }
    }

    fn contexts(&self) -> Contexts {
        // SAFETY: all transfers are complete.
        let bytes = unsafe { &*self.bytes.get() };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Contexts { shared: word(0), local: word(CONTEXT_BYTES) }
    }

    /// The receive if it is still under way.
    fn receiving(&self) -> Option<Transfer> {
        match &*self.state.borrow() {
            State::Receiving(transfer) => Some(*transfer),
            _ => None,
        }
    }
}

impl Active for Agreement {
    fn advance(&self) -> bool {
        if let Some(transfer) = self.receiving() {
            let broken = self.members.have_lost_one();
            match transfer::test(transfer) {
                None if broken && transfer::give_up(transfer) => self.fail(PEER_LOST),
                None => return false,
                Some(Ok(_)) => {
                    if self.contexts().shared == NONE {
                        self.error.set(Some(Error::new(Class::ERR_PROC_ABORTED, "a peer of this process has failed")));
                    }
                }
                Some(Err(error)) => self.fail(error),
            }
            self.begin_sends();
        }
        if let State::Sending(transfers) = &mut *self.state.borrow_mut() {
            transfers.retain(|transfer| match transfer::test(*transfer) {
                None => true,
                Some(result) => {
                    if let Err(error) = result {
                        self.error.set(Some(error));
                    }
                    false
                }
            });
            if !transfers.is_empty() {
                return false;
            }
        }
        *self.state.borrow_mut() = State::Done;
        let finish = self.finish.borrow_mut().take();
        if let (Some(finish), None) = (finish, self.error.get()) {
            finish(self.contexts());
        }
        true
    }
}

impl Operation for Agreement {
    fn start(&self) -> Result {
        // Also who needs to hear from nobody.
        if self.members.have_lost_one() {
            self.fail(PEER_LOST);
            self.begin_sends();
            return Ok(());
        }
        match self.part.receive {
            None => self.begin_sends(),
            Some((peer, len)) => {
                let Channel { context, tag } = self.channel;
                let start = self.bytes.get().cast::<u8>();
                // SAFETY: `bytes` is as long as `len`, and lives and isn't touched until the receive is complete.
                let transfer = unsafe { start_recv_bytes(peer, context, peer.0, tag, start, len) }?;
                *self.state.borrow_mut() = State::Receiving(transfer);
            }
        }
        Ok(())
    }

    fn outcome(&self) -> Option<Result<Status>> {
        match &*self.state.borrow() {
            State::Done => Some(self.error.get().map_or(Ok(Status::EMPTY), Err)),
            _ => None,
        }
    }
}

/// Runs an agreement to its end.
pub fn agree(channel: Channel, group: &Rc<Group>, remote: Option<&Rc<Group>>) -> Result<Contexts> {
    let result = Rc::new(Cell::new(Contexts::default()));
    let place = Rc::clone(&result);
    let agreement = Agreement::new(channel, group, remote, move |contexts| place.set(contexts));
    agreement.start()?;
    progress::wait_until(|| agreement.advance());
    agreement.outcome().expect("the agreement has ended")?;
    Ok(result.get())
}

/// Tells `peer` a message and waits for the one that it tells. Everything is sent before anything is waited for: whoever gives up
/// because one of the `members` is lost has told its own part.
pub fn exchange(channel: Channel, peer: Peer, out: &[u8], members: &Members) -> Result<Vec<u8>> {
    let length = (out.len() as u64).to_le_bytes();
    let sends = [send(channel, peer, &length), send(channel, peer, out)];
    // What comes after a loss may belong to another call.
    let complete = if members.have_lost_one() { Err(PEER_LOST) } else { Ok(()) };
    let received = complete.and_then(|()| receive(channel, peer, LENGTH_BYTES, members)).and_then(|length| {
        let length = length.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        ensure!(length <= TOLD_MAX, ERR_INTERN, "the other group has told something impossible");
        receive(channel, peer, length as usize, members)
    });
    // The sends must end before their memory goes.
    let mut sent = Ok(());
    for transfer in sends {
        sent = sent.and(transfer.and_then(|transfer| end(transfer, members, received.is_err())));
    }
    sent.and(received)
}

const LENGTH_BYTES: usize = 8;
/// More than any leader has to tell: 16 bytes for each of its processes.
const TOLD_MAX: u64 = 1 << 32;

/// The send must be ended before `out` goes.
fn send(Channel { context, tag }: Channel, peer: Peer, out: &[u8]) -> Result<Transfer> {
    // SAFETY: by the caller, who is in this file.
    unsafe { start_send_bytes(peer, context, job::me().0, tag, out.as_ptr(), out.len()) }
}

fn receive(Channel { context, tag }: Channel, peer: Peer, len: usize, members: &Members) -> Result<Vec<u8>> {
    let mut into = vec![0; len];
    // SAFETY: ended below, before the vector goes.
    let transfer = unsafe { start_recv_bytes(peer, context, peer.0, tag, into.as_mut_ptr(), len) }?;
    end(transfer, members, false).map(|()| into)
}

/// Waits for a transfer, but gives it up if it can be when one of the members is lost, or `given_up` says that nobody waits for it.
fn end(transfer: Transfer, members: &Members, given_up: bool) -> Result {
    let mut broken = given_up;
    let mut outcome = None;
    progress::wait_for(transfer.op().map_or(Awaited::Tested, Awaited::One), || {
        outcome = transfer::test(transfer);
        broken |= members.have_lost_one();
        outcome.is_some() || broken
    });
    match outcome {
        Some(outcome) => outcome.map(drop),
        None if transfer::give_up(transfer) => Err(PEER_LOST),
        None => transfer::wait(transfer).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every message that is sent is received, and everybody learns both numbers.
    fn check(low: &Group, high: Option<&Group>) {
        let groups: Vec<&Group> = [Some(low), high].into_iter().flatten().collect();
        let (mut sent, mut received, mut shared) = (HashSet::new(), HashSet::new(), 0);
        for (i, group) in groups.iter().enumerate() {
            let remote = groups.get(1 - i).filter(|_| groups.len() == 2).map(|g| g.peer(0));
            for rank in 0..group.size() {
                let part = part(group, rank, remote);
                let me = group.peer(rank);
                assert!(part.receive.is_some() || part.proposes_shared);
                assert_eq!(part.proposes_local, rank == 0 && remote.is_some());
                shared += i32::from(part.proposes_shared);
                received.extend(part.receive.map(|(from, len)| (from, me, len)));
                for (to, len) in part.sends {
                    assert!(sent.insert((me, to, len)));
                }
            }
        }
        assert_eq!(shared, 1);
        assert_eq!(sent, received);
    }

    #[test]
    fn one_group_forms_a_tree() {
        for n in 1..40 {
            check(&Group::identity(n), None);
        }
    }

    #[test]
    fn two_groups_form_two_trees_with_linked_roots() {
        for (a, b) in [(1, 1), (1, 5), (6, 1), (7, 9)] {
            let low = Group::new((0..a).map(Peer).collect());
            let high = Group::new((a..a + b).rev().map(Peer).collect());
            check(&low, Some(&high));
            check(&high, Some(&low));
        }
    }
}
