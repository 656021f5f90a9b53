//! Launchers on this host: ours, the peers, and the floor.

use super::results::LauncherPoint;
use super::run::{self, Failed};
use super::{Comparison, programs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The name of the floor: N static programs that do nothing, by fork and exec.
pub const FLOOR: &str = "floor";
/// Our own name.
pub const OURS: &str = "Ferrule";

/// Something that starts N processes.
enum Arm {
    Floor(PathBuf),
    /// Words with `{n}`.
    Command(Vec<String>),
}

impl Comparison {
    /// Measures all launchers at all N.
    pub fn launchers(&mut self, program: &Path) -> Result<(), Failed> {
        let sizes: Vec<usize> = self.options.local_ranks.iter().map(|n| *n as usize).filter(|n| *n > 0).collect();
        if sizes.is_empty() {
            return Ok(());
        }
        let mut arms = self.arms(program);
        self.progress.1 += sizes.len();
        for ranks in sizes {
            if !self.has_time() {
                self.failed("launchers", ranks, "no time is left of --budget".into());
                break;
            }
            let mut points: Vec<LauncherPoint> = Vec::new();
            for repeat in 0..self.options.repeats {
                let count = arms.len().max(1);
                arms.rotate_left(repeat % count);
                arms.retain(|(name, arm)| match self.start(arm, ranks) {
                    Ok(seconds) => {
                        add(&mut points, name, ranks, seconds);
                        true
                    }
                    Err(why) => {
                        points.retain(|p| p.name != *name);
                        self.failed(name, ranks, why);
                        false
                    }
                });
            }
            let ours = points.iter().find(|p| p.name == OURS).map(|p| p.wall_s.clone()).unwrap_or_default();
            self.results.launchers.append(&mut points);
            self.done(&format!("launchers, {ranks} ranks"), &ours)?;
        }
        Ok(())
    }

    /// The floor, ours and all peers that can be prepared.
    fn arms(&mut self, program: &Path) -> Vec<(String, Arm)> {
        let words = |mpiexec: &Path, program: &Path| {
            let text = |path: &Path| path.to_string_lossy().into_owned();
            Arm::Command(vec![text(mpiexec), "-n".into(), "{n}".into(), text(program)])
        };
        let mut arms = vec![(OURS.to_string(), words(&self.mpiexec, program))];
        match self.scratch.nothing() {
            Ok(nothing) => arms.push((FLOOR.into(), Arm::Floor(nothing))),
            Err(why) => self.failed(FLOOR, 0, why),
        }
        for (name, command) in self.options.peers.clone() {
            let arm = if command.contains("{n}") {
                crate::cli::words_of(command.as_bytes())
                    .map(|words| Arm::Command(words.iter().map(|w| w.to_string_lossy().into_owned()).collect()))
                    .map_err(|e| e.to_string())
            } else {
                let mpiexec = PathBuf::from(&command);
                programs::Scratch::empty(&self.scratch, &name, &mpiexec).map(|program| words(&mpiexec, &program))
            };
            match arm {
                Ok(arm) => arms.push((name, arm)),
                Err(why) => self.failed(&name, 0, why),
            }
        }
        arms
    }

    fn start(&self, arm: &Arm, ranks: usize) -> Result<f64, Failed> {
        match arm {
            Arm::Floor(program) => floor(program, ranks),
            Arm::Command(words) => {
                let words: Vec<String> = words.iter().map(|w| w.replace("{n}", &ranks.to_string())).collect();
                run::timed(Command::new(&words[0]).args(&words[1..]), self.limit(), &self.scratch.0)
            }
        }
    }
}

fn add(points: &mut Vec<LauncherPoint>, name: &str, ranks: usize, seconds: f64) {
    match points.iter_mut().find(|p| p.name == name) {
        Some(point) => point.wall_s.push(seconds),
        None => points.push(LauncherPoint { name: name.into(), ranks, wall_s: vec![seconds] }),
    }
}

/// Starts all, then waits for all.
fn floor(program: &Path, ranks: usize) -> Result<f64, Failed> {
    let words = |e: std::io::Error| format!("{}: {e}", program.display());
    let begin = Instant::now();
    let children: Vec<_> = (0..ranks).map(|_| Command::new(program).spawn()).collect();
    let ended: Vec<_> = children.into_iter().map(|child| child.and_then(|mut child| child.wait())).collect();
    let seconds = begin.elapsed();
    ended.into_iter().collect::<Result<Vec<_>, _>>().map_err(words)?;
    Ok(seconds.max(Duration::from_nanos(1)).as_secs_f64())
}
