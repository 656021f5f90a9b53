//! Every rank may answer, refuse, die, be silent or say things twice, in any order: the steps stay in order and the epoch ends.

use super::*;

const LIMITS: Limits = Limits { step: 1_000, hold: 5_000 };

fn done(epoch: u64, step: Step) -> Done {
    Done { epoch, step, endpoints: 2, refusal: String::new() }
}

fn last_order(actions: &[Action]) -> Option<Step> {
    actions.iter().rev().find_map(|action| match action {
        Action::Order(order) => Some(order.step.clone()),
        _ => None,
    })
}

#[test]
fn an_epoch_without_failures_goes_through_all_phases() {
    let mut epochs = Epochs::default();
    let mut actions = epochs.begin(vec![1], 0..3, LIMITS, 10).unwrap();
    assert!(epochs.begin(vec![1], 0..3, LIMITS, 10).unwrap_err().contains("rank 0 (and 2 others)"));
    for step in [Step::Agree {}, Step::Drain {}, Step::Settle {}, Step::Release {}] {
        assert_eq!(last_order(&actions), Some(step.clone()));
        for rank in 0..3 {
            actions = epochs.on_done(rank, &done(1, step.clone()), 20);
            assert!(epochs.on_done(rank, &done(1, step.clone()), 20).is_empty(), "told twice");
        }
    }
    assert_eq!(actions, [Action::Ready]);
    assert!(epochs.is_ready() && epochs.outcome().endpoints == 6);
    actions = epochs.resume(120).unwrap();
    assert!(epochs.resume(120).unwrap().is_empty(), "told twice");
    for step in [Step::Publish {}, Step::Activate {}] {
        assert_eq!(last_order(&actions), Some(step.clone()));
        for rank in 0..3 {
            actions = epochs.on_done(rank, &done(1, step.clone()), 150);
        }
    }
    assert_eq!(actions, [Action::Over]);
    let outcome = epochs.outcome();
    let phases: Vec<(&str, u64)> = outcome.phases.iter().map(|p| (p.name.as_str(), p.micros)).collect();
    assert_eq!(phases, [("pre-migration", 10), ("ready", 0), ("migration", 100), ("post-migration", 30)]);
    assert!(outcome.is_done && epochs.resume(200).is_err());
}

#[test]
fn a_suspension_whose_asker_is_gone_ends_sooner() {
    for is_ready_before in [true, false] {
        let mut epochs = Epochs::default();
        epochs.begin(vec![0], 0..1, LIMITS, 0).unwrap();
        for step in [Step::Agree {}, Step::Drain {}, Step::Settle {}, Step::Release {}] {
            if step == (Step::Release {}) && !is_ready_before {
                epochs.on_alone(300, 10);
            }
            epochs.on_done(0, &done(1, step), 10);
        }
        assert!(epochs.is_ready());
        if is_ready_before {
            assert_eq!(epochs.deadline(), Some(5_010));
            epochs.on_alone(300, 10);
        }
        assert_eq!(epochs.deadline(), Some(310));
        assert_eq!(last_order(&epochs.on_time(310)), Some(Step::Publish {}));
        epochs.on_alone(9_000, 311);
        assert_eq!(epochs.deadline(), Some(1_310), "steps keep their limit");
    }
}

#[test]
fn a_rank_that_does_not_agree_ends_the_epoch_before_anything_is_suspended() {
    let mut epochs = Epochs::default();
    epochs.begin(vec![0], 0..2, LIMITS, 0).unwrap();
    epochs.on_done(0, &done(1, Step::Agree {}), 1);
    assert_eq!(epochs.on_time(1_000), [Action::Over]);
    assert_eq!(
        epochs.outcome().text,
        "rank 1 has yet to answer, which it does when it is in MPI, or at once with FERRULE_MIGRATION=mt"
    );
    epochs.begin(vec![0], 0..2, LIMITS, 1_001).unwrap();
    assert!(epochs.on_done(1, &done(1, Step::Agree {}), 1_002).is_empty(), "an answer to the first one");
    let refusal = Done { refusal: "it can't".into(), ..done(2, Step::Agree {}) };
    assert_eq!(epochs.on_done(1, &refusal, 1_003), [Action::Over]);
    assert_eq!(epochs.outcome().text, "rank 1: it can't");
}

