//! The Wait, Test and Request_get_status families (MPI-5.0, 3.7.3, 3.7.5, 3.7.6).
//!
//! Handles of finished requests become `MPI_REQUEST_NULL` in place; those of persistent requests stay. Null and inactive
//! requests are complete with the empty status, and are passed over by the any and some forms. The places of requests and
//! statuses are the program's: how a value lies there, the ABI knows.

use super::{Ended, REQUESTS, UnderWay, end, end_message, end_short, under_way, unknown, wait_for_first};
use crate::cs::Section;
use crate::handle::Handle;
use crate::progress::{self, Awaited, Requests};
use crate::status::{Place, Status};
use base::{Class, Error, Result};
use protocol::engine::OpId;

/// A place of the program that holds a request.
pub trait Holder {
    /// The request, `None` for `MPI_REQUEST_NULL`.
    fn request(&self) -> Option<Handle>;
    /// Makes it `MPI_REQUEST_NULL`.
    fn clear(&mut self);
}

/// Where Rust code keeps one.
impl Holder for Option<Handle> {
    fn request(&self) -> Option<Handle> {
        *self
    }

    fn clear(&mut self) {
        *self = None;
    }
}

impl<R: Holder> Requests for &[R] {
    fn each(&self, f: &mut dyn FnMut(Handle)) {
        self.iter().filter_map(Holder::request).for_each(f);
    }
    fn each_message(&self, cs: &Section, f: &mut dyn FnMut(Option<OpId>)) {
        self.each(&mut |handle| {
            f(match under_way(cs, handle) {
                UnderWay::Message(op) => Some(op),
                UnderWay::Nothing | UnderWay::Operation(_) => None,
            });
        });
    }
}

/// Where the statuses of several requests go; `None` for `MPI_STATUSES_IGNORE`.
pub type Statuses<'a, S> = Option<&'a mut [S]>;

const IN_STATUS: Error = Error::new(Class::ERR_IN_STATUS, "one of several requests failed");

/// How a null request ends.
const NOTHING: Ended = Ended { result: Ok(()), status: Status::EMPTY, freed: true };

/// Whether a request is live and active; an error for a handle that is neither live nor null.
#[inline]
fn is_active(cs: &Section, place: &impl Holder) -> Result<bool> {
    match place.request() {
        Some(handle) => REQUESTS.get(cs).with(handle, |r| r.is_active()).ok_or_else(unknown),
        None => Ok(false),
    }
}

#[inline]
fn is_complete(cs: &Section, place: &impl Holder) -> Result<bool> {
    match place.request() {
        Some(handle) => REQUESTS.get(cs).with(handle, |r| r.is_complete(cs)).ok_or_else(unknown),
        None => Ok(true),
    }
}

/// Takes the outcome of a complete request and clears its place.
#[inline]
fn take(cs: &mut Section, place: &mut impl Holder) -> Ended {
    let ended = place.request().map_or(NOTHING, |handle| end(cs, handle));
    if ended.freed {
        place.clear();
    }
    ended
}

/// As [`take`]; gives the status without touching its error field, which only the empty status of a null request sets.
#[inline]
fn finish(cs: &mut Section, place: &mut impl Holder, status: &mut impl Place) -> Result {
    if place.request().is_none() {
        status.set_error(Class::SUCCESS);
    }
    let ended = take(cs, place);
    status.set(&ended.status);
    ended.result
}

/// The empty status, of no request.
fn set_empty(status: &mut impl Place) {
    status.set(&Status::EMPTY);
    status.set_error(Class::SUCCESS);
}

/// `MPI_Wait`.
#[inline]
pub fn wait(cs: &mut Section, place: &mut impl Holder, status: &mut impl Place) -> Result {
    let Some(first) = place.request() else {
        set_empty(status);
        return Ok(());
    };
    if let Some(found) = end_short(cs, first) {
        place.clear();
        status.set(&found);
        return Ok(());
    }
    let ended = wait_and_take(cs, std::slice::from_mut(place))?;
    status.set(&ended.status);
    ended.result
}

/// `MPI_Test`: whether it was complete.
pub fn test(cs: &mut Section, place: &mut impl Holder, status: &mut impl Place) -> Result<bool> {
    if !is_complete(cs, place)? {
        progress::poll_some(cs);
        if !is_complete(cs, place)? {
            return Ok(false);
        }
    }
    finish(cs, place, status).map(|()| true)
}

/// Finishes the requests at `indices`; `statuses[k]` belongs to the k-th of them.
fn finish_all<S: Place>(
    cs: &mut Section,
    places: &mut [impl Holder],
    indices: impl Iterator<Item = usize> + Clone,
    mut statuses: Statuses<'_, S>,
) -> Result {
    let mut failed = false;
    for (k, i) in indices.enumerate() {
        tell(&take(cs, &mut places[i]), k, &mut statuses, &mut failed);
    }
    if failed { Err(IN_STATUS) } else { Ok(()) }
}

