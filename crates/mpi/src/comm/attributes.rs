//! The predefined attributes of communicators (MPI-5.0, 9.1.2): integers that programs get a pointer to.

use crate::errors;
use crate::inside::Inside;
use crate::status::{ANY_SOURCE, PROC_NULL, TAG_UB};
use channel::bootstrap::JobInfo;
use std::cell::Cell;

struct Attributes {
    tag_ub: Cell<i32>,
    host: Cell<i32>,
    io: Cell<i32>,
    wtime_is_global: Cell<i32>,
    has_app_num: Cell<bool>,
    app_num: Cell<i32>,
    universe_size: Cell<i32>,
}

static ATTRIBUTES: Inside<Attributes> = Inside::new(Attributes {
    tag_ub: Cell::new(TAG_UB),
    host: Cell::new(PROC_NULL),
    io: Cell::new(ANY_SOURCE),
    wtime_is_global: Cell::new(0),
    has_app_num: Cell::new(false),
    app_num: Cell::new(0),
    universe_size: Cell::new(1),
});

/// Learns the values that the job decides.
pub(crate) fn set_up(job: &JobInfo) {
    let a = &ATTRIBUTES;
    a.universe_size.set(job.universe_size as i32);
    a.has_app_num.set(job.app_num.is_some());
    a.app_num.set(job.app_num.unwrap_or(0) as i32);
}

/// Where the integer of a predefined attribute is, if it is set. `None` for keyvals that aren't predefined.
pub(super) fn predefined(keyval: i32) -> Option<Option<*mut i32>> {
    let a = &ATTRIBUTES;
    Some(Some(match keyval {
        501 => a.tag_ub.as_ptr(),
        502 => a.io.as_ptr(),
        503 => a.host.as_ptr(),
        504 => a.wtime_is_global.as_ptr(),
        505 if !a.has_app_num.get() => return Some(None),
        505 => a.app_num.as_ptr(),
        506 => errors::last_used_code(),
        507 => a.universe_size.as_ptr(),
        _ => return None,
    }))
}
