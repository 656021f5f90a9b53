//! What an exchange of endpoints needs of this process before MPI runs: waiting for an arrival, and opening all lanes at once.

use crate::bootstrap::{JobInfo, SharedBootstrap};
use crate::opened::Opened;
use crate::transports::{self, AnyPacket, Lane, Transports};
use crate::wait;
use crate::waiting::Waiting;
use base::{Peer, Result, WorldRank, ensure, fail, log};
use protocol::control::exchange::{Entry, Id};
use protocol::endpoint::{Arrival, Endpoints, State};
use protocol::policy::waiting::Idle;
use protocol::processes::SharedProcesses;
use protocol::transport::{Packet, Transport};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the higher rank of a pair waits for the lower one's call before it calls itself: perhaps only it can.
const PATIENCE: Duration = Duration::from_secs(1);

/// The parts of a process that take part in an exchange.
pub struct Startup<'a> {
    /// The ways to the other processes.
    pub endpoints: &'a mut Endpoints<Transports>,
    /// The node agent.
    pub bootstrap: SharedBootstrap,
    waiting: &'a mut Waiting,
}

impl<'a> Startup<'a> {
    /// The parts of an opened process.
    pub fn of(opened: &'a mut Opened) -> Startup<'a> {
        let Opened { endpoints, waiting, bootstrap, .. } = opened;
        Startup { endpoints, bootstrap: bootstrap.clone(), waiting }
    }

    /// The job.
    pub fn job(&mut self) -> Rc<JobInfo> {
        Rc::clone(self.endpoints.transport().job())
    }

    /// The processes that this one knows.
    pub fn processes(&mut self) -> SharedProcesses {
        self.endpoints.transport().processes().clone()
    }

    /// Ids for the other ranks, ascending; empty if there are none.
    pub fn own_ids(&mut self) -> Vec<Id> {
        let size = self.job().size;
        let Some(net) = self.endpoints.transport().net() else { return Vec::new() };
        let ids = &net.ids().own;
        (0..size).filter_map(|rank| ids.get(&WorldRank(rank)).copied()).collect()
    }

    /// Notes what an exchange has told.
    pub fn learn(&mut self, entries: Vec<Entry>) -> Result {
        if let Some(net) = self.endpoints.transport().net() {
            let told = entries.iter().filter_map(|entry| Some((entry.peer, entry.id?)));
            net.ids().theirs.extend(told);
        }
        self.endpoints.transport().finder().learn(entries)
    }

    /// The next arrival; after a poll in vain waits a little, as the waiter says, but doesn't sleep when `moves` says that there is
    /// something to do. An error once the node agent is gone.
    pub fn next_arrival(
        &mut self,
        idle_polls: &mut u64,
        mut moves: impl FnMut(&mut Endpoints<Transports>) -> Result<bool>,
    ) -> Result<Option<Arrival<AnyPacket>>> {
        if let Some(arrival) = self.endpoints.poll() {
            *idle_polls = 0;
            return Ok(Some(arrival));
        }
        ensure!(!self.endpoints.transport().finder().agent_is_lost(), ERR_OTHER, "the node agent is gone");
        *idle_polls += 1;
        match self.waiting.waiter.idle(*idle_polls) {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => sys::wake::yield_cpu(),
            Idle::ShortSleep => wait::short_sleep(),
            Idle::Sleep => {
                transports::arm(self.endpoints);
                let found = self.endpoints.poll();
                if found.is_none() && !moves(self.endpoints)? {
                    wait::sleep(self.waiting.sleep_set().fd(), self.endpoints.transport().sleep_limit());
                }
                self.waiting.disarm(self.endpoints);
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Waits until the kernel has everything that was sent.
    pub fn flush_all(&mut self) -> Result {
        let mut idle_polls = 0;
        while !self.endpoints.transport().is_flushed() {
            let flushed = |endpoints: &mut Endpoints<Transports>| Ok(endpoints.transport().is_flushed());
            let arrival = self.next_arrival(&mut idle_polls, flushed)?;
            self.refuse(arrival)?;
        }
        Ok(())
    }

    /// Nobody may send a message of the program yet, and nobody may be lost.
    fn refuse(&mut self, arrival: Option<Arrival<AnyPacket>>) -> Result {
        match arrival {
            Some(Arrival::Packet(packet)) => {
                let peer = packet.peer();
                self.endpoints.transport().release(packet);
                log!(Error, "{} sent a message before all were ready", self.processes().borrow().name(peer));
                fail!(ERR_INTERN, "a message came before the exchange of endpoints was over")
            }
            Some(Arrival::Lost(peer)) => {
                log!(Error, "{} can't be connected", self.processes().borrow().name(peer));
                fail!(ERR_PROC_ABORTED, "a rank was lost while all were being connected")
            }
            _ => Ok(()),
        }
    }

    /// Opens the lanes to all ranks. Over the network the lower rank of a pair calls.
    pub fn connect_all(&mut self) -> Result {
        let since = Instant::now();
        let all = self.processes().borrow().own_job();
        let (mut idle_polls, mut missing) = (0, all.collect::<Vec<_>>());
        loop {
            let patient = since.elapsed() < PATIENCE;
            for peer in missing.iter().copied() {
                open_lane(self.endpoints, peer, patient);
            }
            missing.retain(|peer| !is_open(self.endpoints, *peer));
            if missing.is_empty() {
                return Ok(());
            }
            let opened =
                |endpoints: &mut Endpoints<Transports>| Ok(missing.iter().any(|peer| may_open(endpoints, *peer)));
            let arrival = self.next_arrival(&mut idle_polls, opened)?;
            self.refuse(arrival)?;
        }
    }

    /// Lanes to other ranks that are open.
    pub fn open_lanes_count(&mut self) -> u64 {
        let (me, all) = (self.endpoints.transport().me(), self.processes().borrow().own_job());
        all.filter(|peer| *peer != me && is_open(self.endpoints, *peer)).count() as u64
    }
}

fn open_lane(endpoints: &mut Endpoints<Transports>, peer: Peer, patient: bool) {
    if endpoints.state(peer) != State::Idle {
        return;
    }
    let transports = endpoints.transport();
    let calls = {
        let processes = transports.processes().borrow();
        processes.id(peer).is_some_and(|id| processes.own_id() <= id)
    };
    if transports.may_be_near(peer) || calls || !patient {
        endpoints.connect(peer);
    } else {
        transports.adopt_connection(peer);
    }
}

fn is_connected(endpoints: &mut Endpoints<Transports>, peer: Peer) -> bool {
    endpoints.transport().net().is_some_and(|net| net.is_connected(peer))
}

/// Whether a lane that was missing is open, or can be taken over from a peer who called.
fn may_open(endpoints: &mut Endpoints<Transports>, peer: Peer) -> bool {
    is_open(endpoints, peer) || is_connected(endpoints, peer)
}

fn is_open(endpoints: &mut Endpoints<Transports>, peer: Peer) -> bool {
    match endpoints.lane(peer) {
        Some(Lane::Own | Lane::Shm(_) | Lane::Ucx(_)) => true,
        Some(Lane::Net(_)) => is_connected(endpoints, peer),
        None => endpoints.state(peer) == State::Lost,
    }
}
