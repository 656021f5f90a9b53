//! Any step may fail, be silent, be answered twice, and the user may abort at any time: the invariants of the crate's README hold.

use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { step_us: 100, migrate_us: 1_000, epoch_us: 500 };

/// What happens to an order.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    Failed,
    /// Of `Suspend`; other orders fail.
    Refused,
    Silent,
    /// Silent, and answered after the limit.
    Late,
    Twice,
    /// Done, after the user has aborted.
    Aborted,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Done),
        2 => Just(Fate::Failed),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Silent),
        1 => Just(Fate::Late),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Aborted),
    ];
    proptest::collection::vec(fate, 1..60)
}

/// A world in which the orders are carried out, and which complains about those that must not be.
struct World {
    machine: Machine,
    now: u64,
    pending: Vec<(u64, Order)>,
    /// Where each VM runs, whether a migration has been started and whether devices were told to be detached.
    place: Vec<Side>,
    /// Where the controller has been told that the VM runs.
    told: Vec<Option<Side>>,
    detached: Vec<bool>,
    suspended: bool,
    log: Vec<Order>,
    is_over: bool,
}

impl World {
    fn new(vms: usize, is_plan: bool) -> World {
        let mut world = World {
            machine: Machine::new(vms, is_plan, LIMITS),
            now: 0,
            pending: Vec::new(),
            place: vec![Side::Source; vms],
            told: vec![None; vms],
            detached: vec![false; vms],
            suspended: false,
            log: Vec::new(),
            is_over: false,
        };
        let actions = world.machine.begin(0);
        world.take(actions);
        world
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            assert!(!self.is_over, "an action after the end");
            match action {
                Action::Over => self.is_over = true,
                Action::Start { ticket, order, deadline_us } => {
                    assert!(deadline_us > self.now);
                    self.check(order);
                    self.log.push(order);
                    self.pending.push((ticket, order));
                }
            }
        }
    }

    fn check(&mut self, order: Order) {
        let under_way = self.machine.under_way();
        match order {
            Order::Suspend => self.suspended = true,
            Order::Resume => {
                assert_eq!(under_way, [Order::Resume], "a step is under way");
                assert!(self.suspended);
            }
            Order::Vm(_, Step::Check) => assert!(!self.suspended),
            Order::Vm(vm, step) => {
                assert!(self.suspended && !self.log.contains(&Order::Resume));
                let same = under_way.iter().filter(|order| matches!(order, Order::Vm(other, _) if *other == vm));
                assert_eq!(same.count(), 1, "two steps of one VM");
                match step {
                    Step::Migrate => assert!(self.detached[vm], "a migration with devices"),
                    Step::Attach(Side::Destination) => assert_eq!(self.told[vm], Some(Side::Destination)),
                    Step::Attach(Side::Source) => assert_ne!(self.told[vm], Some(Side::Destination)),
                    _ => {}
                }
                // A cancelled or silent migration may have moved it all the same: then only `Cancel` says where it is.
                if matches!(step, Step::Attach(side) if side != self.place[vm]) {
                    panic!("devices are attached where the VM doesn't run");
                }
            }
        }
    }

    /// Carries an order out.
    fn answer(&mut self, order: Order, is_done: bool) -> Result<Report, String> {
        if !is_done {
            return Err("broken".into());
        }
        match order {
            Order::Vm(vm, Step::Detach) => self.detached[vm] = true,
            Order::Vm(vm, Step::Migrate) => {
                self.place[vm] = Side::Destination;
                self.told[vm] = Some(Side::Destination);
            }
            Order::Vm(vm, Step::Cancel) => {
                self.told[vm] = Some(self.place[vm]);
                return Ok(Report::RunsAt(self.place[vm]));
            }
            _ => {}
        }
        Ok(Report::Done)
    }

    fn tell(&mut self, ticket: u64, answer: Result<Report, String>) {
        let actions = self.machine.on_answer(ticket, answer, self.now);
        self.take(actions);
    }

    fn abort(&mut self) {
        if let Ok(actions) = self.machine.abort(self.now) {
            self.take(actions);
        }
    }

    fn let_time_pass(&mut self) {
        if let Some(deadline) = self.machine.deadline() {
            self.now = deadline;
            let actions = self.machine.on_time(self.now);
            self.take(actions);
        }
    }

    fn is_awaited(&self, ticket: u64) -> bool {
        self.machine.open.iter().any(|open| open.ticket == ticket)
    }

    fn meet(&mut self, fate: Fate) {
        let Some((ticket, order)) = (!self.pending.is_empty()).then(|| self.pending.remove(0)) else {
            return self.let_time_pass();
        };
        self.now += 1;
        if matches!(fate, Fate::Aborted) {
            self.abort();
        }
        match fate {
            Fate::Silent => self.let_time_pass(),
            Fate::Late => {
                // A migration that nobody awaits any more moves the VM all the same.
                if matches!(order, Order::Vm(vm, Step::Migrate) if self.is_awaited(ticket) && self.place[vm] == Side::Source)
                {
                    let Order::Vm(vm, _) = order else { return };
                    self.place[vm] = Side::Destination;
                }
                self.let_time_pass();
                let in_time = self.is_awaited(ticket).then(|| self.answer(order, true));
                self.tell(ticket, in_time.unwrap_or(Ok(Report::Done)));
            }
            _ if !self.is_awaited(ticket) => self.tell(ticket, Ok(Report::Done)),
            Fate::Refused if order == Order::Suspend => {
                self.suspended = false;
                self.tell(ticket, Ok(Report::Refused("no".into())));
            }
            Fate::Failed | Fate::Refused => {
                let answer = self.answer(order, false);
                self.tell(ticket, answer);
            }
            Fate::Done | Fate::Aborted => {
                let answer = self.answer(order, true);
                self.tell(ticket, answer);
            }
            Fate::Twice => {
                let answer = self.answer(order, true);
                self.tell(ticket, answer.clone());
                let before = format!("{:?}", self.machine);
                self.tell(ticket, answer);
                self.tell(ticket + 1_000, Err("never ordered".into()));
                assert_eq!(format!("{:?}", self.machine), before, "told twice");
            }
        }
    }

    fn run(&mut self, fates: &[Fate]) {
        for turn in 0..1_000 {
            if self.is_over {
                return;
            }
            self.meet(fates.get(turn).copied().unwrap_or(Fate::Silent));
        }
        panic!("it doesn't end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_ends_and_the_job_is_resumed(vms in 1_usize..4, fates in fates()) {
        let mut world = World::new(vms, false);
        world.run(&fates);
        let outcome = world.machine.outcome();
        let resumes = world.log.iter().filter(|order| **order == Order::Resume).count();
        prop_assert_eq!(resumes > 0, world.suspended, "suspended and not resumed, or the reverse");
        prop_assert!(resumes <= 3 && world.log.len() <= 2 * vms + 4 + vms * 8);
        prop_assert!(world.machine.deadline().is_none());
        for (vm, place) in outcome.vms.iter().zip(&world.place) {
            prop_assert!(vm.place.is_none_or(|known| known == *place), "it is elsewhere than said");
            prop_assert!(vm.place.is_some() || !vm.trouble.is_empty());
        }
        let arrived = outcome.vms.iter().all(|vm| vm.place == Some(Side::Destination) && vm.has_devices);
        prop_assert_eq!(outcome.is_done, arrived && outcome.is_resumed);
        prop_assert!(outcome.is_done || outcome.is_aborted || !outcome.trouble.is_empty()
            || outcome.vms.iter().any(|vm| !vm.trouble.is_empty()), "a failure without a word");
    }

    #[test]
    fn a_plan_changes_nothing(vms in 1_usize..4, fates in fates()) {
        let mut world = World::new(vms, true);
        world.run(&fates);
        prop_assert!(world.log.iter().all(|order| matches!(order, Order::Vm(_, Step::Check))));
    }
}

