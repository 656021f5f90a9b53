//! The worker's loop: ranks come and go, operations are taken and run, and when there is nothing to do the worker sleeps.
//!
//! ```text
//! Job ─► ranks that are there already ─► Served ─► unfinished operations of the worker before this one go on ─► loop
//! ```
//! It has no time-outs and never waits for one rank while another one has something to do. It ends with its agent.

use crate::metadata;
use crate::nodes::{Interpreter, Nodes};
use crate::rank::Rank;
use crate::state::{Operation, State, position_of, word_of};
use base::{Class, Error, Result, log};
use channel::bootstrap::{Bootstrap, Event};
use mpi::coll::portable::remote::{Position, Progress, RunId, Runner, reconcile};
use mpi::coll::portable::{Identity, Portable};
use shm::sleep;
use std::rc::Rc;
use std::sync::Arc;
use sys::affinity::CpuSet;
use sys::epoll::{Epoll, Interest};

const TOKEN_AGENT: u64 = u64::MAX;

/// Number that stands for an operation that was dropped.
const DROPPED: u64 = 3;

/// Runs a worker until its agent ends it.
pub fn run() -> i32 {
    sys::process::set_name(c"ferrule-worker");
    match Worker::open() {
        Ok(mut worker) => loop {
            if worker.turn().is_err() {
                // The agent is gone: so is the job.
                return 1;
            }
        },
        Err(error) => {
            log!(Error, "no worker: {}; only node agents start it", error.origin);
            1
        }
    }
}

/// See the head of this file.
struct Worker {
    index: usize,
    bootstrap: Bootstrap,
    epoll: Arc<Epoll>,
    state: State,
    runner: Runner,
    /// None if the job has one node only.
    nodes: Option<Nodes>,
    /// The ranks of the worker before this one are known, and their operations go on.
    is_served: bool,
}

/// The number that a rank gets for an error.
fn number_of(outcome: Result) -> u64 {
    match outcome.map_err(|error| error.class) {
        Ok(()) => 0,
        Err(Class::ERR_OTHER) => 1,
        Err(Class::ERR_TRUNCATE) => 2,
        Err(Class::ERR_PROC_ABORTED) => DROPPED,
        Err(_) => 4,
    }
}

fn refused(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| {
        log!(Error, "{what}: {error}");
        Error::new(Class::ERR_OTHER, what)
    }
}

impl Worker {
    fn open() -> Result<Worker> {
        let mut bootstrap = Bootstrap::from_environment()?;
        let job = Rc::clone(bootstrap.job());
        if !job.bound_cpus.is_empty() {
            let mut cpus = CpuSet::default();
            job.bound_cpus.iter().for_each(|cpu| cpus.insert(*cpu as usize));
            if let Err(error) = sys::affinity::restrict(&cpus) {
                log!(Info, "stays where ranks are: processors {} can't be had: {error}", cpus.to_list());
            }
        }
        let index =
            job.offload.index.ok_or(Error::new(Class::ERR_OTHER, "this process was not started as a worker"))?;
        let epoll = Arc::new(Epoll::new().map_err(refused("cannot create an epoll set"))?);
        let agent = bootstrap.fd().ok_or(Error::new(Class::ERR_OTHER, "this process has no agent"))?;
        epoll.add(agent, TOKEN_AGENT, Interest::READ).map_err(refused("cannot watch the agent"))?;
        let nodes = Nodes::open(&mut bootstrap, &epoll).map_err(refused("cannot listen for workers of other nodes"))?;
        let (state, runner) = (State::new(job.node_of.clone(), job.offload.node), Runner::default());
        Ok(Worker { index: index as usize, bootstrap, epoll, state, runner, nodes, is_served: false })
    }

