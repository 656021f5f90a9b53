//! Messages as tools see them: events of each, and counters by protocol.
//!
//! While nobody has asked for them there is nothing of this on the way of a message. As soon as somebody has, the short paths are closed: lanes
//! refuse short messages (`transports::observe`), and the [`Observer`] is among what advances with every poll, which turns the short receives off
//! and makes polls take the observed way (`Engine::progress_observed`). The engine must not run the program's code, so it keeps what happens, and
//! the observer hands it to the functions of events with the next poll, each with the time at which it happened.

use super::{event, pvar};
use crate::cs::Section;
use crate::engine;
use crate::inside::Inside;
use crate::progress::{self, Active};
use channel::transports;
use std::cell::Cell;
use std::rc::Rc;

/// Whether messages are observed.
static ON: Inside<Cell<bool>> = Inside::new(Cell::new(false));

/// Whether there is an observer.
static ATTACHED: Inside<Cell<bool>> = Inside::new(Cell::new(false));

/// Hands on what the engine has kept.
struct Observer;
impl Active for Observer {
    fn advance(&self, cs: &mut Section) -> bool {
        if !ON.get(cs).get() {
            ATTACHED.get(cs).set(false);
            return true;
        }
        if event::is_running(cs) || !engine::with(cs, |engine| engine.has_happenings()) {
            return false;
        }
        // It stands in for this one while functions of the program run, which may call MPI.
        progress::attach(cs, Rc::new(Observer));
        let (kept, dropped) = engine::with(cs, |engine| engine.take_happenings());
        event::drop_messages(cs, dropped);
        kept.iter().for_each(|happening| event::of_message(cs, happening));
        // What has happened while functions ran is dropped.
        let (during, dropped) = engine::with(cs, |engine| engine.take_happenings());
        event::drop_messages(cs, dropped + during.len() as u64);
        true
    }
}

/// Registrations or started variables have changed, or the engine is there.
pub(crate) fn update(cs: &Section) {
    if !engine::is_set() {
        return;
    }
    let keep = event::wants_messages(cs);
    let on = keep || pvar::wants_messages(cs);
    if !on && !ON.get(cs).get() {
        return;
    }
    ON.get(cs).set(on);
    engine::with(cs, |engine| {
        engine.observe(on, keep);
        transports::observe(engine.endpoints(), on);
    });
    if on && !ATTACHED.get(cs).replace(true) {
        progress::attach(cs, Rc::new(Observer));
    }
}

/// The engine is gone, and with it what advanced.
pub(crate) fn end(cs: &Section) {
    ON.get(cs).set(false);
    ATTACHED.get(cs).set(false);
}
