//! Hints of a communicator (MPI-5.0, 7.4.4): assertions that a program makes about its own use of it.

use super::Comm;
use crate::info::{Info, MEMORY_KINDS};

/// The assertions of the standard; each is `true` or `false`.
const ASSERTIONS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// The assertions made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Hints {
    made: [Option<bool>; ASSERTIONS.len()],
}

impl Hints {
    /// The hints of an info object; others are ignored, as are values that are neither `true` nor `false`.
    pub fn of(info: &Info) -> Hints {
        let mut hints = Hints::default();
        hints.update(info);
        hints
    }

    /// Takes over the hints that `info` has.
    fn update(&mut self, info: &Info) {
        for (key, made) in ASSERTIONS.iter().zip(&mut self.made) {
            match info.text(key).as_deref() {
                Some("true") => *made = Some(true),
                Some("false") => *made = Some(false),
                _ => {}
            }
        }
    }

    /// The hints in use.
    pub fn to_info(self) -> Info {
        let info = Info::new();
        for (key, made) in ASSERTIONS.iter().zip(self.made) {
            if let Some(made) = made {
                info.put(key, if made { b"true" } else { b"false" });
            }
        }
        info.put("mpi_memory_alloc_kinds", MEMORY_KINDS.as_bytes());
        info
    }
}

/// `MPI_Comm_set_info`.
pub fn set_info(comm: &Comm, info: &Info) {
    comm.hints.borrow_mut().update(info);
}

/// `MPI_Comm_get_info`: a new object with the hints in use.
pub fn get_info(comm: &Comm) -> Info {
    comm.hints.borrow().to_info()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hints_survive_and_others_do_not() {
        let info = Info::new();
        info.set(b"mpi_assert_no_any_tag", b"true").unwrap();
        info.set(b"mpi_assert_exact_length", b"maybe").unwrap();
        info.set(b"colour", b"red").unwrap();
        let back = Hints::of(&info).to_info();
        assert_eq!(back.text("mpi_assert_no_any_tag").as_deref(), Some("true"));
        assert_eq!(back.text("mpi_assert_exact_length"), None);
        assert_eq!(back.text("colour"), None);
        assert_eq!(back.text("mpi_memory_alloc_kinds").as_deref(), Some(MEMORY_KINDS));
    }
}
