//! The rank's side of its conversation with the node agent: who am I, who are the others, how are they reached, who died.
//!
//! Exchange is on demand: a rank registers its own endpoint address and asks for a peer's when it first needs it, so that init costs O(1) per rank.
//! Invariants: a process started by a launcher that we don't understand is never "rank 0 of 1"; after [`Bootstrap::finalize`] nothing
//! is read that belongs to a next program of the same rank; only [`Bootstrap::barrier`], [`Bootstrap::exchange`],
//! [`Bootstrap::finalize`] and the very first message block.

pub mod adopt;
mod detect;
pub mod launcher;
mod link;
mod pmi1;
mod pmi2;
pub mod pmix;

use base::ids::{JobId, ProcId};
use base::{ContextId, Result, WorldRank, ensure, fail, log};
use launcher::Launcher;
use link::Link;
use protocol::control::epoch::{Done, Order};
use protocol::control::exchange::{Entry, Id, Offer};
use protocol::control::rank::Times;
use protocol::control::spawn::{Answer, Request};
use protocol::control::{self, ToAgent, ToRank, VERSION};
use protocol::processes::{Processes, SharedProcesses};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

pub use protocol::control::rank::{MAX_FDS, OFFLOAD_FDS};
pub use protocol::control::{EndpointAddress, JobInfo};

base::config! {
    /// Run as a job of one rank even if another launcher has started this process, or a rank of a job has.
    SINGLETON: bool = false;
    /// What is logged: error, warn, info or debug.
    LOG: text = "warn";
    /// How another launcher is spoken to: auto, pmi1, pmi2 or pmix.
    PMI: text = "auto";
    /// Path of mpiexec on other hosts, and for ranks that another launcher starts; empty for the same path as here, beside this library.
    AGENT_PATH: text = "";
}

/// What the agent has to say.
#[derive(Debug)]
pub enum Event {
    /// A requested endpoint address; with the descriptors that the peer registered, if it is under this kernel.
    Address {
        /// Whose.
        peer: WorldRank,
        /// The endpoint address.
        address: EndpointAddress,
        /// In the order of registration.
        fds: Vec<OwnedFd>,
        /// Why the peer's node is not taken for near, if somebody knows.
        far: String,
    },
    /// The peer is dead, or has ended without registering.
    PeerGone {
        /// Who.
        peer: WorldRank,
        /// Where.
        host: String,
        /// How, in words.
        why: String,
    },
    /// The answer to [`Bootstrap::ask`].
    Answer {
        /// Number of the request.
        number: u64,
        /// It.
        answer: Answer,
    },
    /// Somebody asks what this rank waits for: [`Bootstrap::report`].
    Dump,
    /// To a worker: all ranks that were there when it started have been told it.
    Served,
    /// A step of a migration epoch: [`Bootstrap::tell_epoch`].
    Epoch(Order),
    /// A communicator is revoked.
    Revoked(ContextId),
    /// To a worker: where the worker of the same index is on another node.
    WorkerAt {
        /// That node.
        node: u32,
        /// Which one in a row of those that have followed each other.
        incarnation: u32,
        /// Where it listens.
        tcp: Vec<SocketAddr>,
    },
}

/// What the launcher says of the other ranks, when endpoints are exchanged through it.
#[derive(Debug)]
pub enum Exchanged {
    /// What all have offered.
    Table(Vec<Offer>),
    /// What this rank needs of that.
    Entries(Vec<Entry>),
    /// The node agent has all endpoint addresses.
    AtAgent,
}

/// The conversation as its users share it: the library, and what finds out how peers are reached.
pub type SharedBootstrap = Rc<RefCell<Bootstrap>>;

/// This process's place in the job.
pub struct Bootstrap {
    job: Rc<JobInfo>,
    processes: SharedProcesses,
    link: Option<Link>,
    events: VecDeque<Event>,
    /// What a singleton has registered.
    own: Option<(EndpointAddress, Vec<OwnedFd>)>,
    /// When joining began and when the job's description had come, on the monotonic clock.
    joined_ns: (u64, u64),
    /// The launcher of others that has started this process.
    launcher: Option<Box<dyn Launcher>>,
    /// It has started this process, even if it has been left since.
    adopted: bool,
    /// The agent has asked what this rank waits for.
    report_asked: bool,
}

