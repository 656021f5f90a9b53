//! Runs mpiexec under a watchdog, and finds processes by a mark in their environment.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No job of these tests needs so long, even on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(180);

/// What a job has left.
pub struct Done {
    /// Exit code; 128 + signal.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Done {
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Lines of standard output, sorted.
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out().lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// A job that runs.
pub struct Job {
    child: Child,
    mark: String,
    started: Instant,
}

fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A file name that no other test uses.
pub fn temporary(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("ferrule-test-{}-{name}", unique()))
}

/// Starts mpiexec.
pub fn start(args: &[&str]) -> Job {
    start_with(args, &[])
}

/// Starts mpiexec with variables. Signals that whoever runs the tests ignores (nohup) are not ignored by it.
pub fn start_with(args: &[&str], env: &[(&str, &str)]) -> Job {
    let mark = unique();
    let child = Command::new("env")
        .args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_mpiexec")])
        .args(args)
        .env("LAUNCH_TEST_MARK", &mark)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Job { child, mark, started: Instant::now() }
}

/// Runs mpiexec to its end.
pub fn run(args: &[&str]) -> Done {
    start(args).finish(b"")
}

/// Runs mpiexec with standard input.
pub fn run_with_input(args: &[&str], input: &[u8]) -> Done {
    start(args).finish(input)
}

impl Job {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Pids of all processes of the job but mpiexec.
    pub fn processes(&self) -> Vec<i32> {
        marked(&self.mark).into_iter().filter(|pid| *pid != self.pid()).collect()
    }

    /// Waits until `wanted` holds for the job's processes.
    pub fn wait_for(&self, wanted: impl Fn(&[i32]) -> bool) -> Vec<i32> {
        loop {
            let pids = self.processes();
            if wanted(&pids) {
                return pids;
            }
            assert!(self.started.elapsed() < WATCHDOG, "the job did not come so far");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Feeds `input`, waits, and checks that no process of the job is left.
    pub fn finish(mut self, input: &[u8]) -> Done {
        let mut stdin = self.child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let read = |stream: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stream.unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        let stdout = read(self.child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
        let stderr = read(self.child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
        let deadline = Instant::now() + WATCHDOG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("watchdog: the job did not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        let left = self.leftovers();
        assert!(left.is_empty(), "processes outlive the job: {left:?}");
        feeder.join().unwrap();
        let (stdout, stderr) = (stdout.join().unwrap(), String::from_utf8_lossy(&stderr.join().unwrap()).into_owned());
        Done { code, stdout, stderr }
    }

    /// Processes that still exist a while after mpiexec's end (whose own end nobody waits for when it was killed).
    fn leftovers(&self) -> Vec<i32> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left = marked(&self.mark);
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("LAUNCH_TEST_MARK={mark}");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        env.split(|b| *b == 0).any(|v| v == wanted.as_bytes())
    })
    .collect()
}

/// Whether the process's name (`/proc/PID/comm`) is `name`.
pub fn is_named(pid: i32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|n| n.trim() == name)
}

/// Sends a signal.
pub fn kill(pid: i32, signal: i32) {
    let _ = sys::process::kill(pid, signal);
}

/// mpiexec's arguments for running role `name` of [`crate::bootstrap`] on `ranks` ranks.
pub fn role<'a>(options: &[&'a str], ranks: &'a str, variable: &'a str, exe: &'a str) -> Vec<&'a str> {
    let mut args = options.to_vec();
    args.extend(["-n", ranks, "-x", variable, exe, "bootstrap::role", "--exact", "--nocapture", "--test-threads=1"]);
    args
}
