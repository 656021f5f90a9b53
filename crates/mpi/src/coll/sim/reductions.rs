//! Reductions against a model.

use super::super::allreduce::Allreduce;
use super::super::args::IN_PLACE;
use super::super::builder::Builder;
use super::super::comm_view::CommView;
use super::super::ints::Ints;
use super::super::job_choices;
use super::super::layout::Layout;
use super::super::reduce::Reduce;
use super::super::reduce_scatter::Counts;
use super::super::reduce_scatter::ReduceScatter;
use super::super::scan::Scan;
use super::super::select::Algorithm;
use super::super::{allreduce, reduce, reduce_scatter, scan};
use super::memory::*;
use super::*;

const SIZES: std::ops::RangeInclusive<usize> = 1..=17;

fn cases() -> Vec<(Kind, Operation)> {
    vec![
        (Kind::plain(), Operation::sum()),
        (Kind::pair(), Operation::compose()),
        (Kind::holed(), Operation::compose()),
        (Kind::holed(), Operation::user_add()),
    ]
}

fn seed_of(rank: usize) -> u64 {
    1000 * rank as u64 + 1
}

struct World<'a> {
    kind: &'a Kind,
    n: usize,
    count: usize,
    in_place: bool,
    sends: Vec<Memory>,
    recvs: Vec<Memory>,
}

impl<'a> World<'a> {
    fn new(kind: &'a Kind, n: usize, count: usize, in_place: bool) -> World<'a> {
        let filled = |r| Memory::filled(kind, count, seed_of(r));
        let sends = (0..n).map(filled).collect();
        let recvs = (0..n).map(|r| if in_place { filled(r) } else { Memory::new(kind, count) }).collect();
        World { kind, n, count, in_place, sends, recvs }
    }

    fn args<'b>(
        &'b mut self,
        r: usize,
        operation: &'b Operation,
        in_place: bool,
    ) -> super::super::args::ReduceArgs<'b> {
        let send = if in_place { IN_PLACE } else { self.sends[r].ptr() };
        operation.args(send, self.recvs[r].ptr(), self.count, self.kind)
    }

    fn expected(&self, operation: &Operation, ranks: std::ops::Range<usize>, item: usize) -> Option<Item> {
        operation.fold(ranks.map(|r| self.kind.item(seed_of(r) + item as u64)))
    }

    fn check_sends(&self) {
        for (r, send) in self.sends.iter().enumerate() {
            let sent: Vec<Item> = (0..self.count).map(|i| self.kind.item(seed_of(r) + i as u64)).collect();
            assert_eq!(send.all(), sent, "a send buffer has changed");
        }
    }
}

/// Runs `check` for every algorithm, size, type, operation and count.
fn everything<A: Algorithm>(check: impl Fn(&'static str, &Kind, &Operation, usize, usize, bool)) {
    for (kind, operation) in cases() {
        for n in SIZES {
            for &algorithm in A::ALL {
                for count in [0, 1, 3, 18, 41] {
                    for in_place in [false, true] {
                        check(algorithm.name(), &kind, &operation, n, count, in_place);
                    }
                }
            }
        }
    }
}

/// The layout of an odd distribution over nodes.
fn layout(rank: usize, n: usize, spread: usize) -> Layout {
    Layout::new(rank, n, |r| (r * 7 % n.max(1) / spread.max(1)) as u64)
}

fn with_view(name: &'static str, r: usize, n: usize, f: impl FnOnce(&CommView<'_>) -> Result) -> Result {
    let layout = layout(r, n, 3);
    let layout = (name == "hierarchical").then_some(&layout);
    let choices = job_choices::forcing(name);
    f(&CommView { choices: &choices, layout, ..CommView::new(r, n) })
}

#[test]
fn allreduce_gives_all_the_result() {
    everything::<Allreduce>(|name, kind, operation, n, count, in_place| {
        let mut world = World::new(kind, n, count, in_place);
        run(n, count as u64, |r, b| {
            with_view(name, r, n, |view| allreduce::build(b, view, world.args(r, operation, in_place)))
        });
        world.check_sends();
        for (r, recv) in world.recvs.iter().enumerate() {
            let expected: Vec<Item> = (0..count).map(|i| world.expected(operation, 0..n, i).unwrap()).collect();
            assert_eq!(
                recv.all(),
                expected,
                "{name} {} {} n={n} count={count} {in_place} rank {r}",
                kind.name,
                operation.name
            );
        }
    });
}

#[test]
fn reduce_gives_the_root_the_result() {
    everything::<Reduce>(|name, kind, operation, n, count, in_place| {
        for root in [0, n / 2, n - 1] {
            let mut world = World::new(kind, n, count, in_place);
            run(n, count as u64, |r, b| {
                with_view(name, r, n, |view| {
                    let args = world.args(r, operation, in_place && r == root);
                    reduce::build(b, view, args, root as i32)
                })
            });
            world.check_sends();
            let what = format!("{name} {} {} n={n} count={count} {in_place} root {root}", kind.name, operation.name);
            for (i, item) in world.recvs[root].all().into_iter().enumerate() {
                assert_eq!(Some(item), world.expected(operation, 0..n, i), "{what}");
            }
            for (r, recv) in world.recvs.iter().enumerate().filter(|(r, _)| *r != root) {
                let before = |i| if in_place { kind.item(seed_of(r) + i as u64) } else { kind.unset() };
                assert!(
                    recv.all().into_iter().enumerate().all(|(i, v)| v == before(i)),
                    "{what}: rank {r} was written"
                );
            }
        }
    });
}

