//! The message engine of this process: there is one between initialisation and finalisation.

use crate::inside::Inside;
use channel::transports::Transports;
use protocol::engine::Engine;
use std::cell::UnsafeCell;

static ENGINE: Inside<UnsafeCell<Option<Engine<Transports>>>> = Inside::new(UnsafeCell::new(None));

/// Puts the engine in place, or takes it away; the one before.
pub(crate) fn set(engine: Option<Engine<Transports>>) -> Option<Engine<Transports>> {
    // SAFETY: inside the critical section, and no borrow of `with` is alive: its closures don't call this function.
    unsafe { std::mem::replace(&mut *ENGINE.get(), engine) }
}

/// Whether there is an engine.
pub fn is_set() -> bool {
    // SAFETY: as in `set`.
    unsafe { (*ENGINE.get()).is_some() }
}

/// Runs `f` on the engine; no callback of the program runs meanwhile.
#[inline]
pub fn with<R>(f: impl FnOnce(&mut Engine<Transports>) -> R) -> R {
    // SAFETY: inside the critical section, and `f` is engine code: it calls neither the program nor this function.
    f(unsafe { borrow() })
}

/// The engine, for the short path, where compilers should see no closure.
///
/// # Safety
/// Inside the critical section; nothing but engine code runs as long as the borrow is used.
#[inline(always)]
pub unsafe fn borrow<'a>() -> &'a mut Engine<Transports> {
    // SAFETY: the only borrow, by the caller.
    unsafe { &mut *ENGINE.get() }.as_mut().expect("MPI is initialised")
}
