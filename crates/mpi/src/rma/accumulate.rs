//! Accumulates (MPI-5.0, 12.3.4): what is combined with the memory of a target, in one step for all others who do the same.
//!
//! Whoever accumulates in the memory of a rank has a word of that rank, which lies in memory shared with the ranks of its kernel: an origin that
//! reaches the memory itself, or the target on behalf of one that doesn't. So every call is atomic as a whole, and calls of one origin keep their order.

use super::Window;
use super::message::{Ask, Message};
use super::server::{Accessed, Items};
use super::target::{Local, Place, Remote};
use super::transfer::{Moved, runs_of};
use crate::cs::Section;
use crate::datatype::{self, Builtin, Datatype, Family};
use crate::op::{self, Op, Predefined};
use crate::{engine, profile, progress};
use base::{Class, Error, Result, ensure};
use channel::buffer::{RecvBuf, SendBuf};
use protocol::engine::one_sided::AccessId;
use protocol::memory::Key;
use std::rc::Rc;

/// What becomes of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// A predefined operation of the origin's data and the elements.
    Op(Predefined),
    /// The data are an element to compare with, and the one that replaces it.
    CompareSwap,
}

/// Whether there is such an operation on elements of a type.
pub fn check(fold: Fold, element: Builtin) -> Result {
    match fold {
        Fold::Op(which) => ensure!(op::is_defined(which, element), ERR_OP, "operation is not defined on this datatype"),
        Fold::CompareSwap => {
            use Family::{Byte, CInteger, FortranInteger, FortranLogical, Logical, MultiLanguage};
            let families = [Byte, CInteger, FortranInteger, FortranLogical, Logical, MultiLanguage];
            ensure!(
                families.contains(&element.family),
                ERR_TYPE,
                "only integers, logicals and bytes are compared and swapped"
            );
        }
    }
    Ok(())
}

/// What an accumulate combines: the origin's items, none for those that only read.
pub struct Combined<'a> {
    /// The items.
    pub from: Option<Local<'a>>,
    /// The operation.
    pub op: &'a Op,
    /// Where the elements before go.
    pub result: Option<Local<'a>>,
}

/// The basic type of all elements of both sides.
fn element_of(from: Option<&Local<'_>>, to: &Datatype) -> Result<Option<Builtin>> {
    const MIXED: Error = Error::new(Class::ERR_TYPE, "the datatype is not made of one predefined type");
    let of = |datatype: &Datatype| match datatype.size() {
        0 => Ok(None),
        _ => datatype.uniform_builtin().map(Some).ok_or(MIXED),
    };
    let element = of(to)?;
    if let (Some(local), Some(element)) = (from, element)
        && let Some(other) = of(local.datatype)?
    {
        let alike = (other.family, other.repr, other.index) == (element.family, element.repr, element.index);
        ensure!(alike, ERR_TYPE, "origin and target are made of different predefined types");
    }
    Ok(element)
}

/// `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op` and those with requests.
///
/// # Safety
/// The items of the origin are readable, those of the result writable and nobody else's, until the access is complete.
pub unsafe fn accumulate(
    cs: &mut Section,
    win: &Rc<Window>,
    what: &Combined<'_>,
    to: &Remote<'_>,
    request: Option<&Rc<Accessed>>,
) -> Result<Moved> {
    let Some(which) = what.op.which() else {
        return Err(Error::new(Class::ERR_OP, "only predefined operations accumulate"));
    };
    let from = what.from.as_ref().filter(|_| which != Predefined::NoOp);
    let bytes = to.datatype.bytes(to.count)?;
    // Of nothing any type and any operation are right.
    let element = if bytes > 0 { element_of(from, to.datatype)? } else { None };
    if let Some(element) = element {
        check(Fold::Op(which), element)?;
    }
    for local in from.into_iter().chain(&what.result) {
        ensure!(local.datatype.bytes(local.count)? == bytes, ERR_TRUNCATE, "origin, result and target differ in size");
    }
    let place = win.begin(cs, to)?;
    let (Some(place), Some(element)) = (place.filter(|_| bytes > 0), element) else { return Ok(Moved::Now) };
    // SAFETY: by the caller.
    let data = from.map_or_else(Vec::new, |local| unsafe { local.pack() });
    run(cs, win, (place, to), (Fold::Op(which), element), data, (what.result.as_ref(), request))
}

