//! One rank as its agent sees it: process, control socket, output pipes.

use super::Agent;
use super::fdlink::FdLink;
use super::profile::Counts;
use crate::orphans::parent_of;
use crate::pollset::PollSet;
use base::{WorldRank, log};
use protocol::control::epoch::Order;
use protocol::control::rank::{OFFLOAD_FDS, Region, Times};
use protocol::control::tree::{Message, Phase, ROOT};
use protocol::control::{EndpointAddress, JobInfo, ToAgent, ToRank};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use sys::process::{Ended, Pid};
use sys::watch::Watched;

use super::output::Stream;

/// A rank.
pub struct Rank {
    /// World rank.
    pub world: u32,
    /// Process, which also leads its group.
    pub pid: Pid,
    /// How far it has come.
    pub phase: Phase,
    /// How it ended.
    pub ended: Option<Ended>,
    /// It called `MPI_Abort`.
    pub aborted: bool,
    /// What it registered.
    pub address: Option<(EndpointAddress, Vec<Rc<OwnedFd>>)>,
    /// When its process was begun and when it ran, on the monotonic clock.
    pub spawned_ns: (u64, u64),
    /// What workers need to serve it.
    pub offload: Vec<Rc<OwnedFd>>,
    /// How its first program has started, if it said.
    pub times: Option<Box<Times>>,
    /// Number of programs that it has finalized.
    pub generation: u32,
    /// A step of a migration epoch that it has not answered.
    pub ordered: Option<Order>,
    /// Where its programs count what they send, if they do.
    pub counts: Vec<Counts>,
    /// What is told to this rank only.
    pub own: Own,
    pub(super) streams: [Stream; 2],
    control: Control,
    /// The description of the job, but for [`Rank::own`]; it waits until it is known which nodes share this kernel.
    job: Option<Rc<JobInfo>>,
    /// Messages for after that.
    held: Vec<(ToRank, Vec<Rc<OwnedFd>>)>,
    /// Its process, if another launcher is its parent and its pid means something here.
    watched: Option<Watched>,
    /// Its parent: the launcher's process on this node, or what that has wrapped the rank in.
    launcher: Option<Watched>,
}

/// What of a job's description belongs to one rank.
#[derive(Default)]
pub struct Own {
    /// Index of its program.
    pub app: u32,
    /// That program.
    pub words: Rc<Words>,
    /// CPUs that it is bound to.
    pub bound_cpus: Vec<u32>,
    /// Its part of a region that kernels share.
    pub region: Region,
    /// The file that it is to make for its inbox, or nothing.
    pub inbox_file: Vec<u8>,
}

/// How a program was called, the same for all of its ranks.
#[derive(Default)]
pub struct Words {
    /// Its name and arguments.
    pub command: Vec<String>,
    /// Its working directory.
    pub working_directory: String,
}

/// The socket of a rank.
enum Control {
    /// It has not called its agent yet.
    Awaited,
    Open(Box<FdLink>),
    Closed,
}

impl Rank {
    /// A rank that has just been started. It learns its job when it is introduced.
    pub(super) fn started(
        world: u32,
        own: Own,
        (pid, began_ns, spawned_ns): (Pid, u64, u64),
        socket: OwnedFd,
        streams: [Stream; 2],
    ) -> Rank {
        let control = Control::Open(Box::new(FdLink::new(socket)));
        Rank { pid, spawned_ns: (began_ns, spawned_ns), control, streams, ..Rank::absent(world, own) }
    }

    /// A rank that another launcher starts.
    pub(super) fn absent(world: u32, own: Own) -> Rank {
        Rank {
            world,
            pid: 0,
            phase: Phase::Started {},
            ended: None,
            aborted: false,
            address: None,
            spawned_ns: (0, 0),
            offload: Vec::new(),
            times: None,
            generation: 0,
            ordered: None,
            counts: Vec::new(),
            own,
            streams: [Stream::ended(), Stream::ended()],
            control: Control::Awaited,
            job: None,
            held: Vec::new(),
            watched: None,
            launcher: None,
        }
    }

