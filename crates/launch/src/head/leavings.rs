//! What a job leaves on this host and at the interconnect manager, and what has to be removed or given back.

use super::setup::ContainerLaunch;
use crate::cli::Options;
use crate::container::{self, Engine};
use crate::fabric::Routes;
use crate::leftovers::Sweeper;

/// All that.
pub struct Leavings {
    /// The directory of this host's containers.
    job_dir: Option<(Engine, String)>,
    /// What the agents of this host leave.
    pub sweepers: Vec<Sweeper>,
    /// What the interconnect manager has given.
    pub routes: Option<Routes>,
}

impl Leavings {
    /// Of a job that has not begun.
    pub fn of(options: &Options, containers: &[ContainerLaunch]) -> Leavings {
        let job_dir = containers.iter().find_map(|c| c.job_dir.clone());
        Leavings { job_dir: options.container.engine.zip(job_dir), sweepers: Vec::new(), routes: None }
    }

    /// Gives the routes back.
    pub fn give_back_routes(&mut self) {
        if let Some(routes) = self.routes.take() {
            routes.release();
        }
    }

    /// Removes what is left, once no process of the job is.
    pub fn sweep(&mut self) {
        if let Some((engine, job_dir)) = &self.job_dir {
            container::sweep(*engine, job_dir);
        }
        self.sweepers.iter_mut().for_each(Sweeper::sweep);
    }
}