/// `MPI_Compare_and_swap`.
///
/// # Safety
/// `new` and `compare` are readable, and `result` is writable and nobody else's, for one element of the target's type, until the access is complete.
pub unsafe fn compare_and_swap(
    cs: &mut Section,
    win: &Rc<Window>,
    (new, compare, result): (*const u8, *const u8, *mut u8),
    to: &Remote<'_>,
) -> Result {
    let element = to.datatype.builtin().ok_or(Error::new(Class::ERR_TYPE, "the datatype is not a predefined one"))?;
    check(Fold::CompareSwap, element)?;
    let Some(place) = win.begin(cs, to)? else { return Ok(()) };
    let data = [compare, new].into_iter().flat_map(|from| {
        // SAFETY: one element, by the caller.
        unsafe { Local { buf: from.cast_mut(), count: 1, datatype: to.datatype }.pack() }
    });
    let result = Local { buf: result, count: 1, datatype: to.datatype };
    run(cs, win, (place, to), (Fold::CompareSwap, element), data.collect(), (Some(&result), None)).map(drop)
}

/// Combines `data` with the elements at a place, by the way that leads there.
fn run(
    cs: &mut Section,
    win: &Rc<Window>,
    (place, to): (Place, &Remote<'_>),
    (fold, element): (Fold, Builtin),
    data: Vec<u8>,
    (result, request): (Option<&Local<'_>>, Option<&Rc<Accessed>>),
) -> Result<Moved> {
    win.check_own(place, to)?;
    let bytes = to.datatype.bytes(to.count)?;
    profile::access(cs, profile::Access::Accumulate, win.targets[place.rank].peer, bytes);
    let address = win.direct(cs, place);
    // First the words: to find them opens the lane.
    let has_words = win.words(cs, place.rank).is_some();
    let keyed = match address {
        None if has_words && win.is_reached_by_key(cs, place.rank) => win.keyed(cs, place, to),
        _ => None,
    };
    if let Some(words) = win.words(cs, place.rank)
        && (address.is_some() || keyed.is_some())
    {
        let (me, mut taken) = (win.me(), false);
        progress::wait_for_memory(cs, |cs| {
            taken = words.try_accumulate(me);
            taken || words.accumulator().is_some_and(|rank| win.is_lost(cs, rank))
        });
        if !taken {
            return Err(win.lost(cs));
        }
        let before = match (address, keyed) {
            (Some(address), _) => {
                let runs = datatype::runs(to.datatype, address as usize, to.count);
                // SAFETY: the place was checked against the target's memory, which is mapped here.
                Ok(unsafe { fold_memory(cs, &runs, element, fold, &data, result.is_some()) })
            }
            (None, Some((place, key))) => {
                let folded = fold_by_key(cs, (win, place.rank, key), &runs_of(place, to), element, fold, &data);
                win.after_losses(cs, folded)
            }
            (None, None) => Ok(Vec::new()),
        };
        words.end_accumulate();
        if let (Ok(before), Some(result)) = (&before, result) {
            // SAFETY: the items of the result are the caller's until the access is complete.
            unsafe { result.unpack(before) };
        }
        return before.map(|_| Moved::Now);
    }
    let (ask, op) = match fold {
        Fold::Op(which) => (Ask::Accumulate, which),
        Fold::CompareSwap => (Ask::CompareSwap, Predefined::NoOp),
    };
    let message = Message::new(ask, 0).to(place.at, to.count, to.datatype)?;
    let message = Message { op, element: element.which, flag: i64::from(result.is_some()), data, ..message };
    win.ask(cs, place.rank, message, result.map(Items::of), request.cloned())?;
    Ok(Moved::Later)
}

/// The elements afterwards.
fn combine(cs: &mut Section, element: Builtin, fold: Fold, data: &[u8], before: &[u8]) -> Vec<u8> {
    let which = match fold {
        Fold::Op(which) => which,
        Fold::CompareSwap => {
            let (compare, new) = data.split_at(element.size());
            return if compare == before { new.to_vec() } else { before.to_vec() };
        }
    };
    match which {
        Predefined::NoOp => return before.to_vec(),
        Predefined::Replace => return data.to_vec(),
        _ => {}
    }
    let datatype = datatype::predefined(element.which);
    let count = before.len() / element.size();
    let op = op::predefined(which);
    let mut after = before.to_vec();
    if element.size() == element.extent() {
        // SAFETY: both have `count` elements, and the operation is defined on them.
        unsafe { op.apply(cs, data.as_ptr(), after.as_mut_ptr(), count, datatype) };
        return after;
    }
    // Pairs with gaps: as the program has them.
    let mut items = [vec![0u8; count * element.extent()], vec![0u8; count * element.extent()]];
    for (items, packed) in items.iter_mut().zip([data, before]) {
        // SAFETY: there is room for `count` items, which have as many bytes of data as are there.
        unsafe { datatype::unpack(datatype, items.as_mut_ptr(), count, 0, packed.as_ptr(), packed.len()) };
    }
    let [input, mut inout] = items;
    // SAFETY: as above, of items.
    unsafe {
        op.apply(cs, input.as_ptr(), inout.as_mut_ptr(), count, datatype);
        datatype::pack(datatype, inout.as_ptr(), count, 0, after.as_mut_ptr(), after.len());
    }
    after
}

/// Copies runs of memory, one after the other.
///
/// # Safety
/// They are readable.
pub unsafe fn gather(runs: &[(usize, usize)]) -> Vec<u8> {
    let mut packed = vec![0; runs.iter().map(|(_, len)| len).sum()];
    let mut done = 0;
    for &(at, len) in runs {
        // SAFETY: by the caller; the vector has room for all runs.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(at),
                packed.as_mut_ptr().add(done),
                len,
            )
        };
        done += len;
    }
    packed
}

