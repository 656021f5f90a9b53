//! The controller of live migrations: which step comes when, and what follows when one fails, is silent, or the user aborts. No I/O, no clock of its own.
//!
//! ```text
//!  Check ─► Suspend ─► for each VM: Detach ─► Migrate ─► Attach at the destination ─┐
//!    │         │                      │          └ failure ─► Cancel: where is it? ──┤
//!    │         │                      └ failure ─► Attach at the source ─────────────┤
//!    │         └ no answer ────────────────────────────────────────────────► Resume ◄┘─► over
//!    └ failure, or mpiexec refuses to suspend ─────────────────────────────────────────────► over
//! ```
//! The point of no return of a VM is the moment when it runs at the destination: `Migrate` has said so, or `Cancel` has found it there. Before it a failure
//! leads back to the source, after it forward. `Cancel`, `Attach` and `Resume` are tried again some times; what then still fails is told, and the rest
//! goes on. VMs are independent of each other between `Suspend` and `Resume`.
//!
//! Invariants: README.md of this crate; `machine/tests.rs` checks them.

#[cfg(test)]
mod tests;

/// Where a VM runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where it was.
    Source,
    /// Where it is to go.
    Destination,
}

/// What a driver does with one VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Finds out whether the other steps are possible; changes nothing.
    Check,
    /// Detaches the devices that can't move.
    Detach,
    /// Moves it; done when it runs at the destination.
    Migrate,
    /// Ends a migration under way, and says where the VM runs.
    Cancel,
    /// Attaches the devices that aren't attached, and waits until the guest can use them.
    Attach(Side),
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// mpiexec suspends the endpoints of all VMs concerned.
    Suspend,
    /// mpiexec resumes them.
    Resume,
    /// A driver's step with the VM of that number.
    Vm(usize, Step),
}

/// What a step has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// It is done.
    Done,
    /// The answer to [`Step::Cancel`]: the VM runs there.
    RunsAt(Side),
    /// The answer to [`Order::Suspend`]: nothing is suspended, and why. It may be another's epoch that is in the way, so nothing is resumed.
    Refused(String),
}

/// What the caller does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Begins this, and calls [`Machine::on_answer`] with the ticket. Another step of the same VM that is still under way is to be stopped first.
    Start {
        /// Names the order in its answer.
        ticket: u64,
        /// What to do.
        order: Order,
        /// When it must have been answered.
        deadline_us: u64,
    },
    /// It is over; see [`Machine::outcome`].
    Over,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of a driver's steps but `Migrate`.
    pub step_us: u64,
    /// Of `Migrate`.
    pub migrate_us: u64,
    /// Of `Suspend` and `Resume`, which mpiexec does in several steps.
    pub epoch_us: u64,
}

/// How often `Cancel`, `Attach` and `Resume` are tried.
const TRIES: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Checking,
    Suspending,
    Moving,
    Resuming,
    Over,
}

/// An order that has no answer yet.
#[derive(Debug)]
struct Open {
    ticket: u64,
    order: Order,
    deadline_us: u64,
}

#[derive(Debug)]
struct Vm {
    /// Nothing if nobody knows.
    place: Option<Side>,
    has_devices: bool,
    tries: u32,
    trouble: Vec<String>,
}

/// How it ended for one VM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmOutcome {
    /// Where it runs; nothing if that is unknown.
    pub place: Option<Side>,
    /// Whether its devices are attached there.
    pub has_devices: bool,
    /// What failed on the way.
    pub trouble: Vec<String>,
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Whether all VMs run at their destinations with their devices, and the job goes on. For a plan: whether all checks have succeeded.
    pub is_done: bool,
    /// Whether mpiexec has resumed the job; true also if nothing has been suspended.
    pub is_resumed: bool,
    /// Whether the user has aborted it in time.
    pub is_aborted: bool,
    /// What failed with mpiexec.
    pub trouble: Vec<String>,
    /// By VM.
    pub vms: Vec<VmOutcome>,
}

/// The phases of a migration in their order, as [`Machine::phases`] names them.
pub const PHASES: [&str; 6] = ["check", "suspend", "detach", "migrate", "attach", "resume"];

/// See the head of this file.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    is_plan: bool,
    stage: Stage,
    is_aborted: bool,
    is_resumed: bool,
    tries: u32,
    trouble: Vec<String>,
    vms: Vec<Vm>,
    open: Vec<Open>,
    ticket: u64,
    /// Begin and end by phase.
    times: [Option<(u64, u64)>; PHASES.len()],
}

