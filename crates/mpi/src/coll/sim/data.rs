//! Collectives that move data, and barriers, against a model.

use super::super::allgather::Allgather;
use super::super::alltoall::Alltoall;
use super::super::args::BlockBuffer;
use super::super::barrier::Barrier;
use super::super::bcast::Bcast;
use super::super::comm_view::CommView;
use super::super::gather::Gather;
use super::super::job_choices;
use super::super::layout::Layout;
use super::super::select::Algorithm;
use super::super::{allgather, alltoall, barrier, bcast, gather, scatter};
use super::memory::*;
use super::*;
use crate::coll::ints::Ints;

const SIZES: std::ops::RangeInclusive<usize> = 1..=17;
const COUNTS: [usize; 4] = [0, 1, 3, 20];

fn kinds() -> [Kind; 3] {
    [Kind::plain(), Kind::holed(), Kind::shifted()]
}

fn each<A: Algorithm>(check: impl Fn(&'static str, &Kind, usize, usize)) {
    for kind in kinds() {
        for n in SIZES {
            for &algorithm in A::ALL {
                COUNTS.into_iter().for_each(|count| check(algorithm.name(), &kind, n, count));
            }
        }
    }
}

fn with_view(name: &'static str, r: usize, n: usize, f: impl FnOnce(&CommView<'_>) -> Result) -> Result {
    let layout = Layout::new(r, n, |r| (r % 4) as u64);
    let layout = (name == "hierarchical").then_some(&layout);
    let choices = job_choices::forcing(name);
    f(&CommView { choices: &choices, layout, ..CommView::new(r, n) })
}

fn items(kind: &Kind, count: usize, seed: u64) -> Vec<Item> {
    (0..count).map(|i| kind.item(seed + i as u64)).collect()
}

#[test]
fn bcast_reaches_everybody() {
    each::<Bcast>(|name, kind, n, count| {
        for root in 0..n {
            let mut memory: Vec<Memory> = (0..n).map(|_| Memory::new(kind, count)).collect();
            memory[root] = Memory::filled(kind, count, 9);
            run(n, root as u64, |r, b| {
                with_view(name, r, n, |view| bcast::build(b, view, memory[r].buffer(count, kind), root as i32))
            });
            assert!(
                memory.iter().all(|m| m.all() == items(kind, count, 9)),
                "{name} {} n={n} count={count}",
                kind.name
            );
        }
    });
}

#[test]
fn long_bcast_is_pipelined() {
    for n in [2, 5] {
        let (kind, count) = (Kind::holed(), 70_000);
        let mut memory: Vec<Memory> = (0..n).map(|_| Memory::new(&kind, count)).collect();
        memory[1] = Memory::filled(&kind, count, 9);
        run(n, 1, |r, b| with_view("chain", r, n, |view| bcast::build(b, view, memory[r].buffer(count, &kind), 1)));
        assert!(memory.iter().all(|m| m.all() == items(&kind, count, 9)));
    }
}

#[test]
fn barriers_end() {
    for n in SIZES {
        for algorithm in Barrier::ALL {
            run(n, n as u64, |r, b| with_view(algorithm.name(), r, n, |view| barrier::build(b, view)));
        }
    }
}

/// Nobody may leave before the last one enters: with one process held back, no other schedule ends.
#[test]
fn barriers_hold() {
    for n in 2..=17 {
        for algorithm in Barrier::ALL {
            for late in [0, n / 2, n - 1] {
                let ended =
                    run_without(n, late, |r, b| with_view(algorithm.name(), r, n, |view| barrier::build(b, view)));
                assert_eq!(ended, 0, "{algorithm:?}: somebody left early");
            }
        }
    }
}

#[test]
fn gather_and_scatter_meet_the_root() {
    each::<Gather>(|name, kind, n, count| {
        for (root, in_place) in [(0, false), (n / 2, true), (n - 1, false)] {
            let mut own: Vec<Memory> = (0..n).map(|r| Memory::filled(kind, count, 100 * r as u64)).collect();
            let mut all = Memory::new(kind, n * count);
            (0..count).for_each(|i| all.set(root * count + i, kind.item((100 * root + i) as u64)));
            run(n, root as u64, |r, b| {
                with_view(name, r, n, |view| {
                    let recv = (r == root).then(|| all.even(count, kind));
                    let send = (r != root || !in_place).then(|| own[r].buffer(count, kind));
                    gather::build(b, view, send, recv, root as i32, true)
                })
            });
            let expected: Vec<Item> = (0..n).flat_map(|r| items(kind, count, 100 * r as u64)).collect();
            assert_eq!(all.all(), expected, "{name} {} n={n} root {root}", kind.name);
            let mut parts: Vec<Memory> = (0..n).map(|_| Memory::new(kind, count)).collect();
            run(n, root as u64, |r, b| {
                with_view(name, r, n, |view| {
                    let send = (r == root).then(|| all.even(count, kind));
                    let recv = (r != root || !in_place).then(|| parts[r].buffer(count, kind));
                    scatter::build(b, view, send, recv, root as i32, true)
                })
            });
            for (r, part) in parts.iter().enumerate().filter(|(r, _)| *r != root || !in_place) {
                assert_eq!(part.all(), items(kind, count, 100 * r as u64), "{name} {} n={n}", kind.name);
            }
        }
    });
}

