//! The Wait, Test and Request_get_status families (MPI-5.0, 3.7.3, 3.7.5, 3.7.6).
//!
//! Handles of finished requests become `MPI_REQUEST_NULL` in place; those of persistent requests stay. Null and inactive
//! requests are complete with the empty status, and are passed over by the any and some forms.

use super::{Ended, REQUEST_NULL, REQUESTS, end, end_message, unknown, wait_for_first};
use crate::handle::Handle;
use crate::progress::{self, Awaited};
use crate::status::Status;
use base::{Class, Error, Result};

/// Where the statuses of several requests go; `None` for `MPI_STATUSES_IGNORE`.
pub type Statuses<'a> = Option<&'a mut [Status]>;

const IN_STATUS: Error = Error::new(Class::ERR_IN_STATUS, "one of several requests failed");

/// How a null request ends.
const NOTHING: Ended = Ended { result: Ok(()), status: Status::EMPTY, freed: true };

/// Whether a request is live and active; an error for a handle that is neither live nor null.
#[inline]
fn is_active(handle: Handle) -> Result<bool> {
    if handle == REQUEST_NULL {
        return Ok(false);
    }
    REQUESTS.with(handle, |r| r.is_active()).ok_or_else(unknown)
}

#[inline]
fn is_complete(handle: Handle) -> Result<bool> {
    if handle == REQUEST_NULL {
        return Ok(true);
    }
    REQUESTS.with(handle, |r| r.is_complete()).ok_or_else(unknown)
}

/// Takes the outcome of a complete request and clears the handle.
#[inline]
fn take(handle: &mut Handle) -> Ended {
    let ended = match *handle {
        REQUEST_NULL => NOTHING,
        live => end(live),
    };
    if ended.freed {
        *handle = REQUEST_NULL;
    }
    ended
}

/// As [`take`]; gives the status without touching its error field, which only the empty status of a null request sets.
#[inline]
fn finish(handle: &mut Handle, status: &mut Status) -> Result {
    let error = if *handle == REQUEST_NULL { Class::SUCCESS.0 } else { status.error };
    let ended = take(handle);
    *status = Status { error, ..ended.status };
    ended.result
}

/// `MPI_Wait`.
#[inline]
pub fn wait(handle: &mut Handle, status: &mut Status) -> Result {
    let error = if *handle == REQUEST_NULL { Class::SUCCESS.0 } else { status.error };
    let ended = take_first(std::slice::from_mut(handle))?;
    *status = Status { error, ..ended.status };
    ended.result
}

/// `MPI_Test`: whether it was complete.
pub fn test(handle: &mut Handle, status: &mut Status) -> Result<bool> {
    if !is_complete(*handle)? {
        progress::poll_some();
        if !is_complete(*handle)? {
            return Ok(false);
        }
    }
    finish(handle, status).map(|()| true)
}

/// Finishes the requests at `indices`; `statuses[k]` belongs to the k-th of them.
fn finish_all(
    handles: &mut [Handle],
    indices: impl Iterator<Item = usize> + Clone,
    mut statuses: Statuses<'_>,
) -> Result {
    let mut failed = false;
    for (k, i) in indices.enumerate() {
        tell(&take(&mut handles[i]), k, &mut statuses, &mut failed);
    }
    if failed { Err(IN_STATUS) } else { Ok(()) }
}

/// Tells of a request that has ended and whose status is the `k`-th one. From the first failure on every status tells its error.
#[inline]
fn tell(ended: &Ended, k: usize, statuses: &mut Statuses<'_>, failed: &mut bool) {
    let first_failure = ended.result.is_err() && !std::mem::replace(failed, true);
    let Some(statuses) = statuses.as_deref_mut() else { return };
    if first_failure {
        statuses[..k].iter_mut().for_each(|s| s.error = Class::SUCCESS.0);
    }
    let error = match ended.result {
        Err(error) => error.class.0,
        Ok(()) if *failed => Class::SUCCESS.0,
        Ok(()) => statuses[k].error,
    };
    statuses[k] = Status { error, ..ended.status };
}

