//! Put and get (MPI-5.0, 12.3.1, 12.3.2).

use super::message::{Ask, Message};
use super::server::{Access, Accessed, Items};
use super::target::{Local, Place, Remote};
use super::{Flavor, Window};
use crate::cs::Section;
use crate::datatype;
use crate::engine;
use crate::p2p::transfer::{sink, source};
use crate::profile;
use base::{Result, ensure};
use channel::buffer::{RecvBuf, SendBuf};
use std::rc::Rc;

/// The bytes of both sides are the same (12.3.1: the message must fit, and the types must match).
fn check_sizes(local: &Local<'_>, to: &Remote<'_>) -> Result {
    ensure!(
        local.datatype.bytes(local.count)? == to.datatype.bytes(to.count)?,
        ERR_TRUNCATE,
        "origin and target differ in size"
    );
    Ok(())
}

/// `MPI_Put` and `MPI_Rput`.
///
/// # Safety
/// The items are readable until the access is complete.
pub unsafe fn put(
    cs: &mut Section,
    win: &Rc<Window>,
    from: &Local<'_>,
    to: &Remote<'_>,
    request: Option<&Rc<Accessed>>,
) -> Result<Moved> {
    let Some(place) = begin(cs, win, from, to)? else { return Ok(Moved::Now) };
    profile::access(cs, profile::Access::Put, win.targets[place.rank].peer, from.bytes());
    if let Some(address) = win.direct(cs, place) {
        win.check_own(place, to)?;
        // SAFETY: the items of the target were checked against its memory, those of the origin are the caller's.
        unsafe { datatype::copy(from.buf, from.count, from.datatype, address, to.count, to.datatype) };
        return Ok(Moved::Now);
    }
    let keyed = win.keyed(cs, place, to);
    if win.flavor == Flavor::Dynamic && keyed.is_none() {
        // SAFETY: by the caller.
        let data = unsafe { from.pack() };
        let message = Message { data, ..Message::new(Ask::Put, 0).to(place.at, to.count, to.datatype)? };
        win.ask(cs, place.rank, message, None, request.cloned())?;
        return Ok(Moved::Later);
    }
    let Some((place, key)) = keyed else { return Ok(Moved::Now) };
    let (target, runs, key) = (&win.targets[place.rank], runs_of(place, to), &key);
    let mut staged = Vec::new();
    let ids = match runs[..] {
        [(at, _)] => {
            // SAFETY: by the caller.
            let items = unsafe { source(from.buf, from.count, from.datatype) };
            vec![engine::with(cs, |engine| engine.post_put(target.peer, key, at as u64, items))]
        }
        _ => {
            // SAFETY: by the caller.
            staged = unsafe { from.pack() };
            let mut done = 0;
            let post = |&(at, len): &(usize, usize)| {
                // SAFETY: the vector lives until the access is complete; its bytes stay where they are when it moves.
                let piece = unsafe { SendBuf::contiguous(staged.as_ptr().wrapping_add(done), len) };
                done += len;
                engine::with(cs, |engine| engine.post_put(target.peer, key, at as u64, piece))
            };
            runs.iter().map(post).collect()
        }
    };
    let request = request.cloned();
    win.follow(cs, Access { rank: place.rank, ids, staged, items: None, request, result: Ok(()) });
    Ok(Moved::Later)
}

/// `MPI_Get` and `MPI_Rget`.
///
/// # Safety
/// The items are writable, and nobody else's, until the access is complete.
pub unsafe fn get(
    cs: &mut Section,
    win: &Rc<Window>,
    into: &Local<'_>,
    to: &Remote<'_>,
    request: Option<&Rc<Accessed>>,
) -> Result<Moved> {
    let Some(place) = begin(cs, win, into, to)? else { return Ok(Moved::Now) };
    profile::access(cs, profile::Access::Get, win.targets[place.rank].peer, into.bytes());
    if let Some(address) = win.direct(cs, place) {
        win.check_own(place, to)?;
        // SAFETY: as for `put`, the other way round.
        unsafe { datatype::copy(address, to.count, to.datatype, into.buf, into.count, into.datatype) };
        return Ok(Moved::Now);
    }
    let keyed = win.keyed(cs, place, to);
    if win.flavor == Flavor::Dynamic && keyed.is_none() {
        let message = Message::new(Ask::Get, 0).to(place.at, to.count, to.datatype)?;
        win.ask(cs, place.rank, message, Some(Items::of(into)), request.cloned())?;
        return Ok(Moved::Later);
    }
    let Some((place, key)) = keyed else { return Ok(Moved::Now) };
    let (target, runs, key) = (&win.targets[place.rank], runs_of(place, to), &key);
    let (mut staged, mut items) = (Vec::new(), None);
    let ids = match runs[..] {
        [(at, _)] => {
            // SAFETY: by the caller.
            let items = unsafe { sink(into.buf, into.count, into.datatype) };
            vec![engine::with(cs, |engine| engine.post_get(target.peer, key, at as u64, items))]
        }
        _ => {
            staged = vec![0; into.bytes()];
            items = Some(Items::of(into));
            let (base, mut done) = (staged.as_mut_ptr(), 0);
            let post = |&(at, len): &(usize, usize)| {
                // SAFETY: as for `put`; nobody else touches the vector until the access is complete.
                let piece = unsafe { RecvBuf::contiguous(base.wrapping_add(done), len) };
                done += len;
                engine::with(cs, |engine| engine.post_get(target.peer, key, at as u64, piece))
            };
            runs.iter().map(post).collect()
        }
    };
    let request = request.cloned();
    win.follow(cs, Access { rank: place.rank, ids, staged, items, request, result: Ok(()) });
    Ok(Moved::Later)
}

/// Whether an access was complete when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It was.
    Now,
    /// It will be.
    Later,
}

/// The request of a call, which `access` makes.
pub fn with_request(
    cs: &mut Section,
    win: &Rc<Window>,
    access: impl FnOnce(&mut Section, Option<&Rc<Accessed>>) -> Result<Moved>,
) -> Result<Rc<Accessed>> {
    win.epochs.borrow().request()?;
    let request = Accessed::pending();
    match access(cs, Some(&request))? {
        Moved::Now => Ok(Accessed::done()),
        Moved::Later => Ok(request),
    }
}

/// The place of a call that moves data; none if there is nothing to move.
fn begin(cs: &mut Section, win: &Rc<Window>, local: &Local<'_>, to: &Remote<'_>) -> Result<Option<Place>> {
    check_sizes(local, to)?;
    Ok(win.begin(cs, to)?.filter(|_| local.bytes() > 0))
}

/// Place and length of the runs of the target's items, in the order of their data.
pub(super) fn runs_of(place: Place, to: &Remote<'_>) -> Vec<(usize, usize)> {
    datatype::runs(to.datatype, place.at as usize, to.count)
}