    /// Whether it is known what the rank is told of its job.
    pub(super) fn is_introduced(&self) -> bool {
        self.job.is_some()
    }

    /// The absent rank has called; `pid` is 0 if it is in another pid namespace.
    pub(super) fn adopt(&mut self, socket: OwnedFd, pid: Pid) {
        self.pid = pid;
        self.watched = if pid > 0 { Watched::open(pid).ok() } else { None };
        let above = self.watched.as_ref().and_then(|_| parent_of(pid)).filter(|above| *above > 1);
        self.launcher = above.and_then(|above| Watched::open(above).ok());
        self.control = Control::Open(Box::new(FdLink::new(socket)));
        self.tell_job();
    }

    /// Whether it still has to call.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.control, Control::Awaited)
    }

    /// Signals a rank that isn't this agent's child; one that can't be signalled loses its agent instead.
    pub(super) fn signal_adopted(&self, signal: i32) {
        if let Some(watched) = &self.watched {
            let _ = watched.signal(signal);
        }
    }

    /// Whether an adopted rank is gone: its process has ended, or its connection has.
    pub(super) fn has_vanished(&self, set: &PollSet) -> bool {
        let over = self.watched.as_ref().is_some_and(|w| set.readable(w));
        over || matches!(self.control, Control::Closed)
    }

    /// Whether an adopted rank has just lost its launcher. (What a rank is wrapped in ends after it, as a rule: no loss to anybody.)
    pub(super) fn is_deserted(&mut self, set: &PollSet) -> bool {
        let alone = self.ended.is_none() && self.launcher.take_if(|above| set.readable(&*above)).is_some();
        alone && self.watched.as_ref().is_some_and(|rank| !rank.has_ended())
    }

    /// What the rank is told of its job, now or when it calls, is this and [`Rank::own`].
    pub(super) fn introduce(&mut self, job: Rc<JobInfo>) {
        self.job = Some(job);
        self.tell_job();
    }

    /// Sends the description of the job, and what has waited for that.
    fn tell_job(&mut self) {
        let (Some(job), Control::Open(_)) = (&self.job, &self.control) else { return };
        let (own, mut job) = (&self.own, Box::new(JobInfo::clone(job)));
        job.rank = WorldRank(self.world);
        job.app_num = Some(own.app);
        job.command.clone_from(&own.words.command);
        job.working_directory.clone_from(&own.words.working_directory);
        job.bound_cpus.clone_from(&own.bound_cpus);
        job.region = own.region.clone();
        job.inbox_file.clone_from(&own.inbox_file);
        job.startup.generation = self.generation;
        self.send(&ToRank::Job { job }, Vec::new());
        for (message, fds) in std::mem::take(&mut self.held) {
            self.send(&message, fds);
        }
    }

    /// Queues a message and writes what can be written.
    pub fn send(&mut self, message: &ToRank, fds: Vec<Rc<OwnedFd>>) {
        match &mut self.control {
            Control::Awaited => self.held.push((message.clone(), fds)),
            Control::Open(_) if self.job.is_none() => self.held.push((message.clone(), fds)),
            Control::Open(link) => {
                if link.send(message, fds).is_err() {
                    self.control = Control::Closed;
                }
            }
            Control::Closed => {}
        }
    }

    /// Forgets the control socket and the endpoint address's descriptors.
    pub fn close_control(&mut self) {
        self.control = Control::Closed;
        self.address = None;
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet, output_open: bool) {
        if let Control::Open(link) = &self.control {
            link.register(set);
        }
        for process in [&self.watched, &self.launcher].into_iter().flatten().filter(|_| self.ended.is_none()) {
            set.add(process, true, false);
        }
        for stream in &self.streams {
            stream.register(set, output_open);
        }
    }

    /// Whether both output streams have ended.
    pub fn output_is_at_end(&self) -> bool {
        self.streams.iter().all(Stream::is_at_end)
    }

    /// Writes what can be written.
    fn flush(&mut self) {
        if let Control::Open(link) = &mut self.control
            && link.flush().is_err()
        {
            self.control = Control::Closed;
        }
    }

    fn control_ready(&self, set: &PollSet) -> bool {
        matches!(&self.control, Control::Open(link) if link.is_ready(set))
    }

    /// The next message of the rank; closes the socket when it breaks the protocol or hangs up.
    fn next_message(&mut self) -> Option<(ToAgent, Vec<OwnedFd>)> {
        let announced = |message: &ToAgent| match message {
            ToAgent::Register { fd_count, .. } => *fd_count,
            ToAgent::Profile {} => 1,
            ToAgent::Offload {} => OFFLOAD_FDS as u8,
            _ => 0,
        };
        let Control::Open(link) = &mut self.control else { return None };
        match link.next_message(announced) {
            Ok(message) => message,
            Err(why) => {
                if let Some(why) = why {
                    log!(Warn, "rank {} broke the protocol on its control socket: {why}", self.world);
                }
                self.control = Control::Closed;
                None
            }
        }
    }
}