#[test]
fn scans_combine_prefixes() {
    everything::<Scan>(|name, kind, operation, n, count, in_place| {
        for exclusive in [false, true] {
            let mut world = World::new(kind, n, count, in_place);
            run(n, count as u64, |r, b| {
                with_view(name, r, n, |view| scan::build(b, view, world.args(r, operation, in_place), exclusive))
            });
            world.check_sends();
            for (r, recv) in world.recvs.iter().enumerate() {
                let end = if exclusive { r } else { r + 1 };
                for (i, item) in recv.all().into_iter().enumerate().filter(|_| end > 0) {
                    let expected = world.expected(operation, 0..end, i);
                    assert_eq!(Some(item), expected, "{name} {} n={n} {in_place} {exclusive} rank {r}", kind.name);
                }
            }
        }
    });
}

#[test]
fn reduce_scatter_gives_each_its_block() {
    everything::<ReduceScatter>(|name, kind, operation, n, count, in_place| {
        let counts: Vec<i32> = (0..n).map(|r| ((r * 5 + count) % 4) as i32 * i32::from(count > 0)).collect();
        let start = |r: usize| counts[..r].iter().sum::<i32>() as usize;
        let mut world = World::new(kind, n, start(n), in_place);
        run(n, count as u64, |r, b| {
            let counts = Counts::List(Ints::I32(&counts));
            with_view(name, r, n, |view| reduce_scatter::build(b, view, world.args(r, operation, in_place), counts))
        });
        world.check_sends();
        for (r, &count) in counts.iter().enumerate() {
            let all = world.recvs[r].all();
            for (i, &item) in all[..count as usize].iter().enumerate() {
                let expected = world.expected(operation, 0..n, start(r) + i);
                assert_eq!(Some(item), expected, "{name} {} n={n} {in_place} rank {r}", kind.name);
            }
            let before = |i| if in_place { kind.item(seed_of(r) + i as u64) } else { kind.unset() };
            let rest = all.into_iter().enumerate().skip(count as usize);
            assert!(rest.into_iter().all(|(i, v)| v == before(i)), "{name}: more than the result was written");
        }
    });
}

#[test]
fn reduce_scatter_block_gives_each_its_block() {
    everything::<ReduceScatter>(|name, kind, operation, n, count, in_place| {
        let block = count.min(5);
        let mut world = World::new(kind, n, block * n, in_place);
        run(n, count as u64, |r, b| {
            let args = world.args(r, operation, in_place);
            with_view(name, r, n, |view| reduce_scatter::build(b, view, args, Counts::Block(block)))
        });
        for r in 0..n {
            let all = world.recvs[r].all();
            for (i, &item) in all[..block].iter().enumerate() {
                assert_eq!(Some(item), world.expected(operation, 0..n, r * block + i), "{name} {} n={n}", kind.name);
            }
        }
    });
}

#[test]
fn long_vectors_are_pipelined() {
    for (kind, operation) in cases() {
        for (n, in_place) in [(2, false), (2, true), (3, false), (5, true)] {
            let count = 997;
            let mut world = World::new(&kind, n, count, in_place);
            run(n, 8, |r, b| {
                let (own, result) = {
                    let args = world.args(r, &operation, in_place);
                    args.set_up(b)?;
                    args.both(b)?
                };
                allreduce::direct::build(b, &CommView::new(r, n).team(), own, result, 700);
                Ok(())
            });
            world.check_sends();
            let expected: Vec<Item> = (0..count).map(|i| world.expected(&operation, 0..n, i).unwrap()).collect();
            assert!(world.recvs.iter().all(|recv| recv.all() == expected), "{} n={n} {in_place}", kind.name);
        }
    }
}

#[test]
fn a_schedule_runs_again() {
    let (kind, operation, n) = (Kind::plain(), Operation::sum(), 3);
    let mut world = World::new(&kind, n, 4, false);
    let builders: Vec<Builder> = (0..n)
        .map(|r| {
            let mut b = Builder::default();
            let args = world.args(r, &operation, false);
            with_view("rabenseifner", r, n, |view| allreduce::build(&mut b, view, args)).unwrap();
            b
        })
        .collect();
    for round in 0..3 {
        execute(&builders, (n, 0), round);
        let sum = |world: &World<'_>| world.expected(&operation, 0..n, 0).unwrap();
        assert_eq!(world.recvs[1].get(0), sum(&world));
        world.recvs[1].set(0, [0; 2]);
    }
    assert!(world.in_place || world.n == 3);
}
