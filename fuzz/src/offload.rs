//! Operations that a rank hands to its worker, and how far it says that they have come: whatever it says, only the memory that an accepted schedule lists is touched, and
//! the worker comes to an end.

use crate::input::Input;
use base::{Class, Error, Result};
use mpi::coll::portable::Portable;
use mpi::coll::portable::regions::Access;
use mpi::coll::portable::remote::{Memory, Position, Progress, RunId, Runner, reconcile};
use offload::metadata;
use shm::offload::Request;
use std::rc::Rc;

/// Accesses that are carried out; then memory fails, so that a long schedule ends.
const ACCESSES: usize = 2000;
const ENDPOINTS_MAX: usize = 8;

/// See the head of this file.
pub fn run(data: &[u8]) {
    let (head, bytes) = data.split_at(data.len().min(16));
    let mut input = Input::new(head);
    let channel = (input.byte().into(), if input.byte() == 0 { u64::MAX } else { 3 });
    let request = Request { address: 1, len: bytes.len() as u64, id: 1, channels: [channel; 2], round: 0 };
    let (Ok(_), Ok(schedule)) = (metadata::schedule_len(&request), metadata::schedule(bytes, ENDPOINTS_MAX)) else {
        return;
    };
    let schedule = Rc::new(schedule);
    let mut runs = Vec::new();
    for process in 0..2 {
        let Ok(identity) = metadata::identity(process, &request) else { return };
        let position = Position { step: u32::from(input.byte()) % 8, part: u32::from(input.byte()) % 4 };
        let messages = vec![[u64::from(input.byte()) % 3, u64::from(input.byte()) % 3]; input.byte() as usize % 10];
        runs.push((schedule.clone(), identity, Progress { position, messages }));
    }
    reconcile(&mut runs);
    let mut memory = Guarded { schedule: schedule.clone(), left: ACCESSES };
    let mut runner = Runner::default();
    for (schedule, identity, progress) in runs {
        if runner.add(schedule, identity, progress, &mut memory).is_err() {
            return;
        }
    }
    let mut ended = 0;
    runner.advance(&mut memory, |_, _| ended += 1);
    (0..2).for_each(|run| runner.remove(run));
    assert!(runner.is_empty() && ended <= 2);
}

/// Memory that notices whoever leaves what is listed.
struct Guarded {
    schedule: Rc<Portable>,
    left: usize,
}

impl Guarded {
    fn access(&mut self, (address, len): (u64, usize), lists: &[Access]) -> Result {
        assert!(lists.iter().any(|access| self.schedule.announces(*access, address, len)), "{len} bytes at {address}");
        self.left = self.left.checked_sub(1).ok_or(Error::new(Class::ERR_OTHER, "enough"))?;
        Ok(())
    }
}

impl Memory for Guarded {
    fn get(&mut self, _: RunId, address: u64, into: &mut [u8]) -> Result {
        self.access((address, into.len()), &[Access::Read, Access::Write])
    }

    fn put(&mut self, _: RunId, address: u64, from: &[u8]) -> Result {
        self.access((address, from.len()), &[Access::Write])
    }
}
