//! Which bytes a call names at its target, and how they are reached.

use super::epoch::{Held, Needs};
use super::memory::{self, Words, words_of};
use super::regions::Table;
use super::{Flavor, Window, passive};
use crate::cs::Section;
use crate::datatype::{self, Datatype};
use crate::status::PROC_NULL;
use crate::{engine, progress};
use base::{Class, Error, Result, ensure};
use channel::transports;
use protocol::memory::Key;
use std::rc::Rc;
use sys::mem::Mapping;

/// Items of this process.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// First item.
    pub buf: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Type of the items.
    pub datatype: &'a Rc<Datatype>,
}

impl Local<'_> {
    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// The data, packed.
    ///
    /// # Safety
    /// The items are readable.
    pub unsafe fn pack(&self) -> Vec<u8> {
        let mut packed = vec![0; self.bytes()];
        // SAFETY: by the caller; the vector has as many bytes as the items.
        unsafe { datatype::pack(self.datatype, self.buf, self.count, 0, packed.as_mut_ptr(), packed.len()) };
        packed
    }

    /// Fills the items with packed data, or as many of them as there are.
    ///
    /// # Safety
    /// The items are writable.
    pub unsafe fn unpack(&self, packed: &[u8]) {
        let len = packed.len().min(self.bytes());
        // SAFETY: by the caller; no more bytes than the items have.
        unsafe { datatype::unpack(self.datatype, self.buf, self.count, 0, packed.as_ptr(), len) };
    }
}

/// Items of a target.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// Rank in the group of the window, or `PROC_NULL`.
    pub rank: i32,
    /// Displacement in the target's units.
    pub disp: i64,
    /// Number of items.
    pub count: usize,
    /// Type of the items.
    pub datatype: &'a Rc<Datatype>,
}

/// Where the items are, once the call may have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub rank: usize,
    /// Bytes from the beginning of the target's memory; in a dynamic window the address.
    pub at: i64,
}

const OUTSIDE: Error = Error::new(Class::ERR_RMA_RANGE, "the items are not all inside of the target's window");

/// Bytes between the first and the last byte of the items, relative to the first item; none without data.
fn span(count: usize, datatype: &Datatype) -> Option<(i128, i128)> {
    if count == 0 || datatype.size() == 0 {
        return None;
    }
    let last = (count as i128 - 1) * datatype.extent() as i128;
    let low = datatype.true_lb() as i128;
    Some((low + last.min(0), low + datatype.true_extent() as i128 + last.max(0)))
}

impl Window {
    /// The rank of a target; `ERR_RANK` if there is none.
    pub(super) fn rank(&self, rank: i32) -> Result<usize> {
        let rank = usize::try_from(rank).ok().filter(|rank| *rank < self.targets.len());
        rank.ok_or(Error::new(Class::ERR_RANK, "the target is not in the group of the window"))
    }

    /// Where the target's items are; `None` for `PROC_NULL`. From then on the call may access them.
    pub(super) fn begin(self: &Rc<Window>, cs: &mut Section, to: &Remote<'_>) -> Result<Option<Place>> {
        if to.rank == PROC_NULL {
            return Ok(None);
        }
        let rank = self.rank(to.rank)?;
        let target = &self.targets[rank];
        to.datatype.bytes(to.count)?;
        let at = match self.flavor {
            Flavor::Dynamic => to.disp,
            _ => {
                ensure!(to.disp >= 0, ERR_DISP, "the displacement is negative");
                to.disp.checked_mul(target.disp_unit as i64).ok_or(OUTSIDE)?
            }
        };
        if let Some((low, high)) = span(to.count, to.datatype).filter(|_| self.flavor != Flavor::Dynamic) {
            let at = i128::from(at);
            ensure!(at + low >= 0 && at + high <= target.size as i128, ERR_RMA_RANGE, OUTSIDE.origin);
        }
        let needs = self.epochs.borrow_mut().access(rank)?;
        if needs == Needs::Lock {
            passive::take(cs, self, rank, false)?;
            self.epochs.borrow_mut().locked(rank, Held::Shared);
        }
        self.throttle(cs, rank);
        Ok(Some(Place { rank, at }))
    }

    /// A target's part, mapped here.
    pub(super) fn near(&self, cs: &mut Section, rank: usize) -> Option<&Mapping> {
        let target = &self.targets[rank];
        if target.near.get().is_none() {
            let mapped = target.part.and_then(|part| memory::map(cs, target.peer, part));
            // Another thread may have been faster.
            let _ = target.near.set(mapped);
        }
        target.near.get().and_then(Option::as_ref)
    }

