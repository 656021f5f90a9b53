//! The workers of a process, one for each class of lanes.
//!
//! After [`Rails::renew`] new links use new workers. The workers before them stay until no link has an endpoint there, and are closed then, with their contexts:
//! so a device that is about to be taken away is let go when the lanes over it are suspended.

use super::devices::Found;
use ::ucx::{Context, Worker};
use protocol::control::endpoint_address::UcxAddress;
use protocol::lanes::{Class, LanePlan};
use std::ops::{Index, IndexMut};
use std::rc::Rc;
use std::sync::Arc;
use sys::epoll::{Epoll, Interest};

/// The class of a worker that carries everything.
pub const WITHOUT_CLASS: u8 = u8::MAX;

/// What wakes this process: an epoll set, and the token of UCX's descriptors in it.
pub struct Wakeup {
    /// The set.
    pub epoll: Arc<Epoll>,
    /// The token.
    pub token: u64,
}

/// A worker of one class.
pub struct Rail {
    pub class: u8,
    pub context: Rc<Context>,
    pub worker: Worker,
    /// New links use it.
    is_current: bool,
}

/// See the head of this file.
pub struct Rails {
    found: Found,
    wakeup: Wakeup,
    /// Links name them by their place, so a closed one leaves its place empty.
    all: Vec<Option<Rail>>,
    /// How many of them new links don't use.
    old: usize,
}

impl Rails {
    /// Opens a worker for each class of the plan.
    pub fn open(found: Found, plan: &LanePlan, wakeup: Wakeup) -> Result<Rails, String> {
        let mut rails = Rails { found, wakeup, all: Vec::new(), old: 0 };
        rails.renew(plan)?;
        Ok(rails)
    }

    /// Opens new workers, which new links use. If that fails, nothing changes.
    pub fn renew(&mut self, plan: &LanePlan) -> Result<(), String> {
        let classes = plan.classes();
        let classes = if classes.is_empty() { vec![None] } else { classes.into_iter().map(Some).collect() };
        let opened = classes.into_iter().map(|class| self.open_rail(class)).collect::<Result<Vec<Rail>, String>>()?;
        for rail in &opened {
            let watched = self.wakeup.epoll.add(rail.worker.descriptor(), self.wakeup.token, Interest::READ);
            watched.map_err(|error| format!("its descriptor can't be watched: {error}"))?;
        }
        self.all.iter_mut().flatten().for_each(|rail| rail.is_current = false);
        self.old = self.places().count();
        self.all.extend(opened.into_iter().map(Some));
        Ok(())
    }

    fn open_rail(&self, class: Option<Class>) -> Result<Rail, String> {
        let settings = self.found.settings(class)?;
        let context = Context::open(self.found.ucx, &settings)?;
        let worker = Worker::open(&context)?;
        let class = class.and_then(Class::code).unwrap_or(WITHOUT_CLASS);
        Ok(Rail { class, context, worker, is_current: true })
    }

    /// Where peers reach this process from now on: classes, and addresses of workers.
    pub fn addresses(&self) -> Vec<(u8, Vec<u8>)> {
        let current = self.all.iter().flatten().filter(|rail| rail.is_current);
        current.map(|rail| (rail.class, rail.worker.address().to_vec())).collect()
    }

    /// The place of the worker that new links of a class use.
    pub fn of_class(&self, class: u8) -> Option<usize> {
        self.all.iter().position(|rail| rail.as_ref().is_some_and(|rail| rail.is_current && rail.class == class))
    }

    /// The places of all open workers.
    pub fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let open: Vec<usize> = (0..self.all.len()).filter(|place| self.all[*place].is_some()).collect();
        open.into_iter()
    }

    /// All open workers.
    pub fn workers(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.all.iter_mut().flatten().map(|rail| &mut rail.worker)
    }

    /// Whether there are workers that new links don't use.
    pub fn has_old(&self) -> bool {
        self.old > 0
    }

    /// The places of workers that new links don't use.
    pub fn old_places(&self) -> Vec<usize> {
        let is_old = |place: &usize| self.all[*place].as_ref().is_some_and(|rail| !rail.is_current);
        self.places().filter(is_old).collect()
    }

    /// Closes an old worker that no link uses, when all that it had to send has left.
    pub fn close_old(&mut self, place: usize) {
        let Some(rail) = self.all[place].as_mut() else { return };
        if rail.worker.posted() > 0 {
            return;
        }
        // It is open, so the set knows it.
        let _ = self.wakeup.epoll.remove(rail.worker.descriptor());
        self.all[place] = None;
        self.old -= 1;
    }
}

impl Index<usize> for Rails {
    type Output = Rail;

    fn index(&self, place: usize) -> &Rail {
        self.all[place].as_ref().expect("a worker is open while a link uses it")
    }
}

impl IndexMut<usize> for Rails {
    fn index_mut(&mut self, place: usize) -> &mut Rail {
        self.all[place].as_mut().expect("a worker is open while a link uses it")
    }
}

/// What the address of a process tells of its workers.
pub fn address(minor: u32, format: u32, rails: &Rails) -> UcxAddress {
    UcxAddress { minor, format, workers: rails.addresses() }
}
