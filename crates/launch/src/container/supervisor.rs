//! The process outside a container that starts it, and removes what is left of it, however the job ends.
//!
//! Life: spec read ─► job directory, copies ─► engine started with our stdio ─ended, or mpiexec gone─► container removed ─► directory
//! removed. A broken pipe on standard output says that mpiexec is gone; the supervisor never writes there.

use super::argv::{self, Found};
use super::calls::ask;
use super::jobdir::JobDir;
use super::{Container, Engine};
use crate::environment::find_program;
use crate::pollset::PollSet;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid, SignalFd, Spawn, kill, signals};

/// How long a container may take to end by itself when its job is over.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long the engine may take for an answer or a removal.
const ENGINE_LIMIT: Duration = Duration::from_secs(20);
/// How long mpiexec waits for its container supervisors.
pub const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// How the engine's client came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With the container.
    Natural,
    /// The engine has failed.
    Engine,
    /// We ended it.
    Forced,
}

/// A container supervisor at work.
struct Supervisor {
    container: Container,
    found: Found,
    job_dir: Option<JobDir>,
    copied: bool,
    signals: SignalFd,
}

/// `mpiexec --keeper`: reads the container from standard input, keeps it, and returns the engine's exit code.
pub fn run() -> i32 {
    let line = crate::reaper::read_line();
    let Some(container) = line.as_deref().and_then(Container::from_line) else {
        eprintln!("mpiexec: --keeper is started by mpiexec only");
        return 1;
    };
    let _ = sys::process::new_session();
    sys::process::set_name(c"ferrule-keeper");
    let handled = [signals::CHLD, signals::TERM, signals::HUP, signals::INT];
    let signals = match SignalFd::new(&handled) {
        Ok(signals) => signals,
        Err(e) => {
            eprintln!("mpiexec: container supervisor: cannot receive signals: {e}");
            return 1;
        }
    };
    let name = container.name.clone();
    let mut supervisor = Supervisor { container, found: Found::default(), job_dir: None, copied: false, signals };
    let code = match supervisor.prepare().and_then(|()| supervisor.start()) {
        Ok(client) => {
            let (how, end) = supervisor.watch(client);
            if end != Ending::Natural {
                supervisor.remove();
            }
            if end == Ending::Engine {
                supervisor.explain(how);
            }
            match how {
                Ended::Exit(code) => code,
                Ended::Signal(signal, _) => 128 + signal,
                Ended::Unseen => 1,
            }
        }
        Err(why) => {
            eprintln!("mpiexec: container {name}{}: {why}", on_host());
            1
        }
    };
    supervisor.leave();
    code
}

fn on_host() -> String {
    format!(" on {}", sys::process::host_name())
}

impl Supervisor {
    fn prepare(&mut self) -> Result<(), String> {
        self.found.command = self.engine_command()?;
        match self.container.engine {
            Engine::Exec => self.prepare_existing(),
            engine => {
                let dir = JobDir::join(engine, &self.container.job_dir)?;
                let path = dir.inner().to_string_lossy().into_owned();
                self.job_dir = Some(dir);
                self.found.job_dir = Some((path.clone(), path));
                if engine == Engine::Charliecloud { self.prepare_root() } else { Ok(()) }
            }
        }
    }

    /// The engine's words; for a container that runs already, of the engine that knows it.
    fn engine_command(&self) -> Result<Vec<String>, String> {
        if !self.container.command.is_empty() {
            return Ok(self.container.command.clone());
        }
        if let Some(command) = self.container.engine.command() {
            return Ok(vec![command.into()]);
        }
        let mut whys = Vec::new();
        for engine in ["docker", "podman"] {
            let found = Found { command: vec![engine.into()], ..Default::default() };
            match ask(&argv::mounts(&found, &self.container.name), ENGINE_LIMIT) {
                Ok(_) => return Ok(found.command),
                Err(why) => whys.push(why),
            }
        }
        Err(format!("neither docker nor podman knows it ({}); see --container-engine", whys.join("; ")))
    }

    /// Nothing can be bound into a container that runs: look for a directory that all of the job share, and copy files if asked to.
    fn prepare_existing(&mut self) -> Result<(), String> {
        if let Some((outside, inside)) = self.shared_directory() {
            let dir = JobDir::join_at(Path::new(&outside).join(&self.container.job_dir));
            if let Ok(dir) = dir {
                let inside = format!("{inside}/{}/job", self.container.job_dir);
                self.found.job_dir = Some((dir.inner().to_string_lossy().into_owned(), inside));
                self.job_dir = Some(dir);
            }
        }
        if !self.container.copies.is_empty() { self.copy() } else { Ok(()) }
    }