impl Agent {
    pub(super) fn poll_ranks(&mut self, set: &PollSet) {
        for at in 0..self.ranks.len() {
            if self.ranks[at].control_ready(set) {
                self.ranks[at].flush();
                self.poll_rank(at);
            }
        }
    }

    /// Takes every message that the rank has sent.
    pub(super) fn poll_rank(&mut self, at: usize) {
        while let Some((message, fds)) = self.ranks[at].next_message() {
            self.on_rank_message(at, message, fds);
        }
    }

    fn on_rank_message(&mut self, at: usize, message: ToAgent, fds: Vec<OwnedFd>) {
        let rank = &mut self.ranks[at];
        let world = rank.world;
        match message {
            ToAgent::Register { address, fd_count } => {
                if fds.len() < usize::from(fd_count) && !std::mem::replace(&mut self.short_of_files, true) {
                    log!(
                        Warn,
                        "open files are at their limit (ulimit -n): rank {world} and maybe others get no shared memory"
                    );
                }
                rank.address = Some((address, fds.into_iter().map(Rc::new).collect()));
                self.on_address(at);
            }
            ToAgent::Request { peer } => self.on_request(at, peer),
            ToAgent::Initialized {} => rank.phase = Phase::Initialized {},
            ToAgent::Finalize {} => {
                rank.phase = Phase::Finalized {};
                rank.address = None;
                rank.generation += 1;
                rank.send(&ToRank::Finalized {}, Vec::new());
                rank.tell_job();
                self.addresses.forget(WorldRank(world));
                self.stop_serving(world);
                self.answer_epoch_for(at);
            }
            ToAgent::Barrier {} => self.on_barrier(world),
            ToAgent::Offer { ids } => self.on_offer(at, ids),
            ToAgent::Startup { times } => self.on_times(at, times),
            ToAgent::Profile {} => self.on_profile(at, fds),
            ToAgent::Offload {} => self.serve(at, fds),
            ToAgent::Ask { number, request } => self.send_up(ROOT, Message::Ask { rank: world, number, request }),
            ToAgent::Moved { address } => {
                if let Some(registered) = &mut rank.address {
                    registered.0 = address;
                }
            }
            ToAgent::Epoch { done } => self.on_epoch_done(at, done),
            // Only workers ask that.
            ToAgent::FindWorker { .. } => {}
            ToAgent::Report { report } => self.send_up(ROOT, Message::Report { rank: world, report }),
            ToAgent::Abort { code, text, ranks } => {
                rank.aborted = true;
                self.send_up(ROOT, Message::Aborted { rank: world, code, text, ranks });
            }
        }
    }
}