impl Machine {
    /// For so many VMs; a plan only checks.
    pub fn new(vms: usize, is_plan: bool, limits: Limits) -> Machine {
        let vm = || Vm { place: Some(Side::Source), has_devices: true, tries: 0, trouble: Vec::new() };
        Machine {
            limits,
            is_plan,
            stage: Stage::Checking,
            is_aborted: false,
            is_resumed: true,
            tries: 0,
            trouble: Vec::new(),
            vms: std::iter::repeat_with(vm).take(vms).collect(),
            open: Vec::new(),
            ticket: 0,
            times: [None; PHASES.len()],
        }
    }

    // ---- inputs

    /// Begins; called once.
    pub fn begin(&mut self, now: u64) -> Vec<Action> {
        let checks = (0..self.vms.len()).map(|vm| Order::Vm(vm, Step::Check));
        let checks: Vec<Order> = checks.collect();
        checks.into_iter().map(|order| self.start(order, now)).collect()
    }

    /// The answer to an order. One that isn't awaited changes nothing.
    pub fn on_answer(&mut self, ticket: u64, answer: Result<Report, String>, now: u64) -> Vec<Action> {
        let Some(at) = self.open.iter().position(|open| open.ticket == ticket) else { return Vec::new() };
        let open = self.open.swap_remove(at);
        self.on_result(open.order, answer, now)
    }

    /// Time has passed: what is overdue has failed.
    pub fn on_time(&mut self, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(at) = self.open.iter().position(|open| open.deadline_us <= now) {
            let open = self.open.swap_remove(at);
            actions.extend(self.on_result(open.order, Err("no answer within the limit".into()), now));
        }
        actions
    }

    /// The user wants it undone. Why that isn't possible any more for any VM.
    pub fn abort(&mut self, now: u64) -> Result<Vec<Action>, String> {
        let has_moved = |vm: &Vm| vm.place == Some(Side::Destination);
        if self.stage == Stage::Over || self.stage == Stage::Resuming || self.vms.iter().all(has_moved) {
            return Err("it is too late to abort: the migration is past its point of no return".into());
        }
        if std::mem::replace(&mut self.is_aborted, true) {
            return Ok(Vec::new());
        }
        if self.stage == Stage::Checking {
            self.open.clear();
            return Ok(vec![self.end()]);
        }
        // Other steps are soon over, and what follows them heeds the abort.
        let migrating = |order: &Order| match order {
            Order::Vm(vm, Step::Migrate) => Some(*vm),
            _ => None,
        };
        let vms: Vec<usize> = self.open.iter().filter_map(|open| migrating(&open.order)).collect();
        self.open.retain(|open| migrating(&open.order).is_none());
        Ok(vms.into_iter().map(|vm| self.start(Order::Vm(vm, Step::Cancel), now)).collect())
    }

    // ---- questions

