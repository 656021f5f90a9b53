//! The workers of `mpiexec --offload`: the agent starts them beside its ranks, tells them of each rank, and starts another one when one dies. They die with the agent, and
//! are killed when the last rank has ended.

use super::fdlink::FdLink;
use super::start::{CONTROL_FD, job_info};
use super::{Agent, Killing, Life};
use crate::environment::{self, Pair};
use crate::pollset::PollSet;
use base::{WorldRank, log};
use protocol::control::handshake::Key;
use protocol::control::rank::{OFFLOAD_FDS, Offload};
use protocol::control::tree::{JobSpec, Message, ROOT};
use protocol::control::{EndpointAddress, JobInfo, ToAgent, ToRank};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use sys::affinity::CpuSet;
use sys::process::{Ended, Pid, Spawn, signals};

/// The program, beside mpiexec.
const PROGRAM: &str = "ferrule-worker";
/// Workers that end by themselves one after another, after which the job ends, too.
const FAULTS_MAX: u32 = 8;

/// A worker.
struct Worker {
    pid: Pid,
    control: Option<FdLink>,
    info: Box<JobInfo>,
    /// Where it listens; empty until it has said so.
    tcp: Vec<SocketAddr>,
    /// The settings among the variables of the ranks.
    settings: Vec<Pair>,
    /// How often it has ended by a fault of its own.
    faults: u32,
}

impl Worker {
    fn register(&self, set: &mut PollSet) {
        if let Some(control) = &self.control {
            control.register(set);
        }
    }

    fn send(&mut self, message: &ToRank, fds: Vec<Rc<OwnedFd>>) {
        if self.control.as_mut().is_some_and(|control| control.send(message, fds).is_err()) {
            self.control = None;
        }
    }

    fn tell_rank(&mut self, world: u32, fds: &[Rc<OwnedFd>]) {
        let peer = WorldRank(world);
        let (address, fd_count) = (Box::new(EndpointAddress::default()), fds.len() as u8);
        self.send(&ToRank::Address { peer, address, fd_count, far: String::new() }, fds.to_vec());
    }
}

/// The workers of this node.
pub struct Workers {
    list: Vec<Worker>,
    /// Indices and nodes of workers of other nodes that are told where the worker of their index listens here.
    askers: BTreeSet<(u32, u32)>,
    /// Known to agents and workers only.
    key: Key,
}

impl Workers {
    /// None yet, in a job with this key.
    pub fn new(key: Key) -> Workers {
        Workers { list: Vec::new(), askers: BTreeSet::new(), key: key.derive(b"workers") }
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        self.list.iter().for_each(|worker| worker.register(set));
    }

    fn find(&mut self, index: u32) -> Option<&mut Worker> {
        self.list.iter_mut().find(|worker| worker.info.offload.index == Some(index))
    }
}

/// Starts the program with one end of a socket, and with the settings among the variables of the ranks; our end.
fn spawn(file_limit: u64, settings: &[Pair]) -> std::io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let inode = File::from(theirs.try_clone()?).metadata()?.ino();
    let path = std::env::current_exe()?.with_file_name(PROGRAM);
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut env = environment::inherited();
    for (name, value) in settings {
        environment::set(&mut env, name, value);
    }
    environment::set(&mut env, b"FERRULE_CONTROL_FD", format!("{CONTROL_FD}:{inode}").as_bytes());
    let env: Vec<CString> = env.iter().filter_map(|(name, value)| environment::join(name, value)).collect();
    let null = File::open("/dev/null")?;
    let errors = std::io::stderr();
    let fds = [(null.as_fd(), 0), (errors.as_fd(), 1), (errors.as_fd(), 2), (theirs.as_fd(), CONTROL_FD)];
    let pid = sys::process::spawn(&Spawn {
        death_signal: signals::KILL,
        own_group: true,
        file_limit: Some(file_limit),
        ..Spawn::new(&path, std::slice::from_ref(&path), &env, &fds)
    })
    .map_err(|(_, error)| error)?;
    Ok((pid, ours.into()))
}

impl Agent {
    /// Starts the workers of this node, which has these ranks.
    /// Ranks are bound to the CPUs `bound`: workers leave these to them if there are others.
    pub(super) fn start_workers(&mut self, job: &JobSpec, locals: &[u32], bound: &CpuSet) -> Result<(), String> {
        let Some(first) = locals.first().filter(|_| job.offload > 0) else { return Ok(()) };
        let spare = sys::affinity::allowed().map(|all| all.without(bound)).unwrap_or_default();
        let spare = if bound.count() > 0 { spare.iter().map(|cpu| cpu as u32).collect() } else { Vec::new() };
        for index in 0..job.offload {
            let info = Box::new(JobInfo {
                rank: WorldRank(*first),
                app_num: Some(0),
                key: self.workers.key.0,
                // It counts them itself.
                node_cpus: 0,
                bound_cpus: spare.clone(),
                offload: Offload { workers: job.offload, index: Some(index), node: self.node, ..Offload::default() },
                ..job_info(job, locals.to_vec())
            });
            let of_ranks = job.apps.first().map_or(&[][..], |app| &app.set);
            let settings = of_ranks.iter().filter(|(name, _)| name.starts_with(b"FERRULE_")).cloned().collect();
            let mut worker = Worker { pid: 0, control: None, info, tcp: Vec::new(), settings, faults: 0 };
            self.run_worker(&mut worker)?;
            self.workers.list.push(worker);
        }
        Ok(())
    }