#[test]
fn a_silent_rank_is_named_and_the_job_goes_on() {
    let mut epochs = Epochs::default();
    epochs.begin(vec![0], 0..2, LIMITS, 0).unwrap();
    (0..2).for_each(|rank| drop(epochs.on_done(rank, &done(1, Step::Agree {}), 0)));
    epochs.on_done(0, &done(1, Step::Drain {}), 1);
    assert!(epochs.on_time(999).is_empty());
    assert_eq!(last_order(&epochs.on_time(1_000)), Some(Step::Activate {}), "no socket has been closed");
    assert!(epochs.outcome().text.starts_with("rank 1 has yet to suspend"));
    assert!(epochs.begin(vec![0], 0..2, LIMITS, 1_001).is_err(), "the roll back is not over");
    epochs.on_done(0, &done(1, Step::Activate {}), 1_002);
    assert_eq!(epochs.on_done(1, &done(1, Step::Activate {}), 9_000), [Action::Over]);
    assert!(!epochs.outcome().is_done && epochs.is_over());
}

#[test]
fn what_fails_when_sockets_are_closed_leads_forward() {
    let mut epochs = Epochs::default();
    epochs.begin(vec![0], 0..2, LIMITS, 0).unwrap();
    for step in [Step::Agree {}, Step::Drain {}, Step::Settle {}] {
        (0..2).for_each(|rank| drop(epochs.on_done(rank, &done(1, step.clone()), 1)));
    }
    assert_eq!(last_order(&epochs.on_gone(1, 2)), Some(Step::Publish {}));
    assert_eq!(last_order(&epochs.on_done(0, &done(1, Step::Publish {}), 3)), Some(Step::Activate {}));
    assert_eq!(epochs.on_done(0, &done(1, Step::Activate {}), 4), [Action::Over]);
    assert_eq!(epochs.outcome().text, "rank 1 is gone");
}

#[test]
fn any_order_of_events_keeps_the_steps_in_order_and_ends() {
    let rank_of = |step: &Step| match step {
        Step::Agree {} => 0,
        Step::Drain {} => 1,
        Step::Settle {} => 2,
        Step::Release {} => 3,
        Step::Publish {} => 4,
        Step::Activate {} => 5,
    };
    let all = [Step::Agree {}, Step::Drain {}, Step::Settle {}, Step::Release {}, Step::Publish {}, Step::Activate {}];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    for round in 0..20_000_u64 {
        let ranks = 1 + random(5) as u32;
        let mut epochs = Epochs { number: round, ..Epochs::default() };
        let mut steps: Vec<Step> = Vec::new();
        let mut now = 0;
        let mut note = |actions: Vec<Action>| {
            for action in actions {
                if let Action::Order(order) = action {
                    assert_eq!(order.epoch, round + 1);
                    assert!(steps.last().is_none_or(|last| rank_of(last) < rank_of(&order.step)), "{steps:?}");
                    steps.push(order.step);
                }
            }
        };
        note(epochs.begin(vec![0], 0..ranks, LIMITS, now).unwrap());
        for _ in 0..random(60) {
            now += random(300);
            let rank = random(u64::from(ranks) + 1) as u32;
            let step = match &epochs.stage {
                Stage::Stepping(step) if random(4) > 0 => step.clone(),
                _ => all[random(6) as usize].clone(),
            };
            note(match random(12) {
                0 => epochs.on_gone(rank, now),
                1 => epochs.on_done(rank, &Done { refusal: "no".into(), ..done(round + 1, step) }, now),
                2 => epochs.on_done(rank, &done(round, step), now),
                3 => epochs.resume(now).unwrap_or_default(),
                4 => epochs.on_time(now),
                _ => epochs.on_done(rank, &done(round + 1, step), now),
            });
        }
        // From here on everybody who lives answers: it ends, whatever has happened.
        for _ in 0..20 {
            now += 10_000;
            note(epochs.on_time(now));
            if let Stage::Stepping(step) = epochs.stage.clone() {
                (0..ranks).for_each(|rank| note(epochs.on_done(rank, &done(round + 1, step.clone()), now)));
            }
        }
        assert!(epochs.is_over(), "{epochs:?}");
    }
}