/// The connection to the agent of a rank that has left its launcher, for a next use of MPI in the same process.
static PARKED: Mutex<Option<(OwnedFd, Option<u32>)>> = Mutex::new(None);

impl Bootstrap {
    /// Joins the job that the environment names, or makes one of size 1 if no launcher is involved.
    pub fn from_environment() -> Result<Bootstrap> {
        if sys::process::is_privileged() {
            base::config::ignore_environment();
        }
        if !base::log::set_level_named(LOG.value()) {
            log!(Warn, "FERRULE_LOG={} is not error, warn, info or debug", LOG.value());
        }
        if SINGLETON.value() {
            return Ok(Bootstrap::singleton());
        }
        if let Some(text) = variable("FERRULE_CONTROL_FD") {
            return Bootstrap::launched(&text);
        }
        let parked = PARKED.lock().ok().and_then(|mut parked| parked.take());
        if let Some((socket, app_num)) = parked {
            let mut again = Bootstrap::over(socket)?;
            again.adopted(app_num);
            return Ok(again);
        }
        if sys::process::is_privileged() && detect::kind("auto", &variable) != detect::Kind::Nobody {
            // It would have to run programs and load libraries that variables name.
            log!(Error, "a set-user-id program, or one with capabilities, runs under ferrule's mpiexec only");
            fail!(ERR_OTHER, "a set-user-id program was started by another launcher");
        }
        match detect::connect(PMI.value(), &variable)? {
            Some(launcher) => adopt::join(launcher),
            None => Ok(Bootstrap::singleton()),
        }
    }

    fn singleton() -> Bootstrap {
        let job = JobInfo {
            version: VERSION,
            size: 1,
            job_id: u64::from_le_bytes(sys::process::random()),
            key: sys::process::random(),
            node_of: vec![0],
            node_names: vec![sys::process::host_name()],
            kernel_of: vec![0],
            local_ranks: vec![0],
            universe_size: 1,
            command: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
            working_directory: std::env::current_dir().map(|d| d.to_string_lossy().into_owned()).unwrap_or_default(),
            ..JobInfo::default()
        };
        base::log::set_prefix(format!("0@{}", job.node_names[0]));
        Bootstrap {
            processes: processes_of(&job),
            job: Rc::new(job),
            link: None,
            events: VecDeque::new(),
            own: None,
            joined_ns: (0, 0),
            launcher: None,
            adopted: false,
            report_asked: false,
        }
    }

    /// `text` is `fd:inode` of the inherited socket.
    fn launched(text: &str) -> Result<Bootstrap> {
        let Some(socket) = inherited_socket(text) else {
            log!(
                Error,
                "FERRULE_CONTROL_FD={text} is no longer open: this process was started by a rank, which is itself the \
                 MPI process; start it by mpiexec, or set FERRULE_SINGLETON=1 to run it as a job of one rank"
            );
            fail!(ERR_OTHER, "started by a rank of a job instead of by mpiexec");
        };
        Bootstrap::over(socket)
    }

    /// Joins the job of the node agent at the other end of `socket`.
    pub fn over(socket: OwnedFd) -> Result<Bootstrap> {
        let began_ns = sys::clock::now_ns();
        let mut link = Link::new(socket);
        let ToRank::Job { job } = link.read()? else {
            fail!(ERR_OTHER, "the node agent did not begin with the job");
        };
        let mut job = job;
        if sys::process::is_privileged() {
            // The agent belongs to whoever started this program, and must not name files for it.
            (job.inbox_file, job.region) = Default::default();
        }
        let (size, nodes) = (job.size as usize, job.node_names.len());
        let sound = (job.rank.0 as usize) < size && job.node_of.len() == size && job.kernel_of.len() == nodes;
        ensure!(
            sound && job.node_of.iter().all(|n| (*n as usize) < nodes),
            ERR_OTHER,
            "the job's description is wrong"
        );
        let host = &job.node_names[job.node_of[job.rank.0 as usize] as usize];
        base::log::set_prefix(match job.offload.index {
            Some(index) => format!("worker {index}@{host}"),
            None => format!("{}@{host}", job.rank.0),
        });
        let joined_ns = (began_ns, sys::clock::now_ns());
        Ok(Bootstrap {
            processes: processes_of(&job),
            job: Rc::new(*job),
            link: Some(link),
            events: VecDeque::new(),
            own: None,
            joined_ns,
            launcher: None,
            adopted: false,
            report_asked: false,
        })
    }

