//! The memory of its owner that a schedule reads and writes.

use super::operation::Operation;
use super::{INVALID, Portable};
use crate::coll::schedule::Step;
use base::Result;

/// What is done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read.
    Read = 0,
    /// Written, perhaps read, too.
    Write = 1,
}

/// A range of addresses of the owner: `from .. to`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region {
    /// First byte.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
}

impl Region {
    fn new(at: usize, low: i64, high: i64) -> Result<Region> {
        let bound = |offset: i64| u64::try_from(at as i128 + i128::from(offset)).map_err(|_| INVALID);
        Ok(Region { from: bound(low)?, to: bound(high)? })
    }

    /// Whether all of `other` lies inside.
    pub fn contains(&self, other: &Region) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// Bytes at an address; `None` if there are none.
fn bytes(at: usize, len: usize) -> Result<Option<Region>> {
    let len = i64::try_from(len).map_err(|_| INVALID)?;
    if len == 0 { Ok(None) } else { Region::new(at, 0, len).map(Some) }
}

/// Items at an address, and their bytes of data.
fn items(portable: &Portable, at: usize, count: usize, datatype: u32) -> Result<(Option<Region>, usize)> {
    let flat = portable.types.get(datatype as usize).ok_or(INVALID)?;
    match flat.bounds(count as u64)? {
        None => Ok((None, 0)),
        Some((size, low, high)) => Ok((Some(Region::new(at, low, high)?), size as usize)),
    }
}

type Touched = (Option<Region>, Option<Region>);

/// What a step reads and what it writes; an error if it names something that doesn't exist or is larger than memory.
fn touched(portable: &Portable, step: &Step) -> Result<Touched> {
    Ok(match *step {
        Step::Send { from, len, .. } => (bytes(from.addr(), len)?, None),
        Step::Recv { into, len, .. } => (None, bytes(into.addr(), len)?),
        Step::SendItems { from, count, datatype, .. } => (items(portable, from.addr(), count, datatype)?.0, None),
        Step::RecvItems { into, count, datatype, .. } => (None, items(portable, into.addr(), count, datatype)?.0),
        Step::Move { from, into, len } => (bytes(from.addr(), len)?, bytes(into.addr(), len)?),
        Step::Convert { from, from_count, from_type, into, into_count, into_type } => {
            let from = items(portable, from.addr(), from_count, from_type)?.0;
            (from, items(portable, into.addr(), into_count, into_type)?.0)
        }
        Step::Pack { from, count, datatype, into } => {
            let (from, len) = items(portable, from.addr(), count, datatype)?;
            (from, bytes(into.addr(), len)?)
        }
        Step::Unpack { from, into, count, datatype } => {
            let (into, len) = items(portable, into.addr(), count, datatype)?;
            (bytes(from.addr(), len)?, into)
        }
        Step::Reduce { input, inout, count } => match portable.operation {
            Operation::None => return Err(INVALID),
            // Only the owner runs it, and knows how large its items are.
            Operation::OnlyInOwner => (None, None),
            Operation::Predefined(_, builtin) => {
                let len = count.checked_mul(builtin.extent()).ok_or(INVALID)?;
                (bytes(input.addr(), len)?, bytes(inout.addr(), len)?)
            }
        },
        Step::Await(_) | Step::Fence => (None, None),
    })
}

/// The regions of all steps, those that touch or overlap as one.
pub(super) fn of(portable: &Portable) -> Result<[Vec<Region>; 2]> {
    let mut lists: [Vec<Region>; 2] = Default::default();
    for step in &portable.schedule.steps {
        let (read, written) = touched(portable, step)?;
        lists[Access::Read as usize].extend(read);
        lists[Access::Write as usize].extend(written);
    }
    Ok(lists.map(merge))
}

fn merge(mut list: Vec<Region>) -> Vec<Region> {
    list.sort_unstable();
    list.dedup_by(|next, last| {
        let touch = next.from <= last.to;
        if touch {
            last.to = last.to.max(next.to);
        }
        touch
    });
    list
}

/// Whether regions ascend and lie apart.
pub(super) fn are_sorted(lists: &[Vec<Region>; 2]) -> bool {
    let apart = |list: &Vec<Region>| list.windows(2).all(|pair| pair[0].to < pair[1].from);
    lists.iter().all(|list| list.iter().all(|region| region.from < region.to) && apart(list))
}

/// What the step touches lies in the regions.
pub(super) fn check(portable: &Portable, step: &Step) -> Result {
    let (read, written) = touched(portable, step)?;
    let inside = |region: Option<Region>, list: &[Region]| {
        region.is_none_or(|region| {
            let after = list.partition_point(|other| other.from <= region.from);
            after > 0 && list[after - 1].contains(&region)
        })
    };
    let [reads, writes] = &portable.regions;
    if inside(read, reads) && inside(written, writes) { Ok(()) } else { Err(INVALID) }
}
