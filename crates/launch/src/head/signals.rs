//! Signals that mpiexec gets: most go on to the ranks.

use super::Head;
use protocol::control::tree::{ALL, Message};
use sys::process::{Ended, signals};

/// What is handled. A signal that was ignored when mpiexec started (nohup) stays ignored.
pub fn handled() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("SigIgn:")?.trim(), 16).ok()).unwrap_or(0);
    let ignored = |signal: &i32| mask >> (signal - 1) & 1 == 1;
    let optional = [
        signals::INT,
        signals::TERM,
        signals::HUP,
        signals::QUIT,
        signals::USR1,
        signals::USR2,
        signals::TSTP,
        signals::CONT,
    ];
    optional.into_iter().filter(|s| !ignored(s)).chain([signals::CHLD]).collect()
}

impl Head {
    pub(super) fn take_signals(&mut self) {
        while let Some(info) = self.signals.next_signal() {
            match info.signal {
                signals::CHLD => self.reap(),
                signals::INT => self.on_interrupt(),
                signals::TERM | signals::HUP => {
                    let name = sys::process::signal_name(info.signal);
                    self.verdict.add(format!("ended by {name}"), 128 + info.signal, true);
                    self.send(ALL, Message::Signal { signal: info.signal });
                    self.end();
                }
                signals::QUIT => self.inquire(),
                signals::USR1 | signals::USR2 => {
                    self.send(ALL, Message::Signal { signal: info.signal });
                    self.spawning.signal(info.signal);
                }
                signals::TSTP => {
                    self.send(ALL, Message::Signal { signal: signals::TSTP });
                    self.spawning.signal(signals::TSTP);
                    sys::process::stop_self();
                    self.spawning.signal(signals::CONT);
                    self.send(ALL, Message::Signal { signal: signals::CONT });
                }
                _ => {}
            }
        }
    }

    fn on_interrupt(&mut self) {
        self.interrupts += 1;
        self.spawning.signal(signals::INT);
        if self.interrupts == 1 {
            self.verdict.add("interrupted".into(), 128 + signals::INT, true);
            self.send(ALL, Message::Signal { signal: signals::INT });
        } else {
            self.end();
            self.send(ALL, Message::Kill { now: true, code: 128 + signals::INT });
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, how))) = sys::process::reap() {
            let ours = self.children.on_exit(pid, how) || self.on_spawned_end(pid, how);
            if !ours && self.options.verbose && matches!(how, Ended::Signal(..)) {
                eprintln!("mpiexec: leftover process {pid} {}", crate::children::describe(how));
            }
        }
    }
}
