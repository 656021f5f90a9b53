//! Carries out what the state machine orders: a thread for each virtual machine and one for mpiexec, whose answers come back over a channel.
//!
//! The machine ends by its own limits, also if a driver doesn't come back. If this process dies, mpiexec resumes the job after its hold.

use super::control::{self, Answer, Request};
use super::driver::{Driver, Limit};
use super::report::{self, Summary, progress};
use crate::drain;
use crate::top::find::Job;
use ::migrate::machine::{Action, Limits, Machine, Order, Report, Step};
use protocol::control::VERSION;
use protocol::control::epoch::{NOTHING_SUSPENDED, Outcome, PhaseTime};
use protocol::control::inquiry::Question;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use sys::process::{SignalFd, signals};

/// How often signals and requests are looked at.
const TURN: Duration = Duration::from_millis(20);
/// What a migration may take in steps of one VM, at most: a detach, and three tries each of a cancel and an attach.
const STEPS: u32 = 7;

/// A virtual machine that moves.
pub struct Vm {
    /// As the administrator names it.
    pub name: String,
    /// Its name among the job's hosts.
    pub host: String,
    /// Taken by its thread.
    pub driver: Option<Box<dyn Driver>>,
}

/// What is wanted.
#[derive(Debug)]
pub struct Asked {
    /// Nothing but checks.
    pub is_plan: bool,
    /// Of each step.
    pub limit: Duration,
    /// Of the migration itself.
    pub migrate_limit: Duration,
    /// How long the suspension may last after this process is gone; nothing for as long as all steps may take.
    pub hold: Option<Duration>,
    /// The destination's name.
    pub to: String,
    /// Where progress goes.
    pub say_to_stderr: bool,
}

struct Task {
    ticket: u64,
    order: Order,
    limit: Limit,
}

struct Done {
    ticket: u64,
    result: Result<Report, String>,
    epoch: Option<Outcome>,
}

/// A thread that does one task after another.
struct Worker {
    tasks: Sender<Task>,
    /// Of the task that is under way.
    stop: Arc<AtomicBool>,
}

struct Controller<'a> {
    asked: &'a Asked,
    names: Vec<String>,
    hosts: Vec<String>,
    machine: Machine,
    started: Instant,
    mpiexec: Worker,
    vms: Vec<Worker>,
    endpoints: u64,
    epoch: Vec<PhaseTime>,
    is_over: bool,
}

/// Moves them.
pub fn conduct(job: &Job, vms: Vec<Vm>, asked: &Asked) -> Result<Summary, String> {
    // Blocked before threads begin, which inherit that.
    let signals = SignalFd::new(&[signals::INT, signals::TERM, signals::HUP]).map_err(|e| format!("signals: {e}"))?;
    let listener = control::listen(job)?;
    let (sender, answers) = mpsc::channel();
    let micros = |time: Duration| time.as_micros() as u64;
    let epoch_limit = drain::patience(asked.limit);
    // Drivers end by themselves a little earlier.
    let limits = Limits {
        step_us: micros(asked.limit + Duration::from_secs(2)),
        migrate_us: micros(asked.migrate_limit + Duration::from_secs(2)),
        epoch_us: micros(epoch_limit + Duration::from_secs(2)),
    };
    let hosts: Vec<String> = vms.iter().map(|vm| vm.host.clone()).collect();
    let mut controller = Controller {
        asked,
        names: vms.iter().map(|vm| vm.name.clone()).collect(),
        machine: Machine::new(vms.len(), asked.is_plan, limits),
        started: Instant::now(),
        mpiexec: speak_to_mpiexec(job.clone(), hosts.clone(), asked, sender.clone()),
        hosts,
        vms: vms.into_iter().filter_map(|vm| vm.driver).map(|driver| drive(driver, sender.clone())).collect(),
        endpoints: 0,
        epoch: Vec::new(),
        is_over: false,
    };
    controller.run(&answers, &listener, &signals);
    let outcome = controller.machine.outcome();
    let epoch = (controller.endpoints, &controller.epoch[..]);
    Ok(Summary::new(&controller.names, (&asked.to, asked.is_plan), &outcome, epoch, &controller.machine.phases()))
}

