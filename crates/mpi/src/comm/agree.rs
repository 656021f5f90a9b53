//! How the members of a new communicator agree on its context id, without blocking.
//!
//! The number is proposed by one process from its own counter, so it is unique without asking anybody, and travels down a
//! binomial tree. With two groups the leader of the *lower* one (whose first process comes first in the order of all) proposes
//! the common context and one for each group alone. All messages of one agreement have a tag of their own in
//! a context that the parent provides, so any number of agreements may be under way at the same time. A process that does
//! not get the number passes that on; what a loss means, [`crate::losses`] decides.
//!
//! Numbers are never used twice: messages of a communicator that was freed may still be under way. A process that has proposed
//! [`ContextId::COUNTERS`] of them has none left, and the creation fails with [`NO_CONTEXT`] on every member.

use crate::cs::Section;
use crate::group::Group;
use crate::inside::Inside;
use crate::job;
use crate::losses::{self, Fate, LOST, Participants};
use crate::p2p::transfer::{self, Transfer, start_recv_bytes, start_send_bytes};
use crate::progress::{self, Active};
use crate::request::Operation;
use crate::status::Status;
use base::ids::Proposer;
use base::{Class, ContextId, Error, Peer, Result};
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

/// The error of a creation when the process that proposes the context has none left.
pub const NO_CONTEXT: Error =
    Error::new(Class::ERR_OTHER, "no context id is left: a member has made as many communicators as it ever can");

const ABANDONED: Error = Error::new(Class::ERR_PROC_ABORTED, "a peer of this process has failed");

/// Sent instead of a context id: the process above has failed to get it.
const FAILED: u64 = u64::MAX;
/// Sent instead of a context id by a process that has none left.
pub(crate) const NO_PROPOSAL: u64 = u64::MAX - 1;

const CONTEXT_BYTES: usize = 8;
/// The common context, that of the lower group alone, and that of the other one.
const WORDS: usize = 3;
const BYTES: usize = WORDS * CONTEXT_BYTES;

/// Contexts below this are those of the predefined communicators.
const FIRST_CONTEXT: u32 = 16;

/// Counter of the contexts that this process has proposed.
static NEXT_CONTEXT: Inside<Cell<u32>> = Inside::new(Cell::new(FIRST_CONTEXT));

/// Numbers for new contexts that no other context proposed by this process has; `None` if there are not so many left.
pub(crate) fn take_counters<const N: usize>(cs: &Section) -> Option<[u32; N]> {
    let first = NEXT_CONTEXT.get(cs).get();
    let next = first.checked_add(N as u32).filter(|next| *next <= ContextId::COUNTERS)?;
    NEXT_CONTEXT.get(cs).set(next);
    Some(std::array::from_fn(|i| first + i as u32))
}

/// New context ids of this process, for a message; if there are not so many left, numbers that are none.
/// They are for communicators that are made in the space of `context`.
pub(crate) fn proposals<const N: usize>(cs: &Section, context: u64) -> [u64; N] {
    let proposer = job::find_proposer(ContextId::of_plane(context), job::me());
    let Some((proposer, counters)) = proposer.zip(take_counters(cs)) else { return [NO_PROPOSAL; N] };
    counters.map(|counter| ContextId::new(proposer, counter).0)
}

/// The number by which a process that is met in the space of `context` calls itself there.
pub(crate) fn source_in(context: u64, peer: Peer) -> u32 {
    job::find_proposer(ContextId::of_plane(context), peer).unwrap_or(Proposer::NOBODY).0
}

/// Whether a number that another process has proposed is a context.
pub(crate) fn is_context(word: u64) -> bool {
    word < NO_PROPOSAL
}

/// Where the messages of an agreement travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Context of the messages.
    pub context: u64,
    /// Their tag.
    pub tag: i32,
}

/// From whom one process receives the contexts (nobody: it proposes them), and to whom it then sends them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Part {
    receive: Option<Peer>,
    sends: Vec<Peer>,
}

/// The part of member `rank` of `group`; `remote` is the first process of the other group, and `is_lower` if that one does not propose.
fn part(group: &Group, rank: i32, remote: Option<Peer>, is_lower: bool) -> Part {
    let mut part = Part::default();
    if rank > 0 {
        part.receive = Some(group.peer(rank & (rank - 1)));
    } else if is_lower {
        part.sends.extend(remote);
    } else {
        part.receive = remote;
    }
    let children = (0..31).map(|bit| 1 << bit).take_while(|bit| rank == 0 || *bit < (rank & -rank));
    let children = children.map(|bit| rank + bit).take_while(|child| *child < group.size());
    part.sends.extend(children.map(|child| group.peer(child)));
    part
}