/// Uneven blocks, in reverse order in memory, some empty.
fn uneven(n: usize, count: usize) -> (Vec<i32>, Vec<i32>, usize) {
    let counts: Vec<i32> = (0..n).map(|r| ((r * 3 + 1) % 5 * count) as i32).collect();
    let mut displs = vec![0; n];
    let mut at = 0;
    for r in (0..n).rev() {
        displs[r] = at;
        at += counts[r] + 1;
    }
    (counts, displs, at as usize)
}

#[test]
fn gatherv_and_scatterv_meet_the_root() {
    for kind in kinds() {
        for n in SIZES {
            let (root, (counts, displs, total)) = (n - 1, uneven(n, 2));
            let count = |r: usize| counts[r] as usize;
            let mut own: Vec<Memory> = (0..n).map(|r| Memory::filled(&kind, count(r), 100 * r as u64)).collect();
            let mut all = Memory::new(&kind, total);
            run(n, 5, |r, b| {
                let recv = (r == root).then(|| all.listed(&counts, &displs, &kind));
                gather::build(b, &CommView::new(r, n), Some(own[r].buffer(count(r), &kind)), recv, root as i32, false)
            });
            let mut parts: Vec<Memory> = (0..n).map(|r| Memory::new(&kind, count(r))).collect();
            run(n, 6, |r, b| {
                let send = (r == root).then(|| all.listed(&counts, &displs, &kind));
                scatter::build(
                    b,
                    &CommView::new(r, n),
                    send,
                    Some(parts[r].buffer(count(r), &kind)),
                    root as i32,
                    false,
                )
            });
            for r in 0..n {
                assert_eq!(parts[r].all(), items(&kind, count(r), 100 * r as u64));
                assert!((0..count(r)).all(|i| all.get(displs[r] as usize + i) == kind.item((100 * r + i) as u64)));
            }
        }
    }
}

#[test]
fn allgather_gives_everybody_all() {
    each::<Allgather>(|name, kind, n, count| {
        for in_place in [false, true] {
            let mut own: Vec<Memory> = (0..n).map(|r| Memory::filled(kind, count, 100 * r as u64)).collect();
            let mut all: Vec<Memory> = (0..n).map(|_| Memory::new(kind, n * count)).collect();
            for (r, all) in all.iter_mut().enumerate().filter(|_| in_place) {
                (0..count).for_each(|i| all.set(r * count + i, kind.item((100 * r + i) as u64)));
            }
            run(n, n as u64, |r, b| {
                let send = (!in_place).then(|| own[r].buffer(count, kind));
                with_view(name, r, n, |view| allgather::build(b, view, send, all[r].even(count, kind)))
            });
            let expected: Vec<Item> = (0..n).flat_map(|r| items(kind, count, 100 * r as u64)).collect();
            assert!(all.iter().all(|a| a.all() == expected), "{name} {} n={n} count={count}", kind.name);
        }
    });
}

#[test]
fn allgatherv_gives_everybody_all() {
    for kind in kinds() {
        for n in SIZES {
            for name in ["ring", "exchange"] {
                let (counts, displs, total) = uneven(n, 2);
                let count = |r: usize| counts[r] as usize;
                let mut own: Vec<Memory> = (0..n).map(|r| Memory::filled(&kind, count(r), 100 * r as u64)).collect();
                let mut all: Vec<Memory> = (0..n).map(|_| Memory::new(&kind, total)).collect();
                run(n, 5, |r, b| {
                    let send = Some(own[r].buffer(count(r), &kind));
                    let recv = all[r].listed(&counts, &displs, &kind);
                    with_view(name, r, n, |view| allgather::build(b, view, send, recv))
                });
                for (all, r) in all.iter().flat_map(|all| (0..n).map(move |r| (all, r))) {
                    assert!((0..count(r)).all(|i| all.get(displs[r] as usize + i) == kind.item((100 * r + i) as u64)));
                }
            }
        }
    }
}

/// What `from` sends to `to`.
fn letter(n: usize, from: usize, to: usize) -> u64 {
    ((from * n + to) * 50) as u64
}