#[test]
fn without_failures_all_phases_follow_each_other() {
    let mut world = World::new(1, false);
    world.run(&[Fate::Done; 20]);
    let vm = |step| Order::Vm(0, step);
    let wanted = [
        vm(Step::Check),
        Order::Suspend,
        vm(Step::Detach),
        vm(Step::Migrate),
        vm(Step::Attach(Side::Destination)),
        Order::Resume,
    ];
    assert_eq!(world.log, wanted);
    assert!(world.machine.outcome().is_done);
    assert_eq!(world.machine.phases().iter().map(|phase| phase.0).collect::<Vec<_>>(), PHASES);
    assert!(world.machine.abort(world.now).is_err());
}

#[test]
fn a_failed_migration_goes_back_and_one_that_arrived_goes_forward() {
    let until = |fates: &[Fate]| {
        let mut world = World::new(1, false);
        world.run(fates);
        (world.log, world.machine.outcome())
    };
    let (log, outcome) = until(&[&[Fate::Done; 3][..], &[Fate::Failed], &[Fate::Done; 9]].concat());
    assert_eq!(&log[4..6], [Order::Vm(0, Step::Cancel), Order::Vm(0, Step::Attach(Side::Source))]);
    assert!(!outcome.is_done && outcome.is_resumed && outcome.vms[0].has_devices);
    let (log, outcome) = until(&[&[Fate::Done; 3][..], &[Fate::Late], &[Fate::Done; 9]].concat());
    assert_eq!(&log[4..6], [Order::Vm(0, Step::Cancel), Order::Vm(0, Step::Attach(Side::Destination))]);
    assert!(outcome.is_done);
    let (log, outcome) = until(&[&[Fate::Done; 3][..], &[Fate::Aborted], &[Fate::Done; 9]].concat());
    assert_eq!(&log[4..6], [Order::Vm(0, Step::Cancel), Order::Vm(0, Step::Attach(Side::Source))]);
    assert!(outcome.is_aborted && !outcome.is_done);
}
