//! Whoever wants to know that collectives of the program begin and end: the tool interface, which lies above.

use super::Comm;
use crate::cs::Section;
use crate::inside::Inside;
use std::cell::Cell;

/// Learns of the communicator, and whether the collective begins or ends.
type Watch = fn(&mut Section, &Comm, bool);

static WATCH: Inside<Cell<Option<Watch>>> = Inside::new(Cell::new(None));

/// From now on `watch` is told, or nobody.
pub(crate) fn set(cs: &Section, watch: Option<Watch>) {
    WATCH.get(cs).set(watch);
}

/// Whom to tell.
#[inline]
pub(crate) fn watcher(cs: &Section) -> Option<Watch> {
    WATCH.get(cs).get()
}
