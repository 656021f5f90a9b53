//! Jobs that ranks spawn, and names of services (MPI-5.0, 11.8 and 11.9.4).
//!
//! A spawned job has an mpiexec of its own, a forked copy of this one with other programs: its *head*. Its hosts, launcher and variables are those of this job
//! unless the request says otherwise. Until the job has connected with its parents its end is the answer to their request; from then on its failure is a
//! failure of this job. This job is over when all jobs that it has spawned are. The head of a spawned job dies with this process.
//!
//! The first head keeps the names of services; the others ask the one above.

use super::Head;
use crate::cli::{AppOptions, Options, StdinTo, hostfile};
use crate::environment;
use crate::link::{Link, packet};
use crate::pollset::PollSet;
use base::{Class, log};
use protocol::control::decode;
use protocol::control::spawn::{Answer, Command, Request};
use protocol::control::tree::{Message, Packet, ROOT};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use sys::process::{Ended, Pid, signals};

/// Most names of services.
const NAMES_MAX: usize = 1 << 16;
/// Spawned jobs at a time.
const JOBS_MAX: usize = 1024;

/// Who has asked: a rank of this job, or the head of a spawned job; and the number of the request there.
#[derive(Clone, Copy)]
enum Asker {
    Rank(u32, u64),
    Below(Pid, u64),
}

/// A job that was spawned.
struct Job {
    pid: Pid,
    link: Link,
    rank: u32,
    number: u64,
    /// Its parents have met it.
    connected: bool,
}

/// See the head of this file.
#[derive(Default)]
pub struct Spawning {
    jobs: Vec<Job>,
    /// The head above, if this job was spawned.
    above: Option<Link>,
    /// Requests that it has got from here.
    asked: u64,
    /// Whose they were.
    askers: HashMap<u64, Asker>,
    names: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Spawning {
    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        self.jobs.iter().map(|job| &job.link).chain(&self.above).for_each(|link| link.register(set));
    }

    /// Whether no spawned job runs.
    pub fn is_over(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Sends a signal to the heads of all spawned jobs.
    pub fn signal(&self, signal: i32) {
        for job in &self.jobs {
            let _ = sys::process::kill(job.pid, signal);
        }
    }

    /// Publishes, looks up or forgets a name.
    fn keep_names(&mut self, request: Request) -> Answer {
        let found = |names: &[(Vec<u8>, Vec<u8>)], name: &[u8]| names.iter().position(|(known, _)| known == name);
        match request {
            Request::Publish { service, .. } if found(&self.names, &service).is_some() => {
                Answer::failed(Class::ERR_SERVICE, "the service is published already")
            }
            Request::Publish { .. } if self.names.len() >= NAMES_MAX => {
                Answer::failed(Class::ERR_SERVICE, "too many services are published")
            }
            Request::Publish { service, port } => {
                self.names.push((service, port));
                Answer::done(b"")
            }
            Request::Lookup { service } => match found(&self.names, &service) {
                Some(at) => Answer::done(&self.names[at].1),
                None => Answer::failed(Class::ERR_NAME, "no such service is published"),
            },
            Request::Unpublish { service, port } => match found(&self.names, &service) {
                Some(at) if self.names[at].1 == port => {
                    self.names.swap_remove(at);
                    Answer::done(b"")
                }
                _ => Answer::failed(Class::ERR_SERVICE, "no such service is published with this port"),
            },
            Request::Spawn { .. } | Request::Connected { .. } | Request::Agree { .. } | Request::Revoke { .. } => {
                Answer::failed(Class::ERR_INTERN, "a head asks what only ranks may")
            }
        }
    }
}

impl Head {
    /// A rank asks.
    pub(super) fn on_ask(&mut self, rank: u32, number: u64, request: Request) {
        match request {
            Request::Spawn { commands, port, directory } => {
                if let Err(why) = self.spawn((rank, number), &commands, port, &directory) {
                    self.answer(Asker::Rank(rank, number), Answer::failed(Class::ERR_SPAWN, &why));
                }
            }
            Request::Connected { number } => {
                let spawned = self.spawning.jobs.iter_mut().find(|job| (job.rank, job.number) == (rank, number));
                if let Some(job) = spawned {
                    job.connected = true;
                }
            }
            Request::Agree { vote } => self.on_vote(rank, number, vote),
            Request::Revoke { context } => self.revoke(context),
            request => self.ask_for_name(Asker::Rank(rank, number), request),
        }
    }

    fn ask_for_name(&mut self, asker: Asker, request: Request) {
        let spawning = &mut self.spawning;
        if let Some(above) = &mut spawning.above {
            spawning.asked += 1;
            spawning.askers.insert(spawning.asked, asker);
            return above.send(packet(ROOT, Message::Ask { rank: 0, number: spawning.asked, request }));
        }
        let answer = spawning.keep_names(request);
        self.answer(asker, answer);
    }

    /// Answers a rank of this job.
    pub(super) fn answer_rank(&mut self, rank: u32, number: u64, answer: Answer) {
        self.answer(Asker::Rank(rank, number), answer);
    }

