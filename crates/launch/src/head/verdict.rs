//! Why a job failed: collects what went wrong and picks what the user is told and the exit code.
//!
//! The first failure counts. But when a rank crashes, its peers may notice and abort before its agent has seen the crash; so a
//! death by signal that we did not cause, reported shortly after, is preferred to an abort or an exit code.

use crate::children::describe;
use protocol::control::tree::{End, Phase};
use std::time::{Duration, Instant};
use sys::process::Ended;

/// How long after the first failure a crash may still be its cause.
const CAUSE_LAG: Duration = Duration::from_millis(300);

/// Code of an end that nobody has seen: under a launcher that ends the job after one rank's abort, others may end before the news of it is
/// here. No process reads the exit code of such a head process.
const UNSEEN: i32 = -1;

/// One thing that went wrong.
#[derive(Debug)]
pub struct Failure {
    /// One line for the user.
    pub text: String,
    /// Exit code for it.
    pub code: i32,
    /// A rank died by a signal.
    crash: bool,
    when: Instant,
}

/// What has gone wrong so far.
#[derive(Default)]
pub struct Verdict {
    failures: Vec<Failure>,
}

/// The rank's name, process and host in words.
pub fn who(rank: u32, pid: u32, host: &str) -> String {
    format!("rank {rank} (pid {pid}) on {host}")
}

/// What is wrong about the end of a rank; `None` if nothing is.
pub fn judge(who: &str, end: &End, phase: &Phase) -> Option<(String, i32, bool)> {
    let (how, code) = match end {
        End::Exit { code } => (Ended::Exit(*code), *code),
        End::Signal { signal, core } => (Ended::Signal(*signal, *core), 128 + signal),
        // Before MPI_Init has returned, too: its peers wait for it.
        End::Unseen {} if *phase != (Phase::Finalized {}) => {
            return Some((format!("{who} ended without calling MPI_Finalize"), UNSEEN, false));
        }
        End::Unseen {} => return None,
    };
    let unfinished = *phase == (Phase::Initialized {});
    match (code, unfinished) {
        (0, false) => None,
        (0, true) => Some((format!("{who} exited with code 0 without calling MPI_Finalize"), 1, false)),
        _ => {
            let words = if unfinished && matches!(how, Ended::Exit(_)) { " without calling MPI_Finalize" } else { "" };
            Some((format!("{who} {}{words}", describe(how)), code, matches!(how, Ended::Signal(..))))
        }
    }
}

impl Verdict {
    /// Notes a failure.
    pub fn add(&mut self, text: String, code: i32, crash: bool) {
        self.failures.push(Failure { text, code, crash, when: Instant::now() });
    }

    /// The failure that counts.
    pub fn cause(&self) -> Option<&Failure> {
        let first = self.failures.first()?;
        let crash = self.failures.iter().find(|f| f.crash && f.when.duration_since(first.when) < CAUSE_LAG);
        let seen = self.failures.iter().find(|f| f.code != UNSEEN && first.code == UNSEEN);
        crash.filter(|_| !first.crash).or(seen).or(Some(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_counts_more_than_the_abort_that_it_caused() {
        let mut verdict = Verdict::default();
        assert!(verdict.cause().is_none());
        verdict.add("abort".into(), 5, false);
        verdict.add("crash".into(), 139, true);
        assert_eq!(verdict.cause().unwrap().code, 139);
    }

    #[test]
    fn an_exit_is_judged_by_how_far_the_rank_had_come() {
        let end = |code| End::Exit { code };
        assert_eq!(judge("r", &end(0), &Phase::Started {}), None);
        assert_eq!(judge("r", &end(0), &Phase::Finalized {}), None);
        let (text, code, _) = judge("r", &end(0), &Phase::Initialized {}).unwrap();
        assert!(text.contains("without calling MPI_Finalize") && code == 1);
        let (text, code, crash) = judge("r", &End::Signal { signal: 11, core: false }, &Phase::Started {}).unwrap();
        assert_eq!((text.as_str(), code, crash), ("r was killed by SIGSEGV", 139, true));
    }
}
