//! Global state of one module, for the critical section ([`crate::cs`]).

use crate::cs::Section;
use std::cell::OnceCell;

/// A static that is only reached inside the critical section, so by one thread at a time.
pub struct Inside<T>(T);

impl<T> Inside<T> {
    /// Wraps the state.
    pub const fn new(state: T) -> Inside<T> {
        Inside(state)
    }

    /// The state, as long as nobody waits or calls the program.
    #[inline(always)]
    pub fn get<'a>(&'a self, _cs: &'a Section) -> &'a T {
        &self.0
    }
}

impl<T> Inside<OnceCell<T>> {
    /// A value that stays for good once it is set.
    #[inline(always)]
    pub fn get_set(&'static self, _cs: &Section) -> Option<&'static T> {
        self.0.get()
    }
}

// SAFETY: whoever reaches the state has a `Section`, so one thread at a time does.
unsafe impl<T> Sync for Inside<T> {}