    fn run_worker(&self, worker: &mut Worker) -> Result<(), String> {
        let (pid, socket) =
            spawn(self.file_limit, &worker.settings).map_err(|e| format!("{PROGRAM} can't be started: {e}"))?;
        worker.pid = pid;
        worker.control = Some(FdLink::new(socket));
        let job = worker.info.clone();
        worker.send(&ToRank::Job { job }, Vec::new());
        for rank in self.ranks.iter().filter(|rank| !rank.offload.is_empty()) {
            worker.tell_rank(rank.world, &rank.offload);
        }
        worker.send(&ToRank::Served {}, Vec::new());
        Ok(())
    }

    pub(super) fn poll_workers(&mut self, set: &PollSet) {
        let mut said = Vec::new();
        for worker in &mut self.workers.list {
            let Some(control) = worker.control.as_mut().filter(|control| control.is_ready(set)) else { continue };
            loop {
                match control.next_message(|_: &ToAgent| 0) {
                    Ok(Some((message, _))) => said.push((worker.info.offload.index.unwrap_or(0), message)),
                    Ok(None) if control.flush().is_ok() => break,
                    // Its end, which is reaped.
                    _ => {
                        worker.control = None;
                        break;
                    }
                }
            }
        }
        for (index, message) in said {
            match message {
                ToAgent::Register { address, .. } => self.on_worker_listens(index, address.tcp),
                ToAgent::FindWorker { node } if node == self.node => {}
                ToAgent::FindWorker { node } => {
                    self.send_up_or_down(node, Message::FindWorker { index, from: self.node });
                }
                other => log!(Warn, "worker {index} said what only ranks say: {other:?}"),
            }
        }
    }

    /// A worker of this node has told where it listens.
    fn on_worker_listens(&mut self, index: u32, tcp: Vec<SocketAddr>) {
        let Some(worker) = self.workers.find(index) else { return };
        worker.tcp = tcp;
        for (_, node) in self.workers.askers.clone().into_iter().filter(|(wanted, _)| *wanted == index) {
            self.tell_where(index, node);
        }
    }

    /// A worker of another node wants to know where the one of this index is here.
    pub(super) fn on_find_worker(&mut self, index: u32, from: u32) {
        self.workers.askers.insert((index, from));
        self.tell_where(index, from);
    }

    fn tell_where(&mut self, index: u32, to: u32) {
        let Some(worker) = self.workers.find(index).filter(|worker| !worker.tcp.is_empty()) else { return };
        let (incarnation, tcp) = (worker.info.offload.incarnation, worker.tcp.clone());
        self.send_up_or_down(to, Message::WorkerAt { node: self.node, index, incarnation, tcp });
    }

    /// The answer from another node.
    pub(super) fn on_worker_at(&mut self, node: u32, index: u32, incarnation: u32, tcp: Vec<SocketAddr>) {
        if let Some(worker) = self.workers.find(index) {
            worker.send(&ToRank::WorkerAt { node, incarnation, tcp }, Vec::new());
        }
    }

    /// A rank somewhere is dead: what workers have to do with it is over.
    pub(super) fn tell_workers_of_death(&mut self, peer: WorldRank) {
        let gone = ToRank::PeerGone { peer, host: String::new(), why: String::new() };
        self.workers.list.iter_mut().for_each(|worker| worker.send(&gone, Vec::new()));
    }

    /// A rank wants to be served.
    pub(super) fn serve(&mut self, at: usize, fds: Vec<OwnedFd>) {
        let rank = &mut self.ranks[at];
        let world = rank.world;
        if fds.len() != OFFLOAD_FDS {
            let why = format!(
                "descriptors of rank {world} for its workers got lost: open files are at their limit (ulimit -n)"
            );
            return self.send_up(ROOT, Message::NodeLost { node: self.node, why });
        }
        rank.offload = fds.into_iter().map(Rc::new).collect();
        let fds = rank.offload.clone();
        self.workers.list.iter_mut().for_each(|worker| worker.tell_rank(world, &fds));
    }

    /// A rank has ended, or left MPI.
    pub(super) fn stop_serving(&mut self, world: u32) {
        let Some(rank) = self.ranks.iter_mut().find(|rank| rank.world == world) else { return };
        if std::mem::take(&mut rank.offload).is_empty() {
            return;
        }
        self.tell_workers_of_death(WorldRank(world));
    }

    /// A worker has ended: another one goes on with what it has left, as long as there are ranks.
    pub(super) fn on_worker_end(&mut self, pid: Pid, how: Ended) {
        let Some(at) = self.workers.list.iter().position(|worker| worker.pid == pid) else { return };
        self.workers.list[at].pid = 0;
        let over = !matches!(self.life, Life::Running) || self.ranks.iter().all(|rank| rank.ended.is_some());
        if over || self.killing != Killing::No {
            return;
        }
        let words = crate::children::describe(how);
        let mut worker = self.workers.list.swap_remove(at);
        worker.faults += u32::from(!matches!(how, Ended::Signal(signals::KILL, _)));
        worker.info.offload.incarnation += 1;
        worker.tcp.clear();
        let index = worker.info.offload.index.unwrap_or(0);
        log!(Warn, "worker {index} (pid {pid}) {words}; another one goes on with its operations");
        let again = if worker.faults > FAULTS_MAX {
            Err(format!("worker {index} ends again and again, at last: it {words}"))
        } else {
            self.run_worker(&mut worker)
        };
        self.workers.list.push(worker);
        if let Err(why) = again {
            self.send_up(ROOT, Message::NodeLost { node: self.node, why });
        }
    }
}