/// Whether the first process of `group` proposes.
pub(crate) fn is_lower(group: &Group, remote: Option<Peer>) -> bool {
    remote.is_none_or(|remote| job::id_of(group.peer(0)) < job::id_of(remote))
}

enum State {
    Receiving(Transfer),
    Sending(Vec<Transfer>),
    Done,
}

/// One agreement, as seen by one member. Must be advanced until it is done once it has been started.
pub struct Agreement {
    channel: Channel,
    members: Participants,
    part: Part,
    is_lower: bool,
    bytes: UnsafeCell<[u8; BYTES]>,
    state: RefCell<State>,
    fate: Cell<Fate>,
    #[expect(clippy::type_complexity, reason = "a callback, once")]
    finish: RefCell<Option<Box<dyn FnOnce(&mut Section, Contexts)>>>,
}

impl Agreement {
    /// An agreement of `group`, and with the group `remote` if there are two, that has not been started. `finish` is called once
    /// with the result, if there is one.
    pub fn new(
        channel: Channel,
        group: &Rc<Group>,
        remote: Option<&Rc<Group>>,
        finish: impl FnOnce(&mut Section, Contexts) + 'static,
    ) -> Agreement {
        let members = Participants::of([Some(group), remote]);
        let remote = remote.map(|remote| remote.peer(0));
        let rank = group.rank_of(job::me()).unwrap_or(0);
        let is_lower = is_lower(group, remote);
        Agreement {
            channel,
            members,
            part: part(group, rank, remote, is_lower),
            is_lower,
            bytes: UnsafeCell::new([0; BYTES]),
            state: RefCell::new(State::Done),
            fate: Cell::default(),
            finish: RefCell::new(Some(Box::new(finish))),
        }
    }

    fn begin_sends(&self, cs: &Section) {
        if self.part.receive.is_none() && !self.fate.get().has_failed() {
            self.propose(cs);
        }
        let start = self.bytes.get().cast::<u8>();
        let mut transfers = Vec::with_capacity(self.part.sends.len());
        for &peer in &self.part.sends {
            let Channel { context, tag } = self.channel;
            // SAFETY: `bytes` is as long, and lives and stays unchanged until the state is `Done`.
            match unsafe { start_send_bytes(cs, peer, context, source_in(context, job::me()), tag, start, BYTES) } {
                Ok(transfer) => transfers.push(transfer),
                Err(error) => self.note(Err(error)),
            }
        }
        *self.state.borrow_mut() = State::Sending(transfers);
    }

    fn propose(&self, cs: &Section) {
        let words: [u64; WORDS] = proposals(cs, self.channel.context);
        words.iter().enumerate().for_each(|(at, word)| self.write(at, *word));
        if !words.iter().all(|word| is_context(*word)) {
            self.note(Err(NO_CONTEXT));
        }
    }

    fn note(&self, result: Result) {
        let mut fate = self.fate.get();
        fate.note(result);
        self.fate.set(fate);
    }

    /// Those below must not wait for ever.
    fn fail(&self, error: Error) {
        self.write(0, FAILED);
        self.note(Err(error));
    }

    fn write(&self, at: usize, value: u64) {
        let at = at * CONTEXT_BYTES;
        // SAFETY: no transfer uses the bytes: the receive is complete and no send has been started.
        unsafe { (&mut *self.bytes.get())[at..at + CONTEXT_BYTES].copy_from_slice(&value.to_le_bytes()) }
    }

    fn contexts(&self) -> Contexts {
        // SAFETY: all transfers are complete.
        let bytes = unsafe { &*self.bytes.get() };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at * CONTEXT_BYTES + i]));
        Contexts { shared: word(0), local: word(if self.is_lower { 1 } else { 2 }) }
    }

    /// What was received: contexts, or why there are none.
    fn received(&self) -> Result {
        match self.contexts().shared {
            FAILED => Err(ABANDONED),
            NO_PROPOSAL => Err(NO_CONTEXT),
            _ => Ok(()),
        }
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
    fn advance(&self, cs: &mut Section) -> bool {
        if let Some(transfer) = self.receiving() {
            let broken = self.members.have_lost_one(cs);
            match transfer::test(cs, transfer) {
                None if broken && transfer::give_up(cs, transfer) => self.fail(LOST),
                None => return false,
                Some(Ok(_)) => self.note(self.received()),
                Some(Err(error)) => self.fail(error),
            }
            self.begin_sends(cs);
        }
        if let State::Sending(transfers) = &mut *self.state.borrow_mut() {
            transfers.retain(|transfer| match transfer::test(cs, *transfer) {
                None => true,
                Some(result) => {
                    self.note(result.map(drop));
                    false
                }
            });
            if !transfers.is_empty() {
                return false;
            }
        }
        *self.state.borrow_mut() = State::Done;
        let finish = self.finish.borrow_mut().take();
        if let (Some(finish), Ok(())) = (finish, self.fate.get().outcome()) {
            finish(cs, self.contexts());
        }
        true
    }
}

