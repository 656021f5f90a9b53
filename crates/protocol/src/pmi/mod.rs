//! What processes say to a foreign launcher: PMI-1 ([`v1`]), PMI-2 ([`v2`]), and where it has put them ([`mapping`]). No I/O.
//!
//! Both wires are text. Invariants: a line or message above [`MESSAGE_MAX`] is refused before it is stored; what a command is built from can't
//! break out of its field, because keys and values with characters that the wire reserves are refused or escaped.

pub mod mapping;
pub mod v1;
pub mod v2;

use base::{Result, ensure};

/// Longest line or message that is read, in bytes. Launchers' values are at most a few KiB.
pub const MESSAGE_MAX: usize = 64 << 10;

/// A message of either version: what it is, and its fields in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The value of `cmd`.
    pub command: String,
    fields: Vec<(String, String)>,
}

impl Reply {
    /// The first field of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.trim().parse().ok()
    }

    /// An error unless this is `command` and its `rc`, if it has one, is 0.
    pub fn expect(self, command: &str) -> Result<Reply> {
        ensure!(self.command == command, ERR_OTHER, "the launcher answered something else than was asked");
        ensure!(self.number("rc").unwrap_or(0) == 0, ERR_OTHER, "the launcher refused a request");
        Ok(self)
    }
}

/// Whether `text` can be a key or, with `=`, a value on both wires.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() && b != b';')
}