    /// Fills in what the agent of a rank doesn't know that it has not started.
    fn adopted(&mut self, app_num: Option<u32>) {
        let alone = Bootstrap::singleton().job;
        let job = Rc::make_mut(&mut self.job);
        (job.command, job.working_directory) = (alone.command.clone(), alone.working_directory.clone());
        job.app_num = app_num;
        self.adopted = true;
        let node = self.job.node_of[self.job.rank.0 as usize] as usize;
        base::log::set_prefix(format!("{}@{}", self.job.rank.0, self.job.node_names[node]));
    }

    /// The job.
    pub fn job(&self) -> &Rc<JobInfo> {
        &self.job
    }

    /// The processes that this one knows.
    pub fn processes(&self) -> &SharedProcesses {
        &self.processes
    }

    /// Gives this rank's endpoint address to whoever asks; up to [`MAX_FDS`] descriptors are kept by the agent for ranks under the same kernel.
    pub fn register(&mut self, address: &EndpointAddress, fds: Vec<OwnedFd>) -> Result {
        ensure!(fds.len() <= MAX_FDS, ERR_INTERN, "too many descriptors to register");
        let Some(link) = &mut self.link else {
            self.own = Some((address.clone(), fds));
            return Ok(());
        };
        link.write(&ToAgent::Register { address: address.clone(), fd_count: fds.len() as u8 }, &fds)
    }

    /// From now on this rank listens at another address; what it has registered beside that stays.
    pub fn tell_address(&mut self, address: &EndpointAddress) -> Result {
        self.send(&ToAgent::Moved { address: address.clone() })
    }

    /// Answers [`Event::Epoch`].
    pub fn tell_epoch(&mut self, done: Done) -> Result {
        self.send(&ToAgent::Epoch { done })
    }

    /// When joining the job began, and when its description had come: on the monotonic clock, in nanoseconds.
    pub fn joined_ns(&self) -> (u64, u64) {
        self.joined_ns
    }

    /// From now on, or no more, messages count as those of the exchange of endpoints.
    pub fn count_as_exchange(&mut self, exchanging: bool) {
        if let Some(link) = &mut self.link {
            link.exchanging = exchanging;
        }
    }

    /// Offers `ids` to the other ranks, besides the endpoint address, and waits for what they offer.
    pub fn exchange(&mut self, ids: Vec<Id>) -> Result<Exchanged> {
        self.send(&ToAgent::Offer { ids })?;
        let Some(link) = &mut self.link else { return Ok(Exchanged::Entries(Vec::new())) };
        loop {
            match link.read()? {
                ToRank::Table { offers } => return Ok(Exchanged::Table(offers)),
                ToRank::Entries { entries } => return Ok(Exchanged::Entries(entries)),
                ToRank::Exchanged {} => return Ok(Exchanged::AtAgent),
                message => self.events.extend(link.event(message)?),
            }
        }
    }

    /// Tells where the time of `MPI_Init` went.
    pub fn tell_times(&mut self, times: Times) -> Result {
        self.send(&ToAgent::Startup { times })
    }

    /// Asks for the endpoint address of `peer`; [`Bootstrap::poll`] yields it as soon as the peer has registered.
    pub fn request_address(&mut self, peer: WorldRank) -> Result {
        ensure!(peer.0 < self.job.size, ERR_RANK, "no such rank in the job");
        match self.own.take() {
            Some((address, fds)) => self.events.push_back(Event::Address { peer, address, fds, far: String::new() }),
            None => self.send(&ToAgent::Request { peer })?,
        }
        Ok(())
    }

    /// Asks something of mpiexec; [`Event::Answer`] has the answer.
    pub fn ask(&mut self, number: u64, request: Request) -> Result {
        let Some(link) = &mut self.link else {
            fail!(ERR_UNSUPPORTED_OPERATION, "a process that was started without mpiexec has nobody to ask");
        };
        link.write(&ToAgent::Ask { number, request }, &[])
    }