    /// The words of a target, if this process can use them itself. They are valid as long as the window is not freed.
    pub(super) fn words(&self, cs: &mut Section, rank: usize) -> Option<&Words> {
        let words = match rank == self.me() {
            true => self.own.borrow().words(),
            false => words_of(self.near(cs, rank)?),
        };
        // SAFETY: parts and boxes hold words at their beginning, until the window is freed, which no call on it outlives.
        Some(unsafe { &*words })
    }

    /// The address of the target's bytes `at`, if they are memory of this process or mapped here.
    pub(super) fn direct(&self, cs: &mut Section, place: Place) -> Option<*mut u8> {
        let Place { rank, at } = place;
        let base = match self.flavor {
            _ if rank == self.me() => self.base,
            Flavor::Allocate => memory::data_of(self.near(cs, rank)?),
            Flavor::Shared => self.shared_base(cs, rank)?,
            Flavor::Create | Flavor::Dynamic => return None,
        };
        Some(base.wrapping_offset(at as isize))
    }

    /// The memory of a rank of a shared window: all of it was allocated by rank 0.
    pub(super) fn shared_base(&self, cs: &mut Section, rank: usize) -> Option<*mut u8> {
        let data = match self.me() == 0 {
            true => self.own.borrow().data(),
            false => memory::data_of(self.near(cs, 0)?),
        };
        Some(data.wrapping_add(self.targets[rank].offset))
    }

    /// Whether this process reads and writes the target's registered memory without the target.
    pub(super) fn is_reached_by_key(&self, cs: &Section, rank: usize) -> bool {
        let verbs = engine::with(cs, |engine| transports::verbs(engine.endpoints(), self.targets[rank].peer));
        verbs.put && verbs.get
    }

    /// The key of the target's registered memory that has all the items, and where in it they are. In a dynamic window there is none if the target must be
    /// asked: because it isn't reached otherwise, what it has attached isn't known here, or questions are under way, behind which the access has to stay.
    pub(super) fn keyed(&self, cs: &mut Section, place: Place, to: &Remote<'_>) -> Option<(Place, Key)> {
        let rank = place.rank;
        if self.flavor != Flavor::Dynamic {
            return self.targets[rank].key.map(|key| (place, key));
        }
        let (low, high) = span(to.count, to.datatype)?;
        let table = memory::data_of(self.near(cs, rank)?).cast::<Table>();
        if !self.is_reached_by_key(cs, rank) || !self.is_quiet(cs, Some(rank)) {
            return None;
        }
        let at = i128::from(place.at);
        // SAFETY: each rank's part of a dynamic window has a table, which stays mapped until the window is freed; all of it is atomic.
        let region = unsafe { &*table }.find(at + low, at + high)?;
        Some((Place { rank, at: place.at.wrapping_sub(region.start as i64) }, region.key))
    }

    /// Whether `low .. high` of this process's memory may be accessed; the address of byte 0.
    pub(super) fn own_memory(&self, low: i128, high: i128) -> Result<*mut u8> {
        let fits = match self.flavor {
            Flavor::Dynamic => {
                let attached = self.attached.borrow();
                let first = usize::try_from(low).ok().and_then(|low| attached.range(..=low).next_back());
                first.is_some_and(|(start, _)| {
                    // Regions that touch are one piece of memory.
                    let mut end = *start as i128;
                    for (next, (len, _)) in attached.range(start..) {
                        if end >= high || *next as i128 > end {
                            break;
                        }
                        end = *next as i128 + *len as i128;
                    }
                    high <= end && low >= *start as i128
                })
            }
            _ => low >= 0 && high <= self.size as i128,
        };
        ensure!(fits, ERR_RMA_RANGE, OUTSIDE.origin);
        Ok(self.base)
    }

    /// Waits until what lanes have done at a target is visible there.
    pub(super) fn flush(&self, cs: &mut Section, rank: usize) {
        let flush = engine::with(cs, |engine| engine.post_flush(self.targets[rank].peer));
        let mut outcome = None;
        progress::wait_until(cs, |cs| {
            outcome = engine::with(cs, |engine| engine.take_access(flush));
            outcome.is_some()
        });
        if let Some(Err(error)) = outcome {
            self.fail(error);
        }
    }

    /// Checks items of this process's own dynamic window.
    pub(super) fn check_own(&self, place: Place, to: &Remote<'_>) -> Result {
        let Some((low, high)) = span(to.count, to.datatype) else { return Ok(()) };
        if self.flavor == Flavor::Dynamic && place.rank == self.me() {
            self.own_memory(i128::from(place.at) + low, i128::from(place.at) + high)?;
        }
        Ok(())
    }
}