/// Tells of a request that has ended and whose status is the `k`-th one. From the first failure on every status tells its error.
#[inline]
fn tell<S: Place>(ended: &Ended, k: usize, statuses: &mut Statuses<'_, S>, failed: &mut bool) {
    let first_failure = ended.result.is_err() && !std::mem::replace(failed, true);
    let Some(statuses) = statuses.as_deref_mut() else { return };
    if first_failure {
        statuses[..k].iter_mut().for_each(|status| status.set_error(Class::SUCCESS));
    }
    let status = &mut statuses[k];
    status.set(&ended.status);
    match ended.result {
        Err(error) => status.set_error(error.class),
        Ok(()) if *failed => status.set_error(Class::SUCCESS),
        Ok(()) => {}
    }
}

/// Takes the outcome of the first of `places` once it is complete; the caller waits for all of them.
#[inline(never)]
fn wait_and_take(cs: &mut Section, places: &mut [impl Holder]) -> Result<Ended> {
    if let Some(first) = places[0].request() {
        if let Some(ended) = end_message(cs, first) {
            if ended.freed {
                places[0].clear();
            }
            return Ok(ended);
        }
        wait_for_first(cs, first, &&*places)?;
    }
    Ok(take(cs, &mut places[0]))
}

/// `MPI_Waitall`.
pub fn waitall<S: Place>(cs: &mut Section, places: &mut [impl Holder], mut statuses: Statuses<'_, S>) -> Result {
    for place in places.iter() {
        is_active(cs, place)?;
    }
    let mut failed = false;
    for at in 0..places.len() {
        if let Some(status) = places[at].request().and_then(|handle| end_short(cs, handle)) {
            places[at].clear();
            if statuses.is_some() {
                tell(&Ended { result: Ok(()), status, freed: true }, at, &mut statuses, &mut failed);
            }
            continue;
        }
        let ended = wait_and_take(cs, &mut places[at..])?;
        tell(&ended, at, &mut statuses, &mut failed);
    }
    if failed { Err(IN_STATUS) } else { Ok(()) }
}

