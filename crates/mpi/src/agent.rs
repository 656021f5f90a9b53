//! The conversation of this process with its node agent, while MPI is initialised.

use crate::cs::Section;
use crate::inside::Inside;
use channel::bootstrap::SharedBootstrap;
use std::cell::RefCell;

static AGENT: Inside<RefCell<Option<SharedBootstrap>>> = Inside::new(RefCell::new(None));

/// The conversation, while there is one.
pub fn current(cs: &Section) -> Option<SharedBootstrap> {
    AGENT.get(cs).borrow().clone()
}

/// Begins or ends it; the one before.
pub(crate) fn replace(cs: &Section, agent: Option<SharedBootstrap>) -> Option<SharedBootstrap> {
    AGENT.get(cs).replace(agent)
}

/// Whether the agent has asked what this process waits for since the last call.
#[inline]
pub(crate) fn take_report_request(cs: &Section) -> bool {
    AGENT.get(cs).borrow().as_ref().is_some_and(|agent| agent.borrow_mut().take_report_request())
}