impl Controller<'_> {
    fn run(&mut self, answers: &Receiver<Done>, listener: &UnixListener, signals: &SignalFd) {
        let actions = self.machine.begin(self.now());
        self.follow(actions);
        while !self.is_over {
            if let Ok(done) = answers.recv_timeout(TURN) {
                self.on_done(done);
            }
            let actions = self.machine.on_time(self.now());
            self.follow(actions);
            while let Some((request, stream)) = control::next_request(listener) {
                let answer = match request {
                    Request::Status => Answer { is_done: true, text: self.describe() },
                    Request::Abort => self.abort(),
                };
                control::answer(stream, &answer);
            }
            while signals.next_signal().is_some() {
                let answer = self.abort();
                self.say(&answer.text);
            }
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn say(&self, text: &str) {
        let line = format!("{:>8.3} s  {text}", self.started.elapsed().as_secs_f64());
        if self.asked.say_to_stderr { report::complain(&line) } else { report::print(&line) }
    }

    fn on_done(&mut self, done: Done) {
        if let Some(epoch) = done.epoch.filter(|epoch| !epoch.phases.is_empty()) {
            self.endpoints = self.endpoints.max(epoch.endpoints);
            self.epoch = epoch.phases;
        }
        if let Err(why) = &done.result {
            self.say(&format!("failed: {why}"));
        }
        let actions = self.machine.on_answer(done.ticket, done.result, self.now());
        self.follow(actions);
    }

    fn abort(&mut self) -> Answer {
        match self.machine.abort(self.now()) {
            Ok(actions) => {
                self.follow(actions);
                Answer { is_done: true, text: "the migration is being undone".into() }
            }
            Err(text) => Answer { is_done: false, text },
        }
    }

    fn describe(&self) -> String {
        let under_way = self.machine.under_way();
        let lines: Vec<String> =
            under_way.iter().map(|order| progress(*order, &self.names, &self.hosts, &self.asked.to)).collect();
        lines.join("\n")
    }

    fn follow(&mut self, actions: Vec<Action>) {
        for action in actions {
            let Action::Start { ticket, order, .. } = action else {
                self.is_over = true;
                continue;
            };
            self.say(&progress(order, &self.names, &self.hosts, &self.asked.to));
            let (worker, time) = match order {
                Order::Suspend | Order::Resume => (&mut self.mpiexec, drain::patience(self.asked.limit)),
                Order::Vm(vm, Step::Migrate) => (&mut self.vms[vm], self.asked.migrate_limit),
                Order::Vm(vm, _) => (&mut self.vms[vm], self.asked.limit),
            };
            // What else is under way there isn't awaited any more.
            worker.stop.store(true, Ordering::Relaxed);
            worker.stop = Arc::default();
            let limit = Limit::new(time, worker.stop.clone());
            // If the thread is gone, the machine's limit tells.
            let _ = worker.tasks.send(Task { ticket, order, limit });
        }
    }
}

/// The thread of one VM.
fn drive(mut driver: Box<dyn Driver>, answers: Sender<Done>) -> Worker {
    work(answers, move |task| match task.order {
        Order::Vm(_, step) => (driver.step(step, &task.limit), None),
        _ => (Err("no step of a virtual machine".into()), None),
    })
}

/// The thread that asks mpiexec.
fn speak_to_mpiexec(job: Job, hosts: Vec<String>, asked: &Asked, answers: Sender<Done>) -> Worker {
    let limit = asked.limit;
    let hold = asked.migrate_limit + limit.saturating_mul(STEPS) + Duration::from_secs(30);
    let alone = asked.hold.unwrap_or(hold);
    let ms = |time: Duration| time.as_millis() as u64;
    // mpiexec sees by it that this process lives.
    let mut line = None;
    work(answers, move |task| {
        let is_suspend = task.order == Order::Suspend;
        let question = if is_suspend {
            let (limit_ms, hold_ms, alone_ms) = (ms(limit), ms(hold), ms(alone));
            Question::Drain { version: VERSION, hosts: hosts.clone(), limit_ms, hold_ms, alone_ms, resume: false }
        } else {
            Question::Resume { version: VERSION }
        };
        match drain::put_and_stay(&job, &question, drain::patience(limit)) {
            Ok((outcome, stream)) => {
                if is_suspend {
                    line.replace(stream);
                } else if outcome.is_done {
                    line.take();
                }
                (judge(is_suspend, &outcome), Some(outcome))
            }
            Err(why) => (Err(why), None),
        }
    })
}

/// What mpiexec's answer means for the machine.
fn judge(is_suspend: bool, outcome: &Outcome) -> Result<Report, String> {
    match (outcome.is_done, is_suspend) {
        (true, _) => Ok(Report::Done),
        // It has rolled back, or it was never suspended.
        (false, true) => Ok(Report::Refused(outcome.text.clone())),
        // Its hold was over before, or the suspension was never reached.
        (false, false) if outcome.text == NOTHING_SUSPENDED => Ok(Report::Done),
        (false, false) => Err(outcome.text.clone()),
    }
}

fn work(
    answers: Sender<Done>,
    mut act: impl FnMut(&Task) -> (Result<Report, String>, Option<Outcome>) + Send + 'static,
) -> Worker {
    let (tasks, queue) = mpsc::channel::<Task>();
    std::thread::spawn(move || {
        for task in queue {
            let (result, epoch) = act(&task);
            if answers.send(Done { ticket: task.ticket, result, epoch }).is_err() {
                return;
            }
        }
    });
    Worker { tasks, stop: Arc::default() }
}
