//! The message engine of this process: there is one between initialisation and finalisation.

use crate::inside::Inside;
use channel::transports::Transports;
use protocol::engine::Engine;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

static ENGINE: Inside<UnsafeCell<Option<Engine<Transports>>>> = Inside::new(UnsafeCell::new(None));

/// Apart from the engine, because a thread that makes a session may ask while another one uses the engine.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Puts the engine in place, or takes it away; the one before.
pub(crate) fn set(engine: Option<Engine<Transports>>) -> Option<Engine<Transports>> {
    IS_SET.store(engine.is_some(), Ordering::Relaxed);
    // SAFETY: inside the critical section, and no borrow of `with` is alive: its closures don't call this function.
    unsafe { std::mem::replace(&mut *ENGINE.get(), engine) }
}

/// Whether there is an engine.
pub fn is_set() -> bool {
    IS_SET.load(Ordering::Relaxed)
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
