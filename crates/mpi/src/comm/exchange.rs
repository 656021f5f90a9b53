//! Two leaders tell each other something, while a communicator is made.
//!
//! One message goes each way: the number of the call, whether its sender gives up, and what it tells. A leader that gives up leaves the other one's
//! message unread. It would meet the next call in the same place, so the reader drops messages of earlier calls.

use super::agree::{Channel, source_in};
use crate::cs::Section;
use crate::engine;
use crate::group::Group;
use crate::inside::Inside;
use crate::job;
use crate::losses::{self, LOST, Participants};
use crate::p2p::transfer::{self, Transfer, start_recv_bytes, start_send_bytes};
use crate::progress::{self, Active, Awaited};
use base::{Peer, Result, ensure};
use protocol::engine::WITHDRAWN;
use protocol::matching::Pattern;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The number of the call, and whether its sender gives up.
const HEAD_BYTES: usize = 16;
/// More than any leader has to tell: 16 bytes for each of its processes.
const TOLD_MAX: u64 = 1 << 32;

/// Calls of [`introduce`] that this process has begun, by place and peer.
static CALLS: Inside<RefCell<Option<HashMap<Place, u64>>>> = Inside::new(RefCell::new(None));

/// Context, tag and peer.
type Place = (u64, i32, Peer);

/// What a leader has said.
struct Said {
    number: u64,
    /// `None`: it knows of a loss in its group, and waits for nothing.
    told: Option<Vec<u8>>,
}

/// Tells `peer` a message and waits for the one that it tells, over a channel that is used once. It is sent before anything is waited for:
/// whoever gives up because one of the `members` is lost has told its own part, or that it gives up.
pub fn exchange(cs: &mut Section, channel: Channel, peer: Peer, out: &[u8], members: &Participants) -> Result<Vec<u8>> {
    run(cs, channel, peer, 0, out, members, |_| Vec::new())
}

/// As [`exchange`], over a channel that may be used again, and when the other group's processes are known by its message only: `others` reads them
/// there. If one of them is lost, its leader may have given up after it told us, and takes nothing from us any more.
pub fn introduce(
    cs: &mut Section,
    channel: Channel,
    peer: Peer,
    out: &[u8],
    members: &Participants,
    others: impl FnOnce(&[u8]) -> Vec<Peer>,
) -> Result<Vec<u8>> {
    let place = (channel.context, channel.tag, peer);
    let number = {
        let mut calls = CALLS.get(cs).borrow_mut();
        let number = calls.get_or_insert_default().entry(place).or_default();
        *number += 1;
        *number
    };
    run(cs, channel, peer, number, out, members, others)
}

fn run(
    cs: &mut Section,
    channel: Channel,
    peer: Peer,
    number: u64,
    out: &[u8],
    members: &Participants,
    others: impl FnOnce(&[u8]) -> Vec<Peer>,
) -> Result<Vec<u8>> {
    losses::ensure_valid(cs, channel.context)?;
    let gives_up = members.have_lost_one(cs);
    let out = said(number, (!gives_up).then_some(out));
    let sent = send(cs, channel, peer, &out);
    // What comes after a loss may belong to another call.
    let received = if gives_up { Err(LOST) } else { receive(cs, channel, peer, number, members) };
    let all = members.with(&Group::shared(cs, received.as_deref().map_or(Vec::new(), others)));
    // The send must end before its memory goes.
    let sent = sent.and_then(|transfer| all.end(cs, transfer, received.is_err()));
    let outcome = sent.and(received);
    if outcome.is_err() && !gives_up {
        part(cs, channel, peer, number);
    }
    outcome
}

/// The bytes of a message: `told` is `None` if its sender gives up.
fn said(number: u64, told: Option<&[u8]>) -> Vec<u8> {
    let head = [number.to_le_bytes(), u64::from(told.is_none()).to_le_bytes()];
    [head.as_flattened(), told.unwrap_or_default()].concat()
}

impl Said {
    fn read(mut bytes: Vec<u8>) -> Result<Said> {
        ensure!(bytes.len() >= HEAD_BYTES, ERR_INTERN, "the leader of the other group has sent too short a message");
        let told = bytes.split_off(HEAD_BYTES);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Ok(Said { number: word(0), told: (word(8) == 0).then_some(told) })
    }
}

/// The send must be ended before `out` goes.
fn send(cs: &Section, Channel { context, tag }: Channel, peer: Peer, out: &[u8]) -> Result<Transfer> {
    // SAFETY: by the caller, who is in this file.
    unsafe { start_send_bytes(cs, peer, context, source_in(context, job::me()), tag, out.as_ptr(), out.len()) }
}

/// What `peer` says in call `number`.
fn receive(cs: &mut Section, channel: Channel, peer: Peer, number: u64, members: &Participants) -> Result<Vec<u8>> {
    loop {
        let said = match receive_next(cs, channel, peer, members) {
            Ok(bytes) => Said::read(bytes)?,
            // Its sender has given up after this, and says so next.
            Err(error) if error == WITHDRAWN => continue,
            Err(error) => return Err(error),
        };
        ensure!(said.number <= number, ERR_INTERN, "the leader of the other group is ahead of this call");
        if said.number == number {
            return said.told.ok_or(LOST);
        }
    }
}

/// The next message, of any length.
fn receive_next(
    cs: &mut Section,
    Channel { context, tag }: Channel,
    peer: Peer,
    members: &Participants,
) -> Result<Vec<u8>> {
    let source = source_in(context, peer);
    let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
    let mut found = None;
    progress::wait_for(cs, Awaited::Message(&pattern, Some(peer)), |cs| {
        found = engine::with(cs, |engine| engine.probe_or_lost(&pattern, Some(peer)));
        if found.is_none() && members.have_lost_one(cs) {
            found = Some(Err(LOST));
        }
        found.is_some()
    });
    let length = found.unwrap_or(Err(LOST))?.length;
    ensure!(length <= TOLD_MAX, ERR_INTERN, "the leader of the other group has sent something impossible");
    let mut into = vec![0; length as usize];
    // SAFETY: ended below, before the vector goes.
    let transfer = unsafe { start_recv_bytes(cs, peer, context, source, tag, into.as_mut_ptr(), into.len()) }?;
    members.end(cs, transfer, false).map(|()| into)
}

/// Says that this process has given up a call in which it has told its part: that may have been withdrawn.
struct Parting {
    /// Sent by `transfer`.
    _bytes: Vec<u8>,
    transfer: Transfer,
}

impl Active for Parting {
    fn advance(&self, cs: &mut Section) -> bool {
        transfer::test(cs, self.transfer).is_some()
    }
}

fn part(cs: &mut Section, channel: Channel, peer: Peer, number: u64) {
    let bytes = said(number, None);
    // The bytes stay where they are until the send has ended.
    if let Ok(transfer) = send(cs, channel, peer, &bytes) {
        progress::activate(cs, Rc::new(Parting { _bytes: bytes, transfer }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn what_is_said_is_read() {
        let told = Said::read(said(7, Some(&[1, 2, 3]))).expect("well-formed");
        assert_eq!((told.number, told.told), (7, Some(vec![1, 2, 3])));
        let gave_up = Said::read(said(8, None)).expect("well-formed");
        assert_eq!((gave_up.number, gave_up.told), (8, None));
        let short = Said::read(vec![0; HEAD_BYTES - 1]).err();
        assert_eq!(short.map(|error| error.class), Some(Class::ERR_INTERN));
    }
}
