//! Global state of one module, for the critical section ([`crate::cs`]).

/// A static that is only touched inside the critical section, so by one thread at a time.
pub struct Inside<T>(T);

impl<T> Inside<T> {
    /// Wraps the state.
    pub const fn new(state: T) -> Inside<T> {
        Inside(state)
    }
}

// SAFETY: only reached inside the critical section (`cs`), so by one thread at a time.
unsafe impl<T> Sync for Inside<T> {}

impl<T> std::ops::Deref for Inside<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
