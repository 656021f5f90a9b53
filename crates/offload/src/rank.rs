//! A rank that a worker serves: its operations, its bells, its memory, and the schedules that were read from there.

use crate::metadata;
use crate::reach::Way;
use base::{Class, Error, Result, log};
use mpi::coll::portable::Portable;
use shm::offload::{Area, Request, Served};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use sys::wake::Bell;

/// Schedules that are kept for each rank.
const SCHEDULES_MAX: usize = 32;
/// Longer ones are read each time.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// See the head of this file.
pub struct Rank {
    /// The memory of its operations.
    pub served: Served,
    /// It rings here.
    doorbell: OwnedFd,
    /// Here it is woken.
    pub bell: Bell,
    /// `None` if its memory can't be reached, which was logged.
    pub way: Option<Way>,
    /// The last ones used come last.
    schedules: VecDeque<(u64, Rc<Portable>)>,
}

/// A memory that can't be reached.
pub const UNREACHABLE: Error = Error::new(Class::ERR_OTHER, "the memory of a rank can't be reached");

impl Rank {
    /// A rank from what its agent has passed on, for worker `worker`.
    pub fn new(number: u64, worker: usize, fds: Vec<OwnedFd>) -> io::Result<Rank> {
        let Ok([area, doorbell, bell, memory]) = <[OwnedFd; 4]>::try_from(fds) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its descriptors got lost"));
        };
        let served = Served::new(Area::open(area.as_fd())?, worker)?;
        let way = Way::find(&served.area().reach(), memory);
        let way = way.map_err(|why| log!(Error, "the memory of rank {number} can't be reached: {why}")).ok();
        if let Some(way) = &way {
            log!(Info, "serves rank {number}: its memory is reached by {}", way.name());
        }
        Ok(Rank { served, doorbell, bell: Bell::from_fd(bell), way, schedules: VecDeque::new() })
    }

    /// Readable in edges when the rank has posted something.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The schedule of an operation, from the rank's memory unless it is known.
    pub fn schedule(&mut self, request: &Request) -> Result<Rc<Portable>> {
        if let Some(at) = self.schedules.iter().position(|(id, _)| *id == request.id)
            && let Some(known) = self.schedules.remove(at)
        {
            let portable = known.1.clone();
            self.schedules.push_back(known);
            return Ok(portable);
        }
        let mut bytes = vec![0; metadata::schedule_len(request)?];
        let way = self.way.as_ref().ok_or(UNREACHABLE)?;
        way.read(request.address, &mut bytes).map_err(|_| UNREACHABLE)?;
        let portable = Rc::new(metadata::schedule(&bytes, self.served.area().routes())?);
        if bytes.len() <= KEPT_BYTES_MAX {
            self.schedules.truncate(SCHEDULES_MAX);
            if self.schedules.len() == SCHEDULES_MAX {
                self.schedules.pop_front();
            }
            self.schedules.push_back((request.id, portable.clone()));
        }
        Ok(portable)
    }
}
