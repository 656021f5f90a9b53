//! How a process waits: what the waiter decides, and sleeping on everything that can wake it.

use crate::transports::{self, Transports};
use crate::unexpected::REST;
use crate::wait::Waiter;
use protocol::endpoint::Endpoints;
use protocol::engine::Engine;
use std::sync::Arc;
use std::time::Duration;
use sys::epoll::Epoll;

/// See the head of this file.
pub struct Waiting {
    /// Whether to spin, yield or sleep.
    pub waiter: Waiter,
    epoll: Arc<Epoll>,
}

impl Waiting {
    /// Waits as `waiter` says; `epoll` is readable when something may have come.
    pub fn new(waiter: Waiter, epoll: Arc<Epoll>) -> Waiting {
        Waiting { waiter, epoll }
    }

    /// Readable when something may have come; for [`crate::wait::sleep`] between `arm` and `disarm`. Shared, because a thread that
    /// sleeps leaves everything else to others.
    pub fn sleep_set(&self) -> Arc<Epoll> {
        self.epoll.clone()
    }

    /// Prepares to sleep: from now on peers ring. Poll until nothing comes, then wait until the sleep set is readable.
    pub fn arm(&self, engine: &mut Engine<Transports>) {
        engine.pool().rest();
        transports::arm(engine.endpoints());
    }

    /// How long a sleep may be at most, if timers run.
    pub fn sleep_limit(&self, engine: &mut Engine<Transports>) -> Option<Duration> {
        let warm = engine.pool().is_warm().then_some(REST);
        engine.endpoints().transport().sleep_limit().into_iter().chain(warm).min()
    }

    /// Active again.
    pub fn disarm(&mut self, endpoints: &mut Endpoints<Transports>) {
        if transports::disarm(endpoints.transport()) {
            self.waiter.woke();
        }
    }
}