fn all_complete(cs: &Section, places: &[impl Holder]) -> Result<bool> {
    for place in places {
        if !is_complete(cs, place)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `MPI_Testall`.
pub fn testall<S: Place>(cs: &mut Section, places: &mut [impl Holder], statuses: Statuses<'_, S>) -> Result<bool> {
    if !all_complete(cs, places)? {
        progress::poll_some(cs);
        if !all_complete(cs, places)? {
            return Ok(false);
        }
    }
    finish_all(cs, places, 0..places.len(), statuses).map(|()| true)
}

/// What the any and some forms see: nothing to wait for, nothing complete, or the first complete request.
enum Sight {
    NoneActive,
    NoneComplete,
    Complete(usize),
}

fn look(cs: &Section, places: &[impl Holder]) -> Result<Sight> {
    let mut sight = Sight::NoneActive;
    for (i, place) in places.iter().enumerate() {
        if is_active(cs, place)? {
            if is_complete(cs, place)? {
                return Ok(Sight::Complete(i));
            }
            sight = Sight::NoneComplete;
        }
    }
    Ok(sight)
}

fn look_until_complete(cs: &mut Section, places: &[impl Holder]) -> Result<Sight> {
    let mut sight = look(cs, places);
    progress::wait_for(cs, Awaited::Any(&places), |cs| {
        if matches!(sight, Ok(Sight::NoneComplete)) {
            sight = look(cs, places);
        }
        !matches!(sight, Ok(Sight::NoneComplete))
    });
    sight
}

fn look_twice(cs: &mut Section, places: &[impl Holder]) -> Result<Sight> {
    match look(cs, places)? {
        Sight::NoneComplete => {
            progress::poll_some(cs);
            look(cs, places)
        }
        sight => Ok(sight),
    }
}

/// `MPI_Waitany`: the index of the request that ended, also by an error, goes to `ended`: `None` if there is no active one.
pub fn waitany(
    cs: &mut Section,
    places: &mut [impl Holder],
    status: &mut impl Place,
    ended: &mut Option<usize>,
) -> Result {
    match look_until_complete(cs, places)? {
        Sight::Complete(i) => {
            *ended = Some(i);
            finish(cs, &mut places[i], status)
        }
        _ => {
            *ended = None;
            set_empty(status);
            Ok(())
        }
    }
}

/// `MPI_Testany`: `ended` is `None` if active requests exist and none is complete; else as [`waitany`].
pub fn testany(
    cs: &mut Section,
    places: &mut [impl Holder],
    status: &mut impl Place,
    ended: &mut Option<Option<usize>>,
) -> Result {
    match look_twice(cs, places)? {
        Sight::Complete(i) => {
            *ended = Some(Some(i));
            finish(cs, &mut places[i], status)?;
        }
        Sight::NoneComplete => *ended = None,
        Sight::NoneActive => {
            *ended = Some(None);
            set_empty(status);
        }
    }
    Ok(())
}

/// Ends every complete active request, their indices go to `indices`; how many there were.
fn finish_some(
    cs: &mut Section,
    places: &mut [impl Holder],
    indices: &mut [i32],
    statuses: Statuses<'_, impl Place>,
) -> Result<usize> {
    let mut found = 0;
    for (i, place) in places.iter().enumerate() {
        if is_active(cs, place)? && is_complete(cs, place)? {
            indices[found] = i as i32;
            found += 1;
        }
    }
    finish_all(cs, places, indices[..found].iter().map(|&i| i as usize), statuses).map(|()| found)
}

/// `MPI_Waitsome`: how many ended, `None` if there is no active request. On `ERR_IN_STATUS` the count is in `ended`.
pub fn waitsome(
    cs: &mut Section,
    places: &mut [impl Holder],
    indices: &mut [i32],
    statuses: Statuses<'_, impl Place>,
    ended: &mut Option<usize>,
) -> Result {
    let sight = look_until_complete(cs, places)?;
    some(cs, sight, places, indices, statuses, ended)
}

/// `MPI_Testsome`, as [`waitsome`].
pub fn testsome(
    cs: &mut Section,
    places: &mut [impl Holder],
    indices: &mut [i32],
    statuses: Statuses<'_, impl Place>,
    ended: &mut Option<usize>,
) -> Result {
    let sight = look_twice(cs, places)?;
    some(cs, sight, places, indices, statuses, ended)
}

fn some(
    cs: &mut Section,
    sight: Sight,
    places: &mut [impl Holder],
    indices: &mut [i32],
    statuses: Statuses<'_, impl Place>,
    ended: &mut Option<usize>,
) -> Result {
    match sight {
        Sight::NoneActive => *ended = None,
        Sight::NoneComplete => *ended = Some(0),
        Sight::Complete(_) => {
            let complete =
                places.iter().filter(|&h| matches!((is_active(cs, h), is_complete(cs, h)), (Ok(true), Ok(true))));
            *ended = Some(complete.count());
            finish_some(cs, places, indices, statuses)?;
        }
    }
    Ok(())
}

/// What `MPI_Request_get_status` tells of one request without ending it.
fn peek(cs: &mut Section, place: &impl Holder, status: &mut impl Place) -> Result {
    match place.request() {
        Some(handle) => status.set(&super::peek(cs, handle)?),
        None => set_empty(status),
    }
    Ok(())
}

/// The status of a complete request, the empty one of none.
fn known_status(cs: &mut Section, place: &impl Holder) -> Result<Status> {
    place.request().map_or(Ok(Status::EMPTY), |handle| super::peek(cs, handle))
}

/// `MPI_Request_get_status`.
pub fn get_status(cs: &mut Section, place: &impl Holder, status: &mut impl Place) -> Result<bool> {
    if !is_complete(cs, place)? {
        progress::poll_some(cs);
        if !is_complete(cs, place)? {
            return Ok(false);
        }
    }
    peek(cs, place, status).map(|()| true)
}

/// `MPI_Request_get_status_any`, as [`testany`].
pub fn get_status_any(
    cs: &mut Section,
    places: &[impl Holder],
    status: &mut impl Place,
) -> Result<Option<Option<usize>>> {
    match look_twice(cs, places)? {
        Sight::Complete(i) => peek(cs, &places[i], status).map(|()| Some(Some(i))),
        Sight::NoneComplete => Ok(None),
        Sight::NoneActive => {
            set_empty(status);
            Ok(Some(None))
        }
    }
}

/// `MPI_Request_get_status_all`.
pub fn get_status_all(
    cs: &mut Section,
    places: &[impl Holder],
    mut statuses: Statuses<'_, impl Place>,
) -> Result<bool> {
    progress::poll_some(cs);
    if !all_complete(cs, places)? {
        return Ok(false);
    }
    for (i, place) in places.iter().enumerate() {
        let status = known_status(cs, place)?;
        if let Some(statuses) = statuses.as_deref_mut() {
            statuses[i].set(&status);
        }
    }
    Ok(true)
}

/// `MPI_Request_get_status_some`: how many are complete, `None` if there is no active request.
pub fn get_status_some(
    cs: &mut Section,
    places: &[impl Holder],
    indices: &mut [i32],
    mut statuses: Statuses<'_, impl Place>,
) -> Result<Option<usize>> {
    match look_twice(cs, places)? {
        Sight::NoneActive => return Ok(None),
        Sight::NoneComplete => return Ok(Some(0)),
        Sight::Complete(_) => {}
    }
    let mut found = 0;
    for (i, place) in places.iter().enumerate() {
        if is_active(cs, place)? && is_complete(cs, place)? {
            let status = known_status(cs, place)?;
            if let Some(statuses) = statuses.as_deref_mut() {
                statuses[found].set(&status);
            }
            indices[found] = i as i32;
            found += 1;
        }
    }
    Ok(Some(found))
}