impl Operation for Agreement {
    fn start(&self, cs: &mut Section) -> Result {
        losses::ensure_valid(cs, self.channel.context)?;
        // Also who needs to hear from nobody.
        if self.members.have_lost_one(cs) {
            self.fail(LOST);
            self.begin_sends(cs);
            return Ok(());
        }
        match self.part.receive {
            None => self.begin_sends(cs),
            Some(peer) => {
                let Channel { context, tag } = self.channel;
                let start = self.bytes.get().cast::<u8>();
                // SAFETY: `bytes` is as long, and lives and isn't touched until the receive is complete.
                let transfer =
                    unsafe { start_recv_bytes(cs, peer, context, source_in(context, peer), tag, start, BYTES) }?;
                *self.state.borrow_mut() = State::Receiving(transfer);
            }
        }
        Ok(())
    }

    fn outcome(&self, _cs: &Section) -> Option<Result<Status>> {
        match &*self.state.borrow() {
            State::Done => Some(self.fate.get().outcome().map(|()| Status::EMPTY)),
            _ => None,
        }
    }
}

/// Runs an agreement to its end.
pub fn agree(cs: &mut Section, channel: Channel, group: &Rc<Group>, remote: Option<&Rc<Group>>) -> Result<Contexts> {
    let result = Rc::new(Cell::new(Contexts::default()));
    let place = Rc::clone(&result);
    let agreement = Agreement::new(channel, group, remote, move |_, contexts| place.set(contexts));
    agreement.start(cs)?;
    progress::wait_until(cs, |cs| agreement.advance(cs));
    agreement.outcome(cs).expect("the agreement has ended")?;
    Ok(result.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every message that is sent is received, and one process proposes.
    fn check(low: &Group, high: Option<&Group>) {
        let groups: Vec<&Group> = [Some(low), high].into_iter().flatten().collect();
        let (mut sent, mut received, mut proposers) = (HashSet::new(), HashSet::new(), 0);
        for (i, group) in groups.iter().enumerate() {
            let remote = groups.get(1 - i).filter(|_| groups.len() == 2).map(|g| g.peer(0));
            for rank in 0..group.size() {
                let part = part(group, rank, remote, i == 0);
                let me = group.peer(rank);
                proposers += i32::from(part.receive.is_none());
                received.extend(part.receive.map(|from| (from, me)));
                for to in part.sends {
                    assert!(sent.insert((me, to)));
                }
            }
        }
        assert_eq!(proposers, 1);
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

    #[test]
    fn the_last_context_is_followed_by_an_error() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let before = NEXT_CONTEXT.get(cs).replace(ContextId::COUNTERS - 3);
        let [a, b] = proposals(cs, 0);
        assert!(is_context(a) && is_context(b) && a != b);
        // One is left, which is not enough, and nothing is taken then.
        assert_eq!(take_counters::<2>(cs), None);
        assert!(proposals::<WORDS>(cs, 0).iter().all(|word| !is_context(*word)));
        assert_eq!(take_counters(cs), Some([ContextId::COUNTERS - 1]));
        assert_eq!(take_counters::<1>(cs), None);
        NEXT_CONTEXT.get(cs).set(before);
    }

    #[test]
    fn a_process_without_contexts_says_so() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let before = NEXT_CONTEXT.get(cs).replace(ContextId::COUNTERS);
        let agreement = |proposes: bool| {
            let me = Rc::new(Group::identity(1));
            let mut agreement = Agreement::new(Channel { context: 0, tag: 0 }, &me, None, |_, _| ());
            agreement.part.receive = (!proposes).then_some(Peer(0));
            agreement
        };
        let proposer = agreement(true);
        proposer.begin_sends(cs);
        assert_eq!(proposer.fate.get().outcome(), Err(NO_CONTEXT));
        // Whoever receives these bytes fails in the same way.
        let member = agreement(false);
        // SAFETY: nothing uses the bytes.
        unsafe { *member.bytes.get() = *proposer.bytes.get() };
        assert_eq!(member.received(), Err(NO_CONTEXT));
        NEXT_CONTEXT.get(cs).set(before);
    }
}