    /// The next event, without waiting.
    pub fn poll(&mut self) -> Result<Option<Event>> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        let Some(link) = &mut self.link else { return Ok(None) };
        loop {
            let message = match link.try_read() {
                // Not every launcher ends a job whose agents are gone, and this process is nobody's child who would.
                Err(e) if self.adopted => {
                    self.await_turn_to_abort();
                    self.abort(1, e.origin, &[])
                }
                message => message?,
            };
            let Some(message) = message else { return Ok(None) };
            if let Some(event) = link.event(message)? {
                return Ok(Some(event));
            }
        }
    }

    /// Readable when [`Bootstrap::poll`] may have something; none for a singleton.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(|link| link.socket.as_fd())
    }

    /// Waits until every rank has called it. Not a progress engine: for init and finalize.
    pub fn barrier(&mut self) -> Result {
        self.send(&ToAgent::Barrier {})?;
        self.wait_for(|m| matches!(m, ToRank::BarrierDone {}))
    }

    /// `MPI_Abort`: mpiexec exits with `code` and shows `text`. The whole job ends, unless it continues on failure and `ranks` names some.
    /// This process is one of them.
    pub fn abort(&mut self, code: i32, text: &str, ranks: &[WorldRank]) -> ! {
        let status = match code & 0xff {
            0 if code != 0 => 1,
            status => status,
        };
        match &mut self.link {
            None => {
                log!(Error, "abort with code {code}: {text}");
                if let Some(launcher) = &mut self.launcher {
                    sys::process::drain_outputs();
                    launcher.abort(status, text);
                }
            }
            Some(link) => {
                let told = link.write(&ToAgent::Abort { code, text: text.into(), ranks: ranks.to_vec() }, &[]).is_ok();
                // The launcher ends the job with that code; the agents do it if it does not, or if it would lose the code.
                if let Some(launcher) = self.launcher.as_mut().filter(|launcher| !told || launcher.keeps_code()) {
                    if launcher.closes_outputs() {
                        log!(Error, "{text}");
                    }
                    sys::process::drain_outputs();
                    launcher.abort(status, text);
                }
                if told {
                    link.await_end(Duration::from_secs(10));
                }
            }
        }
        sys::process::exit_now(status)
    }

    /// All ranks of a node lose their agent at once. Under PRRTE, which takes 0.6 s to end a job, some of the jobs in which a second one aborts
    /// meanwhile never end (8 of 200). So they take turns, and the first is given time.
    fn await_turn_to_abort(&self) {
        const EACH: Duration = Duration::from_secs(2);
        let ranks = &self.job.local_ranks;
        let turn = ranks.iter().position(|rank| *rank == self.job.rank.0).unwrap_or(0);
        std::thread::sleep(EACH * turn.min(10) as u32);
    }

    /// From now on the agent takes an exit without [`Bootstrap::finalize`] for a failure.
    pub fn initialized(&mut self) -> Result {
        self.send(&ToAgent::Initialized {})
    }

    /// Gives the agent the memory in which this rank counts what it sends.
    pub fn share_profile(&mut self, memory: OwnedFd) -> Result {
        match &mut self.link {
            Some(link) => link.write(&ToAgent::Profile {}, &[memory]),
            None => Ok(()),
        }
    }

    /// Gives the agent what workers need to run collectives for this rank.
    pub fn share_offload(&mut self, fds: [OwnedFd; OFFLOAD_FDS]) -> Result {
        match &mut self.link {
            Some(link) => link.write(&ToAgent::Offload {}, &fds),
            None => Ok(()),
        }
    }

    /// A worker asks where the worker of the same index is on another node: [`Event::WorkerAt`] answers, also when another one takes its place.
    pub fn find_worker(&mut self, node: u32) -> Result {
        self.send(&ToAgent::FindWorker { node })
    }

    /// The agent asks what this rank waits for ([`Event::Dump`]).
    pub fn ask_for_report(&mut self) {
        self.report_asked = true;
    }

    /// Whether somebody has asked since the last call what this rank waits for.
    #[inline]
    pub fn take_report_request(&mut self) -> bool {
        std::mem::take(&mut self.report_asked)
    }

    /// Answers [`Event::Dump`].
    pub fn report(&mut self, report: control::report::Report) -> Result {
        self.send(&ToAgent::Report { report: Box::new(report) })
    }

    /// Ends the conversation: from now on an exit is clean.
    pub fn finalize(&mut self) -> Result {
        self.send(&ToAgent::Finalize {})?;
        self.wait_for(|m| matches!(m, ToRank::Finalized {}))?;
        let link = self.link.take();
        if let Some(mut launcher) = self.launcher.take() {
            launcher.finalize()?;
        }
        if let (true, Some(link), Ok(mut parked)) = (self.adopted, link, PARKED.lock()) {
            *parked = Some((link.socket, self.job.app_num));
        }
        Ok(())
    }

    fn send(&mut self, message: &ToAgent) -> Result {
        match &mut self.link {
            Some(link) => link.write(message, &[]),
            None => Ok(()),
        }
    }

    /// Blocks until `wanted`; other messages become events.
    fn wait_for(&mut self, wanted: impl Fn(&ToRank) -> bool) -> Result {
        let Some(link) = &mut self.link else { return Ok(()) };
        loop {
            let message = link.read()?;
            if wanted(&message) {
                return Ok(());
            }
            if let Some(event) = link.event(message)? {
                self.events.push_back(event);
            }
        }
    }
}