    fn answer(&mut self, asker: Asker, answer: Answer) {
        match asker {
            Asker::Rank(rank, number) => {
                let Some(node) = self.job.ranks.get(rank as usize).map(|placed| placed.node) else { return };
                self.send(node, Message::Answer { rank, number, answer });
            }
            Asker::Below(pid, number) => {
                if let Some(job) = self.spawning.jobs.iter_mut().find(|job| job.pid == pid) {
                    job.link.send(packet(ROOT, Message::Answer { rank: 0, number, answer }));
                }
            }
        }
    }

    /// Talks with the heads above and below.
    pub(super) fn serve_heads(&mut self, set: &PollSet) {
        let mut asked = Vec::new();
        for job in &mut self.spawning.jobs {
            job.link.handle(set);
            while let Ok(Some(body)) = job.link.next_packet() {
                match decode::<Packet>(&body).map(|packet| packet.body) {
                    Ok(Message::Ask { number, request, .. }) => asked.push((Asker::Below(job.pid, number), request)),
                    _ => log!(Warn, "the head of a spawned job says something else than a request"),
                }
            }
        }
        asked.into_iter().for_each(|(asker, request)| self.ask_for_name(asker, request));
        let mut answers = Vec::new();
        if let Some(above) = &mut self.spawning.above {
            above.handle(set);
            while let Ok(Some(body)) = above.next_packet() {
                if let Ok(Message::Answer { number, answer, .. }) = decode::<Packet>(&body).map(|packet| packet.body) {
                    answers.extend(self.spawning.askers.remove(&number).map(|asker| (asker, answer)));
                }
            }
        }
        answers.into_iter().for_each(|(asker, answer)| self.answer(asker, answer));
    }

    /// Starts the head of a spawned job.
    fn spawn(
        &mut self,
        (rank, number): (u32, u64),
        commands: &[Command],
        port: String,
        directory: &[u8],
    ) -> Result<(), String> {
        if !self.job.adopted_from.is_empty() {
            return Err(format!("jobs that {} has started can't spawn others", self.job.adopted_from));
        }
        if self.clock.is_ending() {
            return Err("the job ends".into());
        }
        if self.spawning.jobs.len() >= JOBS_MAX {
            return Err(format!("{JOBS_MAX} spawned jobs run already"));
        }
        let options = options_for(&self.options, commands, port, directory)?;
        let wrong = |e: std::io::Error| format!("cannot start another mpiexec: {e}");
        let (ours, theirs) = UnixStream::pair().map_err(wrong)?;
        let (theirs, parent) = (OwnedFd::from(theirs), std::process::id() as Pid);
        let head = || run_spawned(options, parent, &theirs);
        let pid = sys::process::fork_run(&[theirs.as_fd()], head).map_err(wrong)?;
        let link = Link::over_socket(ours.into()).map_err(wrong)?;
        self.spawning.jobs.push(Job { pid, link, rank, number, connected: false });
        Ok(())
    }

