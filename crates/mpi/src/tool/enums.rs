//! Enumerations (MPI-5.0, 15.3.5): the values of switches, and the names of the elements of events.

use super::at;
use base::{Result, fail};

/// One enumeration.
pub struct Enumeration {
    /// Its name.
    pub name: &'static str,
    /// Values and their names.
    pub items: &'static [(i32, &'static str)],
}

/// Values of a switch.
pub const SWITCH: usize = 0;
/// Elements of events about collectives.
pub const COLLECTIVE: usize = 1;
/// Elements of events about messages.
pub const MESSAGE: usize = 3;
/// Elements of events about counters.
pub const COUNTED: usize = 2;

static ALL: &[Enumeration] = &[
    Enumeration { name: "switch", items: &[(0, "off"), (1, "on")] },
    Enumeration { name: "collective", items: &[(0, "function"), (1, "context"), (2, "rank"), (3, "size")] },
    Enumeration { name: "counted", items: &[(0, "events"), (1, "total")] },
    Enumeration { name: "message", items: &[(0, "protocol"), (1, "bytes"), (2, "peer"), (3, "tag"), (4, "internal")] },
];

/// The handle of the first one: null is `MPI_T_ENUM_NULL`.
const FIRST: usize = 1;

/// The handle of an enumeration.
pub fn handle(number: usize) -> usize {
    number + FIRST
}

/// The enumeration of a handle.
pub fn from_handle(handle: usize) -> Result<&'static Enumeration> {
    match handle.checked_sub(FIRST).and_then(|number| ALL.get(number)) {
        Some(found) => Ok(found),
        None => fail!(T_ERR_INVALID_HANDLE, "no such enumeration"),
    }
}

/// An item by its index.
pub fn item(enumeration: &'static Enumeration, index: i32) -> Result<(i32, &'static str)> {
    at(enumeration.items, index).copied()
}
