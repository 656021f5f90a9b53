//! Two leaders tell each other something, while a communicator is made.

use super::agree::Channel;
use crate::cs::Section;
use crate::group::Group;
use crate::job;
use crate::losses::{LOST, Participants};
use crate::p2p::transfer::{Transfer, start_recv_bytes, start_send_bytes};
use base::{Peer, Result, ensure};

const LENGTH_BYTES: usize = 8;
/// More than any leader has to tell: 16 bytes for each of its processes.
const TOLD_MAX: u64 = 1 << 32;
/// Told instead of a length by a leader that knows of a loss in its group: it waits for nothing.
const GIVEN_UP: u64 = u64::MAX;

/// Tells `peer` a message and waits for the one that it tells. Everything is sent before anything is waited for: whoever gives up
/// because one of the `members` is lost has told its own part, or that it gives up.
pub fn exchange(cs: &mut Section, channel: Channel, peer: Peer, out: &[u8], members: &Participants) -> Result<Vec<u8>> {
    introduce(cs, channel, peer, out, members, |_| Vec::new())
}

/// As [`exchange`], when the other group's processes are known by its message only: `others` reads them there. If one of them is lost, its
/// leader may have given up after it told us, and takes nothing from us any more.
pub fn introduce(
    cs: &mut Section,
    channel: Channel,
    peer: Peer,
    out: &[u8],
    members: &Participants,
    others: impl FnOnce(&[u8]) -> Vec<Peer>,
) -> Result<Vec<u8>> {
    let gives_up = members.have_lost_one(cs);
    let length = if gives_up { GIVEN_UP } else { out.len() as u64 }.to_le_bytes();
    let mut sends = vec![send(cs, channel, peer, &length)];
    if !gives_up {
        sends.push(send(cs, channel, peer, out));
    }
    // What comes after a loss may belong to another call.
    let complete = if gives_up { Err(LOST) } else { Ok(()) };
    let received = complete.and_then(|()| receive(cs, channel, peer, LENGTH_BYTES, members)).and_then(|length| {
        let length = length.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if length == GIVEN_UP {
            return Err(LOST);
        }
        ensure!(length <= TOLD_MAX, ERR_INTERN, "the other group has told something impossible");
        receive(cs, channel, peer, length as usize, members)
    });
    let all = members.with(&Group::shared(cs, received.as_deref().map_or(Vec::new(), others)));
    // The sends must end before their memory goes.
    let mut sent = Ok(());
    for transfer in sends {
        sent = sent.and(transfer.and_then(|transfer| all.end(cs, transfer, received.is_err())));
    }
    sent.and(received)
}

/// The send must be ended before `out` goes.
fn send(cs: &Section, Channel { context, tag }: Channel, peer: Peer, out: &[u8]) -> Result<Transfer> {
    // SAFETY: by the caller, who is in this file.
    unsafe { start_send_bytes(cs, peer, context, job::proposer(job::me()).0, tag, out.as_ptr(), out.len()) }
}

fn receive(
    cs: &mut Section,
    Channel { context, tag }: Channel,
    peer: Peer,
    len: usize,
    members: &Participants,
) -> Result<Vec<u8>> {
    let mut into = vec![0; len];
    // SAFETY: ended below, before the vector goes.
    let transfer = unsafe { start_recv_bytes(cs, peer, context, job::proposer(peer).0, tag, into.as_mut_ptr(), len) }?;
    members.end(cs, transfer, false).map(|()| into)
}
