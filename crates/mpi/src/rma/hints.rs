//! Info of windows (MPI-5.0, 12.2.7).

use super::Window;
use crate::info::{Info, MEMORY_KINDS};

/// The hints, with what holds as long as the program says nothing else. Accumulates keep every order, and go by element.
const KNOWN: [(&str, &str); 7] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

/// The values of a window's hints.
#[derive(Clone, Default)]
pub struct Hints([Option<String>; KNOWN.len()]);

impl Hints {
    /// The hints of an info object.
    pub fn of(info: Option<&Info>) -> Hints {
        let mut hints = Hints::default();
        if let Some(info) = info {
            hints.update(info);
        }
        hints
    }

    fn update(&mut self, info: &Info) {
        for ((key, _), value) in KNOWN.iter().zip(&mut self.0) {
            *value = info.text(key).or(value.take());
        }
    }

    fn get(&self, key: &str) -> &str {
        let known = KNOWN.iter().zip(&self.0).find(|((name, _), _)| *name == key);
        known.map_or("", |((_, default), value)| value.as_deref().unwrap_or(default))
    }

    /// Whether the memory of each rank of a shared window may lie apart (12.2.3).
    pub fn are_apart(&self) -> bool {
        self.get("alloc_shared_noncontig") == "true"
    }
}

/// `MPI_Win_set_info`.
pub fn set_info(win: &Window, info: &Info) {
    win.hints.borrow_mut().update(info);
}

/// `MPI_Win_get_info`: a new object with the hints in use.
pub fn get_info(win: &Window) -> Info {
    let info = Info::new();
    for (key, _) in KNOWN {
        info.put(key, win.hints.borrow().get(key).as_bytes());
    }
    info.put("mpi_memory_alloc_kinds", MEMORY_KINDS.as_bytes());
    info
}