    /// A process has ended; true if it was the head of a spawned job.
    pub(super) fn on_spawned_end(&mut self, pid: Pid, how: Ended) -> bool {
        let Some(at) = self.spawning.jobs.iter().position(|job| job.pid == pid) else { return false };
        let job = self.spawning.jobs.swap_remove(at);
        let code = match how {
            Ended::Exit(code) => code,
            Ended::Signal(signal, _) => 128 + signal,
            Ended::Unseen => 1,
        };
        if !job.connected {
            let why = match code {
                0 => "the spawned processes have ended without calling MPI_Init".to_string(),
                code => format!("the spawned processes did not start, or ended in MPI_Init (exit code {code})"),
            };
            self.answer(Asker::Rank(job.rank, job.number), Answer::failed(Class::ERR_SPAWN, &why));
        } else if code != 0 {
            let text = format!("a job that rank {} has spawned failed with exit code {code}", job.rank);
            self.verdict.add(text.clone(), code, false);
            match self.job.continue_on_failure && !self.clock.is_ending() {
                true => eprintln!("mpiexec: {text}; the others go on"),
                false => self.end(),
            }
        }
        true
    }
}

/// Runs in the forked copy of mpiexec.
fn run_spawned(options: Options, parent: Pid, link: &OwnedFd) -> i32 {
    let _ = sys::process::new_session();
    let _ = sys::process::set_death_signal(signals::KILL, parent);
    let above = match link.try_clone().and_then(Link::over_socket) {
        Ok(above) => above,
        Err(e) => {
            eprintln!("mpiexec: cannot spawn: {e}");
            return 1;
        }
    };
    let head = Head::new(options).map(|mut head| {
        head.spawning.above = Some(above);
        head
    });
    super::run_head(head, "mpiexec: cannot spawn")
}

/// The command line that a spawned job would have had. What names places, files or services of this job's own isn't passed on.
fn options_for(ours: &Options, commands: &[Command], port: String, directory: &[u8]) -> Result<Options, String> {
    if ours.container.engine.is_some() {
        return Err("jobs in containers can't spawn others".into());
    }
    let apps = commands.iter().filter(|command| command.count > 0);
    let apps = apps.map(|command| app_of(ours, command, directory)).collect::<Result<Vec<_>, _>>()?;
    Ok(Options {
        apps,
        parent_port: Some(port),
        stdin: StdinTo::None,
        timeout_s: None,
        rank_file: None,
        rank_map: Vec::new(),
        bind_to: None,
        map_by_pe: None,
        file_patterns: [None, None],
        output_directory: None,
        report_startup: false,
        startup_file: None,
        profile: None,
        profile_detail: false,
        profile_slice_s: None,
        fabric: None,
        comm_pattern: None,
        preload: false,
        preload_files: Vec::new(),
        warnings: Vec::new(),
        ..ours.clone()
    })
}

fn app_of(ours: &Options, command: &Command, directory: &[u8]) -> Result<AppOptions, String> {
    let base = Path::new(OsStr::from_bytes(directory));
    let wanted = Path::new(OsStr::from_bytes(&command.directory));
    // An absolute path replaces the base.
    let place = base.join(wanted);
    let mut argv: Vec<OsString> = command.argv.iter().map(|word| OsString::from_vec(word.clone())).collect();
    let Some(name) = argv.first_mut() else { return Err("a program has no name".into()) };
    if !command.path.is_empty() && !name.as_bytes().contains(&b'/') {
        let path = OsStr::from_bytes(&command.path);
        let found = environment::find_program(name.as_bytes(), Some(path), Some(place.as_os_str()));
        let found = found.map_err(|e| format!("{} is not in the path {}: {e}", name.display(), path.display()))?;
        *name = OsString::from_vec(found.into_bytes());
    }
    let hosts = match (command.hosts.as_str(), command.host_file.as_str()) {
        ("", "") => None,
        ("", file) => {
            let text = std::fs::read_to_string(base.join(file)).map_err(|e| format!("host file {file}: {e}"))?;
            Some(hostfile::parse_file(&text)?)
        }
        (list, _) => Some(hostfile::parse_list(list)?),
    };
    let keep = ours.apps.first().and_then(|app| app.keep.clone());
    let directory = (!place.as_os_str().is_empty()).then(|| place.into_os_string());
    Ok(AppOptions { argv, count: Some(command.count), hosts, directory, set: Vec::new(), keep })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str) -> Command {
        Command {
            argv: vec![name.into(), b"x".to_vec()],
            count: 2,
            directory: Vec::new(),
            path: Vec::new(),
            hosts: String::new(),
            host_file: String::new(),
        }
    }

    #[test]
    fn a_spawned_job_takes_over_what_is_not_this_jobs_own() {
        let ours = Options { verbose: true, rank_map: vec![1], timeout_s: Some(3.0), ..Options::default() };
        let hosts = Command { hosts: "one,two:2".into(), directory: b"sub".to_vec(), ..command("./a") };
        let none = Command { count: 0, ..command("b") };
        let spawned = options_for(&ours, &[hosts, none], "port".into(), b"/tmp").unwrap();
        assert!(spawned.verbose && spawned.rank_map.is_empty() && spawned.timeout_s.is_none());
        assert_eq!(spawned.apps.len(), 1, "a program without processes isn't one");
        assert_eq!(spawned.apps[0].directory.as_deref(), Some(OsStr::new("/tmp/sub")));
        assert_eq!(spawned.apps[0].hosts.as_ref().map(Vec::len), Some(2));
        let path = Command { path: b"/nonexistent:/bin".to_vec(), ..command("sh") };
        let spawned = options_for(&ours, &[path], "port".into(), b"/tmp").unwrap();
        assert_eq!(spawned.apps[0].argv[0], "/bin/sh");
        let missing = Command { path: b"/nonexistent".to_vec(), ..command("sh") };
        assert!(options_for(&ours, &[missing], "port".into(), b"/tmp").is_err());
    }

    #[test]
    fn a_name_is_published_once() {
        let mut names = Spawning::default();
        let publish = |port: &[u8]| Request::Publish { service: b"s".to_vec(), port: port.to_vec() };
        let unpublish = |port: &[u8]| Request::Unpublish { service: b"s".to_vec(), port: port.to_vec() };
        let lookup = || Request::Lookup { service: b"s".to_vec() };
        let class = |answer: Answer| Class(answer.class);
        assert_eq!(class(names.keep_names(lookup())), Class::ERR_NAME);
        assert_eq!(names.keep_names(publish(b"p")), Answer::done(b""));
        assert_eq!(class(names.keep_names(publish(b"q"))), Class::ERR_SERVICE);
        assert_eq!(names.keep_names(lookup()), Answer::done(b"p"));
        assert_eq!(class(names.keep_names(unpublish(b"q"))), Class::ERR_SERVICE);
        assert_eq!(names.keep_names(unpublish(b"p")), Answer::done(b""));
        assert_eq!(class(names.keep_names(unpublish(b"p"))), Class::ERR_SERVICE);
    }
}
