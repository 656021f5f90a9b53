//! The message engine of this process: there is one between initialisation and finalisation.

use crate::cs::Section;
use crate::inside::Inside;
use channel::transports::Transports;
use protocol::engine::Engine;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

static ENGINE: Inside<UnsafeCell<Option<Engine<Transports>>>> = Inside::new(UnsafeCell::new(None));

/// Apart from the engine, because a thread that makes a session may ask while another one uses the engine.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Puts the engine in place, or takes it away; the one before.
pub(crate) fn set(cs: &mut Section, engine: Option<Engine<Transports>>) -> Option<Engine<Transports>> {
    IS_SET.store(engine.is_some(), Ordering::Relaxed);
    // SAFETY: no borrow of `with` is alive, as the section is ours alone.
    unsafe { std::mem::replace(&mut *ENGINE.get(cs).get(), engine) }
}

/// Whether there is an engine.
pub fn is_set() -> bool {
    IS_SET.load(Ordering::Relaxed)
}

/// Runs `f` on the engine; no callback of the program runs meanwhile.
#[inline]
pub fn with<R>(cs: &Section, f: impl FnOnce(&mut Engine<Transports>) -> R) -> R {
    // SAFETY: `f` is engine code: it doesn't call this function.
    f(unsafe { borrow(cs) })
}

/// The engine, for the short path, where compilers should see no closure.
///
/// # Safety
/// Nobody else uses the engine as long as the borrow is used.
#[expect(clippy::mut_from_ref, reason = "exclusive by the contract")]
#[inline(always)]
pub unsafe fn borrow(cs: &Section) -> &mut Engine<Transports> {
    // SAFETY: the only borrow, by the caller.
    unsafe { &mut *ENGINE.get(cs).get() }.as_mut().expect("MPI is initialised")
}
