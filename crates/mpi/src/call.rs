//! Which function the program has called, for the diagnosis of a hang. One store on the way in.
//!
//! Threads overwrite each other's; a thread that waits leaves the critical section ([`crate::cs::released`]) and puts its own
//! back when it returns, so whoever reports about its own wait reads its own.

use std::sync::atomic::{AtomicPtr, Ordering};

/// Null or a `&'static &'static str`.
static CURRENT: AtomicPtr<&'static str> = AtomicPtr::new(std::ptr::null_mut());

/// Remembers the function; called from inside the critical section.
#[inline(always)]
pub fn enter(name: &'static &'static str) {
    CURRENT.store(std::ptr::from_ref(name).cast_mut(), Ordering::Relaxed);
}

/// The function that was entered last.
pub fn current() -> Option<&'static &'static str> {
    // SAFETY: null, or what `enter` made of a reference that lives for ever.
    unsafe { CURRENT.load(Ordering::Relaxed).cast_const().as_ref() }
}
