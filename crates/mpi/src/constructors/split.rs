//! `MPI_Comm_split` (MPI-5.0, 7.4.2), on intra- and inter-communicators: one allgather.
//!
//! Each process contributes colour, key and proposals for context ids; those of the first process of each new group are used.

use super::duplicate::{collective_channel, remote_first};
use super::inter::share;
use crate::coll::internal::allgather_bytes;
use crate::comm::agree::{Channel, NO_CONTEXT, take_counters};
use crate::comm::exchange::exchange;
use crate::comm::{Comm, publish};
use crate::cs::Section;
use crate::group::Group;
use crate::job;
use crate::losses::Participants;
use crate::status::UNDEFINED;
use base::{ContextId, Peer, Result, ensure, fail};
use std::rc::Rc;

/// What a process contributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    colour: i32,
    key: i32,
    /// Counters of context ids: for the new communicator, and for the local part of an inter-communicator.
    proposals: [u32; 2],
}

const RECORD_BYTES: usize = 16;

/// The proposals of a process that has no more contexts.
const NONE_LEFT: [u32; 2] = [ContextId::COUNTERS; 2];

/// Everybody sees all records, so all fail if anybody has no context to propose.
fn check(records: &[Record]) -> Result {
    let is_valid = |record: &Record| record.proposals.iter().all(|counter| *counter < ContextId::COUNTERS);
    if records.iter().all(is_valid) { Ok(()) } else { Err(NO_CONTEXT) }
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let words = [self.colour as u32, self.key as u32, self.proposals[0], self.proposals[1]];
        let mut bytes = [0; RECORD_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode_all(bytes: &[u8]) -> Vec<Record> {
        let word = |c: &[u8], i: usize| u32::from_le_bytes([c[i], c[i + 1], c[i + 2], c[i + 3]]);
        let decode = |c: &[u8]| Record {
            colour: word(c, 0) as i32,
            key: word(c, 4) as i32,
            proposals: [word(c, 8), word(c, 12)],
        };
        bytes.chunks_exact(RECORD_BYTES).map(decode).collect()
    }
}

/// The members of a new group: all of one colour, in the order of their keys, ties in that of their ranks.
struct Part {
    ranks: Vec<i32>,
    proposals: [u32; 2],
}

fn part(records: &[Record], colour: i32) -> Option<Part> {
    let mut ranks: Vec<i32> = (0..records.len() as i32).filter(|&r| records[r as usize].colour == colour).collect();
    ranks.sort_by_key(|&r| records[r as usize].key);
    let proposals = records[*ranks.first()? as usize].proposals;
    Some(Part { ranks, proposals })
}

impl Part {
    fn members(&self, group: &Group) -> Vec<Peer> {
        self.ranks.iter().map(|&r| group.peer(r)).collect()
    }
}

/// `MPI_Comm_split`; none for a process with the colour `MPI_UNDEFINED`, or without anybody on the other side.
pub fn split(cs: &mut Section, comm: &Rc<Comm>, colour: i32, key: i32) -> Result<Option<Rc<Comm>>> {
    ensure!(colour >= 0 || colour == UNDEFINED, ERR_ARG, "the colour is negative");
    let record = Record { colour, key, proposals: take_counters(cs).unwrap_or(NONE_LEFT) };
    if comm.is_inter() {
        return split_inter(cs, comm, record);
    }
    let records = Record::decode_all(&allgather_bytes(cs, comm, &record.encode())?);
    check(&records)?;
    if colour == UNDEFINED {
        return Ok(None);
    }
    let Some(part) = part(&records, colour) else { fail!(ERR_INTERN, "a split lost this process") };
    let members = part.members(&comm.group);
    let context = ContextId::new(job::proposer(comm.context, members[0]), part.proposals[0]);
    Ok(Some(publish(cs, Comm::child(comm, context, Group::shared(cs, members)))))
}

fn split_inter(cs: &mut Section, comm: &Rc<Comm>, record: Record) -> Result<Option<Rc<Comm>>> {
    let channel: Channel = collective_channel(comm);
    let (Some(local), Some(remote), Some(other)) = (&comm.local, &comm.remote, remote_first(comm)) else {
        fail!(ERR_INTERN, "an inter-communicator lacks its local part");
    };
    let ours = allgather_bytes(cs, local, &record.encode())?;
    let theirs = share(cs, local, 0, |cs| exchange(cs, channel, other, &ours, &Participants::of(comm.groups())))?;
    let (ours, theirs) = (Record::decode_all(&ours), Record::decode_all(&theirs));
    check(&ours)?;
    check(&theirs)?;
    if record.colour == UNDEFINED {
        return Ok(None);
    }
    let (Some(ours), Some(theirs)) = (part(&ours, record.colour), part(&theirs, record.colour)) else {
        return Ok(None);
    };
    let (group, others) = (ours.members(&comm.group), theirs.members(remote));
    let (first, second) = (group[0], others[0]);
    let shared = if job::id_of(first) < job::id_of(second) {
        ContextId::new(job::proposer(comm.context, first), ours.proposals[0])
    } else {
        ContextId::new(job::proposer(comm.context, second), theirs.proposals[0])
    };
    let own = ContextId::new(job::proposer(comm.context, first), ours.proposals[1]);
    Ok(Some(publish(cs, Comm::inter_child(comm, shared, own, Group::shared(cs, group), Group::shared(cs, others)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_member_without_contexts_fails_the_split_everywhere() {
        let record = Record { colour: 0, key: 0, proposals: [ContextId::COUNTERS - 1; 2] };
        assert_eq!(check(&[record; 3]), Ok(()));
        for proposals in [NONE_LEFT, [0, u32::MAX]] {
            assert_eq!(check(&[record, Record { proposals, ..record }]), Err(NO_CONTEXT));
        }
    }

    proptest! {
        #[test]
        fn parts_are_ordered_and_cover_their_colour(
            list in proptest::collection::vec((prop_oneof![Just(UNDEFINED), 0..4], any::<i32>()), 1..40)
        ) {
            let records: Vec<Record> = list.iter().enumerate()
                .map(|(i, &(colour, key))| Record { colour, key, proposals: [i as u32, 99] }).collect();
            let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
            prop_assert_eq!(&Record::decode_all(&bytes), &records);
            let mut seen = 0;
            for colour in 0..4 {
                let Some(part) = part(&records, colour) else { continue };
                seen += part.ranks.len();
                prop_assert!(part.ranks.iter().all(|&r| list[r as usize].0 == colour));
                let order: Vec<_> = part.ranks.iter().map(|&r| (list[r as usize].1, r)).collect();
                prop_assert!(order.is_sorted());
                prop_assert_eq!(part.proposals, [part.ranks[0] as u32, 99]);
            }
            prop_assert_eq!(seen, list.iter().filter(|(c, _)| *c != UNDEFINED).count());
        }
    }
}