    /// A directory of the host that may be written in every container of the job: outside, and inside this one.
    fn shared_directory(&self) -> Option<(String, String)> {
        let mut common: Option<Vec<(String, String)>> = None;
        let others = self.container.all_names.iter().filter(|n| **n != self.container.name);
        for name in std::iter::once(&self.container.name).chain(others) {
            let mounts = writable_mounts(&ask(&argv::mounts(&self.found, name), ENGINE_LIMIT).ok()?);
            match &mut common {
                None => common = Some(mounts),
                Some(common) => common.retain(|(outside, _)| mounts.iter().any(|(other, _)| other == outside)),
            }
        }
        common?.into_iter().find(|(outside, _)| Path::new(outside).is_dir())
    }

    fn copy(&mut self) -> Result<(), String> {
        let stage = JobDir::join(Engine::Exec, &format!("{}-{}", self.container.job_dir, self.container.name))?;
        let result = self.copy_by(&stage.inner().join("copy"));
        stage.leave();
        result
    }

    fn copy_by(&mut self, stage: &Path) -> Result<(), String> {
        for (from, name) in &self.container.copies {
            let to = stage.join(name);
            let copied = to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::copy(from, &to));
            copied.map_err(|e| format!("cannot copy {from}: {e}"))?;
        }
        ask(&argv::copy(&self.container, &self.found, &format!("{}/.", stage.display())), ENGINE_LIMIT)?;
        self.copied = true;
        let variables = ask(&argv::variables(&self.found, &self.container.name), ENGINE_LIMIT)?;
        let older = variables.lines().find_map(|l| l.strip_prefix("LD_LIBRARY_PATH=")).unwrap_or_default();
        let mut value = format!("{0}/lib:{0}/lib/mpich", self.container.copy_to);
        if !older.is_empty() {
            value = format!("{value}:{older}");
        }
        self.found.env.push(("LD_LIBRARY_PATH".into(), value));
        Ok(())
    }

    /// ch-run binds only to what is there: makes the empty files and directories in the image.
    fn prepare_root(&mut self) -> Result<(), String> {
        let root = Path::new(&self.container.image);
        let home = if sys::process::effective_uid() == 0 { "/root" } else { "/tmp" };
        self.found.env.push(("HOME".into(), home.into()));
        self.found.image_environment = root.join("ch/environment").is_file();
        if !root.is_dir() {
            // A squash file, or a name of ch-run's own storage: what is missing there is told by ch-run.
            return Ok(());
        }
        for (path, _) in &self.container.binds {
            let inside = root.join(path.trim_start_matches('/'));
            // The host's /tmp is there anyway.
            if inside.exists() || path.starts_with("/tmp/") {
                continue;
            }
            let made = if Path::new(path).is_dir() {
                std::fs::create_dir_all(&inside)
            } else {
                let parent = inside.parent().map_or(Ok(()), std::fs::create_dir_all);
                parent.and_then(|()| std::fs::File::create(&inside).map(drop))
            };
            made.map_err(|e| {
                format!("the image needs a place to bind {path}, and {} can't be made: {e}", inside.display())
            })?;
        }
        Ok(())
    }

    fn start(&self) -> Result<Pid, String> {
        let words = argv::start(&self.container, &self.found);
        base::log!(Info, "container {}: {}", self.container.name, words.join(" "));
        let argv: Result<Vec<CString>, _> = words.iter().map(|w| CString::new(w.as_str())).collect();
        let argv = argv.map_err(|e| e.to_string())?;
        let cannot = |e: std::io::Error| format!("cannot run {}: {e}", words[0]);
        let path = find_program(argv[0].as_bytes(), std::env::var_os("PATH").as_deref(), None).map_err(cannot)?;
        let mut env = crate::environment::inherited();
        if self.container.engine == Engine::Charliecloud {
            // It would show this directory as the container's /tmp.
            env.retain(|(name, _)| name != b"TMPDIR");
        }
        if !env.iter().any(|(name, _)| name == b"USER") {
            // ch-run refuses to work without.
            crate::environment::set(
                &mut env,
                b"USER",
                if sys::process::effective_uid() == 0 { b"root" } else { b"user" },
            );
        }
        let env: Vec<CString> = env.into_iter().filter_map(|(n, v)| crate::environment::join(&n, &v)).collect();
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let fds = [(stdin.as_fd(), 0), (stdout.as_fd(), 1), (stderr.as_fd(), 2)];
        let spec = Spawn { death_signal: signals::KILL, ..Spawn::new(&path, &argv, &env, &fds) };
        sys::process::spawn(&spec).map_err(|(_, e)| cannot(e))
    }

    /// Waits for the engine's client.
    fn watch(&self, client: Pid) -> (Ended, Ending) {
        let stdout = std::io::stdout();
        let mut set = PollSet::default();
        let mut end_by: Option<Instant> = None;
        let mut killed = false;
        loop {
            set.clear();
            set.add(&self.signals, true, false);
            match end_by {
                None => set.add(&stdout, false, false),
                Some(when) => set.until(when),
            }
            let _ = set.wait();
            let mut told = end_by.is_none() && set.broken(&stdout);
            let mut urgent = false;
            while let Some(info) = self.signals.next_signal() {
                urgent |= info.signal != signals::CHLD;
            }
            while let Ok(Some((pid, how))) = sys::process::reap() {
                if pid == client {
                    // 125 and more are the engine's own codes, or its client's death.
                    return match how {
                        _ if killed => (how, Ending::Forced),
                        Ended::Exit(code) if code < 125 => (how, Ending::Natural),
                        _ => (how, Ending::Engine),
                    };
                }
            }
            told |= urgent;
            if told && end_by.is_none() {
                end_by = Some(Instant::now() + if urgent { Duration::ZERO } else { END_LIMIT });
            }
            if end_by.is_some_and(|when| Instant::now() >= when) {
                killed = true;
                end_by = Some(Instant::now() + END_LIMIT);
                // The container first: a client that is killed leaves it running.
                self.remove();
                let _ = kill(client, signals::KILL);
            }
        }
    }

    fn remove(&self) {
        if let Some(words) = argv::remove(&self.container, &self.found) {
            let gone = |why: &str| {
                why.contains("No such container")
                    || why.contains("no such container")
                    || why.contains("no container with")
            };
            match ask(&words, ENGINE_LIMIT) {
                Err(why) if !gone(&why) && !why.contains("already in progress") => {
                    // An engine that could not create the container can't remove it either.
                    base::log!(Info, "container {}: {why}", self.container.name);
                }
                _ => {}
            }
        }
    }

    /// Says what the engine's exit code means.
    fn explain(&self, how: Ended) {
        let Ended::Exit(code) = how else { return };
        let (name, agent) = (&self.container.name, &self.container.agent);
        let engine = self.found.command.first().map_or("the engine", String::as_str);
        let host = on_host();
        match (code, self.container.engine) {
            (125, _) => {
                eprintln!("mpiexec: container {name}{host}: {engine} could not start it; its own message is above")
            }
            (126 | 127, Engine::Exec) => eprintln!(
                "mpiexec: container {name}{host}: {agent} can't be run in it. Ferrule's files must be in the container at the same path \
                 (when it is created: -v {d}:{d}:ro), or give --agent-path, or --container-copy to copy them for this job; they need \
                 glibc, not musl",
                d = Path::new(agent).parent().and_then(Path::parent).unwrap_or(Path::new("/")).display()
            ),
            (126 | 127, _) => eprintln!(
                "mpiexec: container {name}{host}: {engine} could not run {agent} in it; its own message is above. An image needs the \
                 C library glibc, not older than the one that Ferrule was built with"
            ),
            _ => {}
        }
    }

    fn leave(mut self) {
        if self.copied
            && let Err(why) = ask(&argv::remove_copy(&self.container, &self.found), ENGINE_LIMIT)
        {
            base::log!(
                Warn,
                "container {}: the copied files stay in {}: {why}",
                self.container.name,
                self.container.copy_to
            );
        }
        if let Some(dir) = self.job_dir.take() {
            dir.leave();
        }
    }
}

/// Reads what [`argv::mounts`] prints.
fn writable_mounts(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let mut fields = line.split('\t');
        match (fields.next()?, fields.next()?, fields.next()?) {
            ("true", outside, inside) if outside.starts_with('/') => Some((outside.to_string(), inside.to_string())),
            _ => None,
        }
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = "true\t/srv/data\t/data\nfalse\t/etc/x\t/x\ntrue\t\t/tmpfs\n";
        assert_eq!(writable_mounts(text), [("/srv/data".to_string(), "/data".to_string())]);
    }
}