    /// Does what there is to do, and sleeps until there is more.
    fn turn(&mut self) -> Result {
        while let Some(event) = self.bootstrap.poll()? {
            self.on_event(event)?;
        }
        self.take_operations();
        self.drop_cancelled();
        self.advance();
        if !self.exchange()? {
            self.sleep()?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result {
        match event {
            Event::Address { peer, fds, .. } => {
                let number = u64::from(peer.0);
                // What others have announced to a new rank is kept.
                if self.state.ranks.contains_key(&number) {
                    self.forget(number);
                }
                match Rank::new(number, self.index, fds) {
                    Ok(rank) => self.attach(number, rank),
                    Err(error) => log!(Error, "rank {number} can't be served: {error}"),
                }
            }
            Event::PeerGone { peer, .. } => self.forget(peer.0.into()),
            Event::Served if !self.is_served => {
                self.is_served = true;
                self.resume();
            }
            Event::WorkerAt { node, incarnation, tcp } => {
                if let Some(nodes) = &mut self.nodes {
                    return nodes
                        .on_worker_at(node, incarnation, &tcp)
                        .inspect_err(|error| log!(Error, "{}", error.origin));
                }
            }
            // A worker asks nothing of mpiexec, a job with workers is not drained, and ranks cancel what they have given to workers.
            Event::Served | Event::Dump | Event::Answer { .. } | Event::Epoch(_) | Event::Revoked(_) => {}
        }
        Ok(())
    }

    fn attach(&mut self, number: u64, rank: Rank) {
        if let Some(nodes) = &mut self.nodes {
            for (slot, request, received) in rank.served.held() {
                nodes.restore_held((number, slot), &request, &received);
            }
        }
        if let Err(error) = self.epoll.add_edge(rank.doorbell(), number) {
            log!(Error, "the bell of rank {number} can't be watched: {error}");
        }
        self.state.ranks.insert(number, rank);
    }

    /// A rank is gone: what it has begun is dropped.
    fn forget(&mut self, number: u64) {
        if let Some(nodes) = &mut self.nodes {
            nodes.forget_rank(number);
        }
        let Some(rank) = self.state.ranks.remove(&number) else { return };
        let _ = self.epoll.remove(rank.doorbell());
        for run in self.runs_where(|operation| operation.rank == number) {
            self.runner.remove(run);
            self.state.operations[run] = None;
        }
    }

    fn runs_where(&self, wanted: impl Fn(&Operation) -> bool) -> Vec<RunId> {
        let all = self.state.operations.iter().enumerate();
        all.filter(|(_, operation)| operation.as_ref().is_some_and(&wanted)).map(|(run, _)| run).collect()
    }

    /// Begins what has been posted.
    fn take_operations(&mut self) {
        if !self.is_served {
            return;
        }
        let numbers: Vec<u64> = self.state.ranks.keys().copied().collect();
        for number in numbers {
            while let Some(slot) = self.state.ranks.get_mut(&number).and_then(|rank| rank.served.take()) {
                self.begin(number, slot);
            }
        }
    }

    fn begin(&mut self, number: u64, slot: u32) {
        let Some((sequence, schedule, identity)) = self.read(number, slot) else { return };
        // Of the worker before this one: it goes on already.
        let known =
            |operation: &Operation| (operation.rank, operation.slot, operation.sequence) == (number, slot, sequence);
        if self.runs_where(known).is_empty() {
            self.add((number, slot, sequence), schedule, identity, Progress::default());
        }
    }

    /// What is posted in a slot; `None` if there is nothing, or nonsense, which is refused.
    fn read(&mut self, number: u64, slot: u32) -> Option<(u64, Rc<Portable>, Identity)> {
        let rank = self.state.ranks.get_mut(&number)?;
        let (sequence, request) = rank.served.request(slot)?;
        let read = rank.schedule(&request).and_then(|schedule| Ok((schedule, metadata::identity(number, &request)?)));
        match read {
            Ok((schedule, identity)) => Some((sequence, schedule, identity)),
            Err(error) => {
                log!(Error, "an operation of rank {number} is refused: {}", error.origin);
                end(rank, slot, Err(error));
                None
            }
        }
    }

    fn add(
        &mut self,
        (rank, slot, sequence): (u64, u32, u64),
        schedule: Rc<Portable>,
        identity: Identity,
        progress: Progress,
    ) {
        let run = self.runner.next_id();
        if self.state.operations.len() <= run {
            self.state.operations.resize_with(run + 1, || None);
        }
        self.state.operations[run] = Some(Operation { rank, slot, sequence, schedule: schedule.clone(), identity });
        if let Err(error) = self.runner.add(schedule, identity, progress, &mut self.state) {
            self.finish(run, Err(error));
        }
    }

    /// Goes on with what the worker before this one has left.
    fn resume(&mut self) {
        let (mut places, mut runs) = (Vec::new(), Vec::new());
        let numbers: Vec<u64> = self.state.ranks.keys().copied().collect();
        for number in numbers {
            let slots = self.state.ranks.get_mut(&number).map_or(Vec::new(), |rank| rank.served.unfinished());
            let first = places.len();
            for slot in slots {
                let Some((sequence, schedule, identity)) = self.read(number, slot) else { continue };
                places.push((number, slot, sequence));
                runs.push((schedule, identity, Progress::default()));
            }
            if let Some(rank) = self.state.ranks.get_mut(&number) {
                redo(rank, &places[first..], &runs[first..]);
                for ((_, slot, _), (schedule, _, progress)) in places[first..].iter().zip(&mut runs[first..]) {
                    *progress = progress_of(rank, *slot, schedule.endpoint_count());
                }
            }
        }
        if !runs.is_empty() {
            log!(Info, "goes on with {} operations", runs.len());
        }
        reconcile(&mut runs);
        let mut order: Vec<_> = places.into_iter().zip(runs).collect();
        // As they were posted: what is sent first between two ranks is received first.
        order.sort_by_key(|((rank, _, sequence), _)| (*rank, *sequence));
        for (place, (schedule, identity, progress)) in order {
            if let Some(rank) = self.state.ranks.get(&place.0) {
                for (route, counts) in progress.messages.iter().enumerate() {
                    rank.served.set_count(place.1, route, false, counts[0]);
                    rank.served.set_count(place.1, route, true, counts[1]);
                }
            }
            if let Some(nodes) = &mut self.nodes {
                nodes.restore(&schedule, &identity, &progress);
            }
            self.add(place, schedule, identity, progress);
        }
    }

    /// Drops what ranks don't want any more.
    fn drop_cancelled(&mut self) {
        let cancelled = |operation: &Operation| {
            self.state.ranks.get(&operation.rank).is_some_and(|rank| rank.served.is_cancelled(operation.slot))
        };
        for run in self.runs_where(cancelled) {
            self.runner.remove(run);
            self.finish(run, Err(mpi::losses::LOST));
        }
    }

    fn advance(&mut self) {
        let mut ended = Vec::new();
        loop {
            self.runner.advance(&mut self.state, |run, outcome| ended.push((run, outcome)));
            if ended.is_empty() {
                return;
            }
            for (run, outcome) in ended.drain(..) {
                self.finish(run, outcome);
            }
        }
    }

    /// Exchanges messages with the workers of other nodes. True if anything has come.
    fn exchange(&mut self) -> Result<bool> {
        let Some(nodes) = self.nodes.as_mut().filter(|_| self.is_served) else { return Ok(false) };
        for far in self.runner.take_far() {
            nodes.begin(far);
        }
        let runs = Interpreter { runner: &mut self.runner, state: &mut self.state };
        let has_come = nodes.exchange(&mut self.bootstrap, runs)?;
        for (number, slot) in nodes.take_released() {
            if let Some(rank) = self.state.ranks.get(&number) {
                rank.served.release(slot);
            }
        }
        Ok(has_come)
    }

    /// Tells the rank how an operation has ended.
    fn finish(&mut self, run: RunId, outcome: Result) {
        let Some(operation) = self.state.operations.get_mut(run).and_then(Option::take) else { return };
        let (number, slot) = (operation.rank, operation.slot);
        let Some(rank) = self.state.ranks.get(&number) else { return };
        if let Some(nodes) = &mut self.nodes {
            if outcome.is_err() {
                nodes.forget_run(run);
            }
            if let Some(senders) = nodes.hold((number, slot), &operation.schedule, &operation.identity) {
                rank.served.hold(slot, &senders);
            }
        }
        end(rank, slot, outcome);
    }

    /// Sleeps unless something has come since the last look.
    fn sleep(&mut self) -> Result {
        if let Some(nodes) = &mut self.nodes {
            nodes.arm();
            if self.exchange()? {
                self.nodes.as_mut().into_iter().for_each(Nodes::disarm);
                return Ok(());
            }
        }
        self.sleep_armed();
        self.nodes.as_mut().into_iter().for_each(Nodes::disarm);
        Ok(())
    }

    fn sleep_armed(&mut self) {
        // The exchange may have filled a connection that had room before.
        self.nodes.as_mut().into_iter().for_each(Nodes::arm);
        let limit = self.nodes.as_ref().map_or(Some(None), Nodes::may_sleep);
        let ranks = &self.state.ranks;
        let word = |rank: &Rank, asleep: bool| {
            let word = rank.served.area().worker_sleeps(self.index);
            if asleep { sleep::fall_asleep(&word) } else { sleep::awake(&word) }
        };
        ranks.values().for_each(|rank| word(rank, true));
        let has_more = self.is_served && ranks.values().any(|rank| rank.served.has_more());
        let cancelled = |operation: &Operation| {
            ranks.get(&operation.rank).is_some_and(|rank| rank.served.is_cancelled(operation.slot))
        };
        if let Some(limit) = limit
            && !has_more
            && self.runs_where(cancelled).is_empty()
        {
            let milliseconds = limit.map_or(-1, |limit| limit.as_millis().clamp(1, 1000) as i32);
            let _ = self.epoll.wait(milliseconds, &mut Vec::new());
        }
        ranks.values().for_each(|rank| word(rank, false));
    }
}

fn end(rank: &Rank, slot: u32, outcome: Result) {
    if rank.served.end(slot, number_of(outcome)) {
        rank.bell.ring();
    }
}

/// Does the write again that was under way when the worker before this one ended.
fn redo(rank: &Rank, places: &[(u64, u32, u64)], runs: &[(Rc<Portable>, Identity, Progress)]) {
    let Some(entry) = rank.served.read_journal() else { return };
    let mine = places.iter().position(|(_, slot, sequence)| (*slot, *sequence) == (entry.slot, entry.sequence));
    if let Some(at) = mine
        && rank.served.position(entry.slot) == entry.position
        && runs[at].0.announces(mpi::coll::portable::regions::Access::Write, entry.address, entry.bytes.len())
        && rank.way.as_ref().is_some_and(|way| way.write(entry.address, &entry.bytes).is_ok())
    {
        let position = position_of(entry.position);
        rank.served.set_position(entry.slot, word_of(Position { part: position.part.wrapping_add(1), ..position }));
    }
    rank.served.clear_journal();
}

/// How far an operation has come, as its slot says.
fn progress_of(rank: &Rank, slot: u32, endpoints: usize) -> Progress {
    let counts = |route: usize| [false, true].map(|sends| rank.served.count(slot, route, sends));
    Progress { position: position_of(rank.served.position(slot)), messages: (0..endpoints).map(counts).collect() }
}