/// Copies to runs of memory, one after the other.
///
/// # Safety
/// They are writable, and together as long as `packed`.
pub unsafe fn scatter(runs: &[(usize, usize)], packed: &[u8]) {
    let mut done = 0;
    for &(at, len) in runs {
        // SAFETY: by the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(
                packed.as_ptr().add(done),
                std::ptr::with_exposed_provenance_mut::<u8>(at),
                len,
            )
        };
        done += len;
    }
}

/// Combines data with the elements in runs of memory; the elements before, if they are wanted.
///
/// # Safety
/// The runs are readable and writable, and hold whole elements; the data has the size that the operation needs. Nobody else accumulates there.
pub unsafe fn fold_memory(
    cs: &mut Section,
    runs: &[(usize, usize)],
    element: Builtin,
    fold: Fold,
    data: &[u8],
    wants_before: bool,
) -> Vec<u8> {
    if let (&[(at, len)], Fold::Op(which), false) = (runs, fold, wants_before)
        && element.size() == element.extent()
        && which != Predefined::NoOp
    {
        // In place: one pass over the memory.
        let to = std::ptr::with_exposed_provenance_mut(at);
        let datatype = datatype::predefined(element.which);
        // SAFETY: by the caller; the operation is defined on the elements, and the data are not in the window.
        unsafe { op::predefined(which).apply(cs, data.as_ptr(), to, len / element.size(), datatype) };
        return Vec::new();
    }
    // SAFETY: by the caller.
    let before = unsafe { gather(runs) };
    if fold != Fold::Op(Predefined::NoOp) {
        let after = combine(cs, element, fold, data, &before);
        // SAFETY: by the caller; as many bytes as were gathered.
        unsafe { scatter(runs, &after) };
    }
    before
}

/// The same in registered memory of a target.
fn fold_by_key(
    cs: &mut Section,
    (win, rank, key): (&Window, usize, Key),
    runs: &[(usize, usize)],
    element: Builtin,
    fold: Fold,
    data: &[u8],
) -> Result<Vec<u8>> {
    let (target, key) = (&win.targets[rank], &key);
    let mut before = vec![0u8; runs.iter().map(|(_, len)| len).sum()];
    let (base, mut done) = (before.as_mut_ptr(), 0);
    for &(at, len) in runs {
        // SAFETY: a part of the vector, which nobody else touches until the access is complete.
        let piece = unsafe { RecvBuf::contiguous(base.wrapping_add(done), len) };
        let id = engine::with(cs, |engine| engine.post_get(target.peer, key, at as u64, piece));
        finish(cs, id)?;
        done += len;
    }
    if fold != Fold::Op(Predefined::NoOp) {
        let after = combine(cs, element, fold, data, &before);
        let mut done = 0;
        for &(at, len) in runs {
            // SAFETY: a part of the vector, which lives until the access is complete.
            let piece = unsafe { SendBuf::contiguous(after.as_ptr().wrapping_add(done), len) };
            let id = engine::with(cs, |engine| engine.post_put(target.peer, key, at as u64, piece));
            finish(cs, id)?;
            done += len;
        }
    }
    Ok(before)
}

/// Waits for an access. Whoever has the word of a target may poll meanwhile: a service never waits for a word.
fn finish(cs: &mut Section, id: AccessId) -> Result {
    let mut outcome = None;
    progress::wait_until(cs, |cs| {
        outcome = engine::with(cs, |engine| engine.take_access(id));
        outcome.is_some()
    });
    outcome.map_or(Ok(()), |outcome| outcome.map(drop))
}