    /// When [`Machine::on_time`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.open.iter().map(|open| open.deadline_us).min()
    }

    /// What is under way.
    pub fn under_way(&self) -> Vec<Order> {
        self.open.iter().map(|open| open.order).collect()
    }

    /// How it has ended, or stands.
    pub fn outcome(&self) -> Outcome {
        let vms = self.vms.iter().map(|vm| VmOutcome {
            place: vm.place,
            has_devices: vm.has_devices,
            trouble: vm.trouble.clone(),
        });
        let vms: Vec<VmOutcome> = vms.collect();
        let arrived = |vm: &VmOutcome| vm.place == Some(Side::Destination) && vm.has_devices;
        let checked = |vm: &VmOutcome| vm.trouble.is_empty();
        let is_well = if self.is_plan { vms.iter().all(checked) } else { vms.iter().all(arrived) };
        Outcome {
            is_done: self.stage == Stage::Over && self.is_resumed && is_well && !(self.is_plan && self.is_aborted),
            is_resumed: self.is_resumed,
            is_aborted: self.is_aborted,
            trouble: self.trouble.clone(),
            vms,
        }
    }

    /// The phases so far with their times in microseconds, each from its first beginning to its last end.
    pub fn phases(&self) -> Vec<(&'static str, u64)> {
        let named = PHASES.iter().zip(&self.times);
        named.filter_map(|(name, time)| time.map(|(begin, end)| (*name, end.saturating_sub(begin)))).collect()
    }

    // ---- steps

    fn start(&mut self, order: Order, now: u64) -> Action {
        self.ticket += 1;
        let limit = match order {
            Order::Suspend | Order::Resume => self.limits.epoch_us,
            Order::Vm(_, Step::Migrate) => self.limits.migrate_us,
            Order::Vm(..) => self.limits.step_us,
        };
        let deadline_us = now.saturating_add(limit);
        self.open.push(Open { ticket: self.ticket, order, deadline_us });
        if let Some(phase) = phase(order) {
            self.times[phase].get_or_insert((now, now));
        }
        Action::Start { ticket: self.ticket, order, deadline_us }
    }

    fn end(&mut self) -> Action {
        self.stage = Stage::Over;
        Action::Over
    }

    fn on_result(&mut self, order: Order, result: Result<Report, String>, now: u64) -> Vec<Action> {
        if let Some((_, end)) = phase(order).and_then(|phase| self.times[phase].as_mut()) {
            *end = now;
        }
        match order {
            Order::Suspend => self.on_suspended(result, now),
            Order::Resume => self.on_resumed(result, now),
            Order::Vm(vm, Step::Check) => self.on_checked(vm, result, now),
            Order::Vm(vm, step) => self.on_step(vm, step, result, now),
        }
    }

    fn on_checked(&mut self, vm: usize, result: Result<Report, String>, now: u64) -> Vec<Action> {
        self.vms[vm].trouble.extend(result.err());
        if !self.open.is_empty() {
            return Vec::new();
        }
        if self.is_plan || self.vms.iter().any(|vm| !vm.trouble.is_empty()) {
            return vec![self.end()];
        }
        self.stage = Stage::Suspending;
        self.is_resumed = false;
        vec![self.start(Order::Suspend, now)]
    }

    fn on_suspended(&mut self, result: Result<Report, String>, now: u64) -> Vec<Action> {
        if let Ok(Report::Refused(why)) = result {
            self.trouble.push(why);
            self.is_resumed = true;
            return vec![self.end()];
        }
        let failed = result.is_err();
        self.trouble.extend(result.err());
        if failed || self.is_aborted || self.vms.is_empty() {
            return self.resume(now);
        }
        self.stage = Stage::Moving;
        (0..self.vms.len()).map(|vm| self.start(Order::Vm(vm, Step::Detach), now)).collect()
    }

    fn on_step(&mut self, number: usize, step: Step, result: Result<Report, String>, now: u64) -> Vec<Action> {
        let is_aborted = self.is_aborted;
        let vm = &mut self.vms[number];
        if let Err(why) = &result {
            vm.trouble.push(format!("{}: {why}", name(step)));
        }
        vm.tries += 1;
        let may_try_again = vm.tries < TRIES;
        let next = match (step, result) {
            (Step::Check, _) => None,
            (Step::Detach, result) => {
                // After a failure some may be detached, and some not.
                vm.has_devices = false;
                Some(if result.is_ok() && !is_aborted { Step::Migrate } else { Step::Attach(Side::Source) })
            }
            (Step::Migrate, Ok(_)) | (Step::Cancel, Ok(Report::RunsAt(Side::Destination))) => {
                vm.place = Some(Side::Destination);
                Some(Step::Attach(Side::Destination))
            }
            (Step::Migrate, Err(_)) => Some(Step::Cancel),
            (Step::Cancel, Ok(Report::RunsAt(Side::Source))) => Some(Step::Attach(Side::Source)),
            (Step::Cancel, _) if may_try_again => Some(step),
            (Step::Cancel, _) => {
                vm.place = None;
                None
            }
            (Step::Attach(_), Ok(_)) => {
                vm.has_devices = true;
                None
            }
            (Step::Attach(_), Err(_)) => Some(step).filter(|_| may_try_again),
        };
        if next != Some(step) {
            vm.tries = 0;
        }
        match next {
            Some(next) => vec![self.start(Order::Vm(number, next), now)],
            None if self.open.is_empty() => self.resume(now),
            None => Vec::new(),
        }
    }

    fn resume(&mut self, now: u64) -> Vec<Action> {
        self.stage = Stage::Resuming;
        vec![self.start(Order::Resume, now)]
    }

    fn on_resumed(&mut self, result: Result<Report, String>, now: u64) -> Vec<Action> {
        self.tries += 1;
        self.is_resumed = result.is_ok();
        self.trouble.extend(result.err());
        if !self.is_resumed && self.tries < TRIES {
            return self.resume(now);
        }
        vec![self.end()]
    }
}

/// A step's name in messages, and as scripts get it.
pub fn name(step: Step) -> &'static str {
    match step {
        Step::Check => "check",
        Step::Detach => "detach",
        Step::Migrate => "migrate",
        Step::Cancel => "cancel",
        Step::Attach(Side::Source) => "attach-source",
        Step::Attach(Side::Destination) => "attach-destination",
    }
}

/// The phase to which an order belongs.
fn phase(order: Order) -> Option<usize> {
    let name = match order {
        Order::Suspend => "suspend",
        Order::Resume => "resume",
        Order::Vm(_, Step::Check) => "check",
        Order::Vm(_, Step::Detach) => "detach",
        Order::Vm(_, Step::Migrate | Step::Cancel) => "migrate",
        Order::Vm(_, Step::Attach(_)) => "attach",
    };
    PHASES.iter().position(|phase| *phase == name)
}