/// Takes the outcome of the first of `handles` once it is complete; the caller waits for all of them.
#[inline(always)]
fn take_first(handles: &mut [Handle]) -> Result<Ended> {
    match end_message(handles[0]) {
        Some(ended) => {
            handles[0] = REQUEST_NULL;
            Ok(ended)
        }
        None => wait_and_take(handles),
    }
}

/// [`take_first`] of what isn't just a message, or not complete yet.
#[inline(never)]
fn wait_and_take(handles: &mut [Handle]) -> Result<Ended> {
    if handles[0] != REQUEST_NULL {
        wait_for_first(handles)?;
    }
    Ok(take(&mut handles[0]))
}

/// `MPI_Waitall`.
pub fn waitall(handles: &mut [Handle], mut statuses: Statuses<'_>) -> Result {
    for &handle in handles.iter() {
        is_active(handle)?;
    }
    let mut failed = false;
    for at in 0..handles.len() {
        let ended = take_first(&mut handles[at..])?;
        tell(&ended, at, &mut statuses, &mut failed);
    }
    if failed { Err(IN_STATUS) } else { Ok(()) }
}

/// `MPI_Testall`.
pub fn testall(handles: &mut [Handle], statuses: Statuses<'_>) -> Result<bool> {
    let all = |handles: &[Handle]| -> Result<bool> {
        for &handle in handles {
            if !is_complete(handle)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if !all(handles)? {
        progress::poll_some();
        if !all(handles)? {
            return Ok(false);
        }
    }
    finish_all(handles, 0..handles.len(), statuses).map(|()| true)
}

/// What the any and some forms see: nothing to wait for, nothing complete, or the first complete request.
enum Sight {
    NoneActive,
    NoneComplete,
    Complete(usize),
}

fn look(handles: &[Handle]) -> Result<Sight> {
    let mut sight = Sight::NoneActive;
    for (i, &handle) in handles.iter().enumerate() {
        if is_active(handle)? {
            if is_complete(handle)? {
                return Ok(Sight::Complete(i));
            }
            sight = Sight::NoneComplete;
        }
    }
    Ok(sight)
}

fn look_until_complete(handles: &[Handle]) -> Result<Sight> {
    let mut sight = look(handles);
    progress::wait_for(Awaited::Any(handles), || {
        if matches!(sight, Ok(Sight::NoneComplete)) {
            sight = look(handles);
        }
        !matches!(sight, Ok(Sight::NoneComplete))
    });
    sight
}

fn look_twice(handles: &[Handle]) -> Result<Sight> {
    match look(handles)? {
        Sight::NoneComplete => {
            progress::poll_some();
            look(handles)
        }
        sight => Ok(sight),
    }
}

/// `MPI_Waitany`: the index of the request that ended, also by an error, goes to `ended`: `None` if there is no active one.
pub fn waitany(handles: &mut [Handle], status: &mut Status, ended: &mut Option<usize>) -> Result {
    match look_until_complete(handles)? {
        Sight::Complete(i) => {
            *ended = Some(i);
            finish(&mut handles[i], status)
        }
        _ => {
            (*ended, *status) = (None, Status::EMPTY);
            Ok(())
        }
    }
}

/// `MPI_Testany`: `ended` is `None` if active requests exist and none is complete; else as [`waitany`].
pub fn testany(handles: &mut [Handle], status: &mut Status, ended: &mut Option<Option<usize>>) -> Result {
    match look_twice(handles)? {
        Sight::Complete(i) => {
            *ended = Some(Some(i));
            finish(&mut handles[i], status)?;
        }
        Sight::NoneComplete => *ended = None,
        Sight::NoneActive => (*ended, *status) = (Some(None), Status::EMPTY),
    }
    Ok(())
}

/// Ends every complete active request, their indices go to `indices`; how many there were.
fn finish_some(handles: &mut [Handle], indices: &mut [i32], statuses: Statuses<'_>) -> Result<usize> {
    let mut found = 0;
    for (i, &handle) in handles.iter().enumerate() {
        if is_active(handle)? && is_complete(handle)? {
            indices[found] = i as i32;
            found += 1;
        }
    }
    finish_all(handles, indices[..found].iter().map(|&i| i as usize), statuses).map(|()| found)
}

/// `MPI_Waitsome`: how many ended, `None` if there is no active request. On `ERR_IN_STATUS` the count is in `ended`.
pub fn waitsome(
    handles: &mut [Handle],
    indices: &mut [i32],
    statuses: Statuses<'_>,
    ended: &mut Option<usize>,
) -> Result {
    some(look_until_complete(handles)?, handles, indices, statuses, ended)
}

/// `MPI_Testsome`, as [`waitsome`].
pub fn testsome(
    handles: &mut [Handle],
    indices: &mut [i32],
    statuses: Statuses<'_>,
    ended: &mut Option<usize>,
) -> Result {
    some(look_twice(handles)?, handles, indices, statuses, ended)
}

fn some(
    sight: Sight,
    handles: &mut [Handle],
    indices: &mut [i32],
    statuses: Statuses<'_>,
    ended: &mut Option<usize>,
) -> Result {
    match sight {
        Sight::NoneActive => *ended = None,
        Sight::NoneComplete => *ended = Some(0),
        Sight::Complete(_) => {
            let complete = handles.iter().filter(|&&h| matches!((is_active(h), is_complete(h)), (Ok(true), Ok(true))));
            *ended = Some(complete.count());
            finish_some(handles, indices, statuses)?;
        }
    }
    Ok(())
}

/// What `MPI_Request_get_status` tells of one request without ending it.
fn peek(handle: Handle, status: &mut Status) -> Result {
    if handle != REQUEST_NULL {
        *status = Status { error: status.error, ..super::peek(handle)? };
    } else {
        *status = Status::EMPTY;
    }
    Ok(())
}

/// `MPI_Request_get_status`.
pub fn get_status(handle: Handle, status: &mut Status) -> Result<bool> {
    if !is_complete(handle)? {
        progress::poll_some();
        if !is_complete(handle)? {
            return Ok(false);
        }
    }
    peek(handle, status).map(|()| true)
}

/// `MPI_Request_get_status_any`, as [`testany`].
pub fn get_status_any(handles: &[Handle], status: &mut Status) -> Result<Option<Option<usize>>> {
    match look_twice(handles)? {
        Sight::Complete(i) => peek(handles[i], status).map(|()| Some(Some(i))),
        Sight::NoneComplete => Ok(None),
        Sight::NoneActive => {
            *status = Status::EMPTY;
            Ok(Some(None))
        }
    }
}

/// `MPI_Request_get_status_all`.
pub fn get_status_all(handles: &[Handle], mut statuses: Statuses<'_>) -> Result<bool> {
    progress::poll_some();
    for &handle in handles {
        if !is_complete(handle)? {
            return Ok(false);
        }
    }
    for (i, &handle) in handles.iter().enumerate() {
        let mut status = Status::EMPTY;
        peek(handle, &mut status)?;
        if let Some(statuses) = statuses.as_deref_mut() {
            statuses[i] = Status { error: statuses[i].error, ..status };
        }
    }
    Ok(true)
}

/// `MPI_Request_get_status_some`: how many are complete, `None` if there is no active request.
pub fn get_status_some(handles: &[Handle], indices: &mut [i32], mut statuses: Statuses<'_>) -> Result<Option<usize>> {
    match look_twice(handles)? {
        Sight::NoneActive => return Ok(None),
        Sight::NoneComplete => return Ok(Some(0)),
        Sight::Complete(_) => {}
    }
    let mut found = 0;
    for (i, &handle) in handles.iter().enumerate() {
        if is_active(handle)? && is_complete(handle)? {
            let mut status = Status::EMPTY;
            peek(handle, &mut status)?;
            if let Some(statuses) = statuses.as_deref_mut() {
                statuses[found] = Status { error: statuses[found].error, ..status };
            }
            indices[found] = i as i32;
            found += 1;
        }
    }
    Ok(Some(found))
}