/// At first a process knows those of its own job.
fn processes_of(job: &JobInfo) -> SharedProcesses {
    Processes::shared(ProcId { job: JobId(job.job_id), rank: job.rank }, job.size)
}

fn variable(name: &str) -> Option<String> {
    // Not settings: the launchers' own variables, ours among them.
    std::env::var(name).ok()
}

/// Opens the socket that `fd:inode` names, unless the number means something else by now.
fn inherited_socket(text: &str) -> Option<OwnedFd> {
    let (fd, inode) = text.split_once(':')?;
    let (fd, inode) = (fd.parse().ok()?, inode.parse::<u64>().ok()?);
    let file = std::fs::File::from(sys::process::inherited_socket(fd).ok()?);
    (file.metadata().ok()?.ino() == inode).then(|| file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::frame;
    use std::os::unix::net::UnixStream;

    fn job() -> JobInfo {
        let mut job = JobInfo::clone(Bootstrap::singleton().job());
        job.launched = true;
        job
    }

    fn pair() -> (Bootstrap, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = Some(Link::new(ours.into()));
        let rank = Bootstrap {
            processes: processes_of(&job()),
            job: Rc::new(job()),
            link,
            events: VecDeque::new(),
            own: None,
            joined_ns: (0, 0),
            launcher: None,
            adopted: false,
            report_asked: false,
        };
        (rank, theirs)
    }

    fn address() -> EndpointAddress {
        EndpointAddress { rank_id: 1, pid: 2, uid: 3, numa: Some(0), extra: vec![9], ..EndpointAddress::default() }
    }

    #[test]
    fn addresses_come_with_their_descriptors_and_finalize_leaves_the_rest_unread() {
        let (mut rank, agent) = pair();
        let (reader, writer) = std::io::pipe().unwrap();
        let message =
            ToRank::Address { peer: WorldRank(0), address: Box::new(address()), fd_count: 2, far: String::new() };
        let bytes = frame::frame(&message);
        sys::fdpass::send(agent.as_fd(), &bytes, &[reader.as_fd(), writer.as_fd()], true).unwrap();
        let Some(Event::Address { fds, address: got, .. }) = rank.poll().unwrap() else { panic!() };
        assert_eq!((fds.len(), got), (2, address()));
        assert!(rank.poll().unwrap().is_none());

        let mut bytes = frame::frame(&ToRank::Dump {});
        frame::push(&mut bytes, &ToRank::Finalized {});
        frame::push(&mut bytes, &ToRank::Job { job: Box::new(job()) });
        sys::fdpass::send(agent.as_fd(), &bytes, &[], true).unwrap();
        let socket = rank.link.as_ref().unwrap().socket.try_clone().unwrap();
        rank.finalize().unwrap();
        let mut link = Link::new(socket);
        assert!(matches!(link.read().unwrap(), ToRank::Job { .. }));
        assert!(matches!(rank.poll().unwrap(), Some(Event::Dump)));
    }

    #[test]
    fn a_dead_agent_and_a_lying_one_are_errors() {
        let (mut rank, agent) = pair();
        drop(agent);
        assert!(rank.poll().is_err());
        let (mut rank, agent) = pair();
        sys::fdpass::send(agent.as_fd(), &[0xff; 64], &[], true).unwrap();
        assert!(rank.poll().is_err());
    }
}