#[test]
fn alltoall_exchanges_blocks() {
    each::<Alltoall>(|name, kind, n, count| {
        for in_place in [false, true] {
            let letters = |r: usize| {
                let mut m = Memory::new(kind, n * count);
                (0..n * count).for_each(|i| m.set(i, kind.item(letter(n, r, i / count) + (i % count) as u64)));
                m
            };
            let mut from: Vec<Memory> = (0..n).map(letters).collect();
            let mut into: Vec<Memory> =
                (0..n).map(|r| if in_place { letters(r) } else { Memory::new(kind, n * count) }).collect();
            run(n, n as u64, |r, b| {
                let send = (!in_place).then(|| from[r].even(count, kind));
                with_view(name, r, n, |view| alltoall::build(b, view, send, into[r].even(count, kind)))
            });
            for (r, into) in into.iter().enumerate() {
                let expected: Vec<Item> = (0..n).flat_map(|s| items(kind, count, letter(n, s, r))).collect();
                assert_eq!(into.all(), expected, "{name} {} n={n} count={count} {in_place}", kind.name);
            }
        }
    });
}

/// Items that `from` sends to `to` in the v and w forms; symmetric, as `MPI_IN_PLACE` wants it.
fn volume(from: usize, to: usize) -> usize {
    (from + to) % 4
}

fn displs_of(counts: &[i32]) -> (Vec<i32>, usize) {
    let mut at = 2;
    let mut place = |c: &i32| {
        at += c + 1;
        at - c - 1
    };
    let displs = counts.iter().map(&mut place).collect();
    (displs, at as usize)
}

#[test]
fn alltoallv_exchanges_uneven_blocks() {
    for kind in kinds() {
        for (n, in_place) in SIZES.flat_map(|n| [(n, false), (n, true)]) {
            let counts: Vec<Vec<i32>> = (0..n).map(|r| (0..n).map(|s| volume(r, s) as i32).collect()).collect();
            let displs: Vec<(Vec<i32>, usize)> = counts.iter().map(|c| displs_of(c)).collect();
            let letters = |r: usize| {
                let mut m = Memory::new(&kind, displs[r].1);
                for (to, i) in (0..n).flat_map(|to| (0..volume(r, to)).map(move |i| (to, i))) {
                    m.set(displs[r].0[to] as usize + i, kind.item(letter(n, r, to) + i as u64));
                }
                m
            };
            let mut from: Vec<Memory> = (0..n).map(letters).collect();
            let mut into: Vec<Memory> =
                (0..n).map(|r| if in_place { letters(r) } else { Memory::new(&kind, displs[r].1) }).collect();
            run(n, n as u64, |r, b| {
                let send = (!in_place).then(|| from[r].listed(&counts[r], &displs[r].0, &kind));
                alltoall::build(b, &CommView::new(r, n), send, into[r].listed(&counts[r], &displs[r].0, &kind))
            });
            for (r, s) in (0..n).flat_map(|r| (0..n).map(move |s| (r, s))) {
                into[r].all();
                for i in 0..volume(r, s) {
                    let got = into[r].get(displs[r].0[s] as usize + i);
                    assert_eq!(got, kind.item(letter(n, s, r) + i as u64), "n={n} {} {in_place}", kind.name);
                }
            }
        }
    }
}

#[test]
fn alltoallw_converts_types() {
    let (two, spread) = (Kind::pair(), Kind::holed());
    for n in SIZES {
        let kind_of = |r: usize| if r.is_multiple_of(2) { &two } else { &spread };
        let mut from: Vec<Memory> = (0..n)
            .flat_map(|r| (0..n).map(move |s| (r, s)))
            .map(|(r, s)| Memory::filled(kind_of(s), volume(r, s), letter(n, r, s)))
            .collect();
        let mut into: Vec<Memory> = (0..n)
            .flat_map(|r| (0..n).map(move |s| (r, s)))
            .map(|(r, s)| Memory::new(kind_of(s + 1), volume(r, s)))
            .collect();
        let counts: Vec<Vec<i64>> = (0..n).map(|r| (0..n).map(|s| volume(r, s) as i64).collect()).collect();
        let address =
            |all: &mut [Memory], r: usize| all[r * n..(r + 1) * n].iter_mut().map(|m| m.ptr() as i64).collect();
        let out: Vec<Vec<i64>> = (0..n).map(|r| address(&mut from, r)).collect();
        let back: Vec<Vec<i64>> = (0..n).map(|r| address(&mut into, r)).collect();
        let out_types: Vec<_> = (0..n).map(|s| Rc::clone(&kind_of(s).datatype)).collect();
        let back_types: Vec<_> = (0..n).map(|s| Rc::clone(&kind_of(s + 1).datatype)).collect();
        run(n, n as u64, |r, b| {
            let buffer = |displs, datatypes| BlockBuffer::Typed {
                ptr: std::ptr::null_mut(),
                counts: Ints::I64(&counts[r]),
                displs: Ints::I64(displs),
                datatypes,
            };
            alltoall::build(b, &CommView::new(r, n), Some(buffer(&out[r], &out_types)), buffer(&back[r], &back_types))
        });
        for (r, s) in (0..n).flat_map(|r| (0..n).map(move |s| (r, s))) {
            assert_eq!(into[r * n + s].all(), items(&two, volume(r, s), letter(n, s, r)));
        }
    }
}
