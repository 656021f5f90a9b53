//! A process that has joined its job: the parts of which MPI is made.

use crate::bootstrap::SharedBootstrap;
use crate::profile::SharedProfile;
use crate::transports::Transports;
use crate::wait::{self, Waiter};
use crate::waiting::Waiting;
use base::{Class, Error, Result, log};
use protocol::endpoint::Endpoints;
use protocol::lanes::{LANE_SMALL_MAX, LanePlan};
use std::sync::Arc;
use sys::epoll::Epoll;

/// See the head of this file.
pub struct Opened {
    /// The ways to all processes.
    pub endpoints: Endpoints<Transports>,
    /// How this process waits.
    pub waiting: Waiting,
    /// The conversation with the node agent.
    pub bootstrap: SharedBootstrap,
    /// Where messages are counted.
    pub profile: SharedProfile,
}

impl Opened {
    /// Opens the transports, and the set of everything that can wake this process. No exchange with peers.
    pub fn new(bootstrap: SharedBootstrap) -> Result<Opened> {
        let job = bootstrap.borrow().job().clone();
        let waiter = Waiter::new(wait::ranks_per_cpu_of(&job));
        let epoll = Epoll::new().map_err(|error| {
            log!(Error, "cannot create an epoll set: {error}");
            Error::new(Class::ERR_OTHER, "cannot create an epoll set")
        })?;
        let epoll = Arc::new(epoll);
        let profile = SharedProfile::begin(&job, &mut bootstrap.borrow_mut());
        let transports = Transports::open(bootstrap.clone(), &epoll, waiter.job_oversubscribed(), profile.clone())?;
        let waiting = Waiting::new(waiter, epoll);
        // A plan that is none has been told: there is no TCP then.
        let plan = LanePlan::configured().unwrap_or(LanePlan::SINGLE);
        let endpoints = Endpoints::with_plan(transports, plan, LANE_SMALL_MAX.value() as usize);
        Ok(Opened { endpoints, waiting, bootstrap, profile })
    }
}
