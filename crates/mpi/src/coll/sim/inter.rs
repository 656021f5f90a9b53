//! Collectives of inter-communicators against a model.

use super::super::args::ReduceArgs;
use super::super::reduce_scatter::Counts;
use super::super::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scatter};
use super::memory::*;
use super::*;
use crate::status::{PROC_NULL, ROOT};

const GROUPS: [(usize, usize); 6] = [(1, 1), (1, 4), (3, 2), (4, 4), (2, 7), (6, 1)];

fn items(kind: &Kind, count: usize, seed: u64) -> Vec<Item> {
    (0..count).map(|i| kind.item(seed + i as u64)).collect()
}

/// The argument `root` of process `id` if `root` is in the group that `first` names.
fn root_arg(id: usize, groups: (usize, usize), root: usize, first: bool) -> i32 {
    let in_first = id < groups.0;
    let rank = if in_first { id } else { id - groups.0 };
    match (in_first == first, rank == root) {
        (true, true) => ROOT,
        (true, false) => PROC_NULL,
        (false, _) => root as i32,
    }
}

fn each(check: impl Fn((usize, usize), &Kind, usize, bool, std::ops::Range<usize>)) {
    for groups in GROUPS {
        for kind in [Kind::plain(), Kind::holed()] {
            for first in [true, false] {
                let size = if first { groups.0 } else { groups.1 };
                let others = if first { groups.0..groups.0 + groups.1 } else { 0..groups.0 };
                (0..size).for_each(|root| check(groups, &kind, root, first, others.clone()));
            }
        }
    }
}

#[test]
fn rooted_data_crosses() {
    const COUNT: usize = 3;
    each(|groups, kind, root, first, others| {
        let (total, id_of_root) = (groups.0 + groups.1, if first { root } else { groups.0 + root });
        let fresh = || (0..total).map(|_| Memory::new(kind, COUNT * others.len())).collect::<Vec<_>>();
        let mut memory = fresh();
        memory[id_of_root] = Memory::filled(kind, COUNT * others.len(), 7);
        run_groups(groups, 1, |id, view, b| {
            bcast::build(b, view, memory[id].buffer(COUNT, kind), root_arg(id, groups, root, first))
        });
        assert!(others.clone().all(|id| memory[id].all()[..COUNT] == items(kind, COUNT, 7)));
        let mut parts = fresh();
        let source = &mut memory[id_of_root];
        run_groups(groups, 2, |id, view, b| {
            let send = (id == id_of_root).then(|| source.even(COUNT, kind));
            let recv = Some(parts[id].buffer(COUNT, kind));
            scatter::build(b, view, send, recv, root_arg(id, groups, root, first), true)
        });
        for (i, id) in others.clone().enumerate() {
            assert_eq!(parts[id].all()[..COUNT], items(kind, COUNT, 7 + (i * COUNT) as u64));
        }
        let mut back = Memory::new(kind, COUNT * others.len());
        run_groups(groups, 3, |id, view, b| {
            let recv = (id == id_of_root).then(|| back.even(COUNT, kind));
            gather::build(b, view, Some(parts[id].buffer(COUNT, kind)), recv, root_arg(id, groups, root, first), true)
        });
        assert_eq!(back.all(), items(kind, COUNT * others.len(), 7));
    });
}

#[test]
fn barriers_end() {
    GROUPS.into_iter().for_each(|groups| run_groups(groups, 4, |_, view, b| barrier::build(b, view)));
}

#[test]
fn everybody_gets_the_other_group() {
    each(|groups, kind, root, _, _| {
        let (count, total) = (root + 1, groups.0 + groups.1);
        let remote = |id: usize| if id < groups.0 { groups.0..total } else { 0..groups.0 };
        let mut own: Vec<Memory> =
            (0..total).map(|id| Memory::filled(kind, count * remote(id).len(), 50 * id as u64)).collect();
        let fresh = || (0..total).map(|id| Memory::new(kind, count * remote(id).len())).collect::<Vec<_>>();
        let mut all = fresh();
        run_groups(groups, 5, |id, view, b| {
            allgather::build(b, view, Some(own[id].buffer(count, kind)), all[id].even(count, kind))
        });
        for (id, all) in all.iter().enumerate() {
            let expected: Vec<Item> = remote(id).flat_map(|o| items(kind, count, 50 * o as u64)).collect();
            assert_eq!(all.all(), expected);
        }
        let mut all = fresh();
        run_groups(groups, 6, |id, view, b| {
            alltoall::build(b, view, Some(own[id].even(count, kind)), all[id].even(count, kind))
        });
        for (id, all) in all.iter().enumerate() {
            let rank = if id < groups.0 { id } else { id - groups.0 };
            let expected: Vec<Item> =
                remote(id).flat_map(|o| items(kind, count, (50 * o + rank * count) as u64)).collect();
            assert_eq!(all.all(), expected);
        }
    });
}

#[test]
fn reductions_cross() {
    each(|groups, _, root, first, others| {
        let (kind, operation) = (Kind::holed(), Operation::compose());
        let (block, total) = (2, groups.0 + groups.1);
        let count = block * groups.0 * groups.1;
        let mut own: Vec<Memory> = (0..total).map(|id| Memory::filled(&kind, count, 100 * id as u64)).collect();
        let fresh = || (0..total).map(|_| Memory::new(&kind, count)).collect::<Vec<_>>();
        let fold = |ids: std::ops::Range<usize>, i: usize| {
            operation.fold(ids.map(|id| kind.item((100 * id + i) as u64))).unwrap()
        };
        let remote = |id: usize| if id < groups.0 { groups.0..total } else { 0..groups.0 };
        let mut result = fresh();
        run_groups(groups, 7, |id, view, b| {
            let args: ReduceArgs<'_> = operation.args(own[id].ptr(), result[id].ptr(), count, &kind);
            reduce::build(b, view, args, root_arg(id, groups, root, first))
        });
        let id_of_root = if first { root } else { groups.0 + root };
        let all = result[id_of_root].all();
        assert!((0..count).all(|i| all[i] == fold(others.clone(), i)));
        let mut result = fresh();
        run_groups(groups, 8, |id, view, b| {
            allreduce::build(b, view, operation.args(own[id].ptr(), result[id].ptr(), count, &kind))
        });
        for (id, result) in result.iter().enumerate() {
            assert!(result.all().into_iter().enumerate().all(|(i, v)| v == fold(remote(id), i)));
        }
        let mut result = fresh();
        run_groups(groups, 9, |id, view, b| {
            let args = operation.args(own[id].ptr(), result[id].ptr(), count, &kind);
            reduce_scatter::build(b, view, args, Counts::Block(count / view.size))
        });
        for (id, result) in result.iter().enumerate() {
            let (rank, size) = if id < groups.0 { (id, groups.0) } else { (id - groups.0, groups.1) };
            let mine = count / size;
            let all = result.all();
            assert!((0..mine).all(|i| all[i] == fold(remote(id), rank * mine + i)));
        }
    });
}
