//! The migration thread (`FERRULE_MIGRATION=mt`, decision 0060): does this process's part in a migration epoch (decision 0044) while the program computes.
//!
//! It sleeps in the kernel until the node agent says something that no call of MPI has read, or a call has read a step that needs progress (its bell). Then it
//! comes in as another thread of the program would ([`bias`]), takes what the agent has said, makes progress until that step is answered, and sleeps again. It runs
//! the engine alone, so nothing of the program: schedules, and what serves windows, are left to the calls.

use crate::cs::{self, Section};
use crate::inside::Inside;
use crate::{agent, bias, engine, progress};
use base::log;
use channel::transports;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::wake::{Bell, sleep_until_either_readable};

base::config! {
    /// Who notices that endpoints are to be suspended for a migration: pe, calls of MPI, or mt, also a thread of the library while the program computes.
    MIGRATION: text = "pe";
}

/// How long a call that is inside may take to read what the agent has said, before the thread does. Most of it is for the calls: addresses of peers.
const CALLS_FIRST: Duration = Duration::from_millis(1);

struct Running {
    thread: JoinHandle<()>,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    /// The process that started it: a forked copy has no such thread.
    process: u32,
}

static RUNNING: Inside<RefCell<Option<Running>>> = Inside::new(RefCell::new(None));

/// Starts the thread if that is wished, and there is an agent that could say something. MPI has been opened, and calls take the lock yet.
pub(crate) fn begin(cs: &Section) {
    match MIGRATION.value() {
        "pe" => return,
        "mt" => {}
        other => return log!(Warn, "FERRULE_MIGRATION={other} is neither pe nor mt; using pe"),
    }
    let agent = agent::current(cs);
    let socket = agent.as_ref().and_then(|agent| agent.borrow().fd().map(|fd| fd.try_clone_to_owned()));
    let Some(socket) = socket else { return };
    match socket.and_then(start) {
        Ok(running) => {
            let bell = Arc::clone(&running.bell);
            engine::with(cs, |engine| transports::tell_of_steps(engine.endpoints(), bell));
            *RUNNING.get(cs).borrow_mut() = Some(running);
        }
        Err(error) => {
            log!(Warn, "no migration thread: {error}; only calls of MPI notice that endpoints are to be suspended")
        }
    }
}

fn start(socket: OwnedFd) -> io::Result<Running> {
    let (bell, stop) = (Arc::new(Bell::new()?), Arc::new(AtomicBool::new(false)));
    bias::begin(Arc::clone(&bell));
    let thread = Attendant { socket, bell: Arc::clone(&bell), stop: Arc::clone(&stop) };
    let thread = sys::process::spawn_thread("ferrule-mt", move || thread.run()).inspect_err(|_| bias::end())?;
    Ok(Running { thread, bell, stop, process: std::process::id() })
}

/// Stops the thread: MPI is about to be closed, and calls take the lock.
pub(crate) fn end(cs: &mut Section) {
    let Some(running) = RUNNING.get(cs).take() else { return };
    running.stop.store(true, Ordering::Relaxed);
    running.bell.ring();
    if running.process == std::process::id() && cs::released(cs, || running.thread.join()).is_err() {
        log!(Error, "the migration thread has failed");
    }
    bias::end();
}

/// What the thread has.
struct Attendant {
    /// Where the agent speaks: a descriptor of its own, only watched.
    socket: OwnedFd,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
}

impl Attendant {
    fn run(&self) {
        let mut claimed = false;
        loop {
            // Once claimed, only the call that is inside by the mark is awaited.
            let socket = (!claimed).then(|| self.socket.as_fd());
            sleep_until_either_readable(self.bell.as_fd(), socket, Duration::MAX);
            self.bell.silence();
            if self.is_stopped() {
                break;
            }
            if !claimed && bias::is_marked() && self.calls_have_read() {
                continue;
            }
            claimed = true;
            if bias::claim() {
                let goes_on = self.attend();
                bias::release();
                claimed = false;
                if !goes_on {
                    break;
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Gives a call that is inside time. True if nothing is left to be read, and it has read no step.
    fn calls_have_read(&self) -> bool {
        std::thread::sleep(CALLS_FIRST);
        !sleep_until_either_readable(self.socket.as_fd(), Some(self.bell.as_fd()), Duration::ZERO)
    }

    /// Does what is to be done now. False if there is no agent any more.
    fn attend(&self) -> bool {
        // SAFETY: this thread is in no call, and since the claim nobody is inside without the lock.
        let mut inside = unsafe { cs::enter_always() };
        let cs = inside.section();
        let has_agent = engine::is_set() && engine::with(cs, |engine| transports::hear_agent(engine.endpoints()));
        if has_agent {
            progress::attend(cs, &self.bell, |cs| {
                self.is_stopped() || !engine::with(cs, |engine| transports::has_step(engine.endpoints()))
            });
        }
        has_agent
    }
}
