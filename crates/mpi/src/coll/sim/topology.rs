//! Neighbourhood collectives against a model.

use super::super::comm_view::CommView;
use super::super::neighbor;
use super::super::neighbor::Neighbors;
use super::memory::*;
use super::*;
use crate::status::PROC_NULL;

/// Neighbours in a grid of `dims`, negative direction first; periodic where `periods` says so.
fn grid(rank: usize, dims: &[usize], periods: &[bool]) -> Vec<i32> {
    let mut list = Vec::new();
    for d in 0..dims.len() {
        let stride: usize = dims[d + 1..].iter().product();
        let at = (rank / stride) % dims[d];
        for step in [-1isize, 1] {
            let to = at as isize + step;
            let outside = to < 0 || to >= dims[d] as isize;
            list.push(if outside && !periods[d] {
                PROC_NULL
            } else {
                let to = to.rem_euclid(dims[d] as isize) as usize;
                (rank - at * stride + to * stride) as i32
            });
        }
    }
    list
}

#[test]
fn grids_exchange_opposite_directions() {
    for (dims, periods) in [
        (vec![1], vec![true]),
        (vec![2], vec![true]),
        (vec![2], vec![false]),
        (vec![5], vec![false]),
        (vec![2, 1, 3], vec![true, true, false]),
        (vec![1, 2, 2], vec![true, true, true]),
    ] {
        let n: usize = dims.iter().product();
        let (kind, slots) = (Kind::holed(), 2 * dims.len());
        let lists: Vec<Vec<i32>> = (0..n).map(|r| grid(r, &dims, &periods)).collect();
        let mut from: Vec<Memory> = (0..n).map(|r| Memory::filled(&kind, 2 * slots, 100 * r as u64)).collect();
        let fresh = || (0..n).map(|_| Memory::new(&kind, 2 * slots)).collect::<Vec<_>>();
        let mut into = fresh();
        let neighbors =
            |r: usize| Neighbors { sources: lists[r].clone(), destinations: lists[r].clone(), cartesian: true };
        run(n, 3, |r, b| {
            neighbor::alltoall(b, &CommView::new(r, n), &neighbors(r), from[r].even(2, &kind), into[r].even(2, &kind))
        });
        let mut all = fresh();
        run(n, 4, |r, b| {
            neighbor::allgather(b, &CommView::new(r, n), &neighbors(r), from[r].buffer(2, &kind), all[r].even(2, &kind))
        });
        for (r, slot) in (0..n).flat_map(|r| (0..slots).map(move |s| (r, s))) {
            for i in 0..2 {
                let other = lists[r][slot];
                let (a, g) = if other == PROC_NULL {
                    (kind.unset(), kind.unset())
                } else {
                    let base = 100 * other as u64 + i as u64;
                    (kind.item(base + 2 * (slot ^ 1) as u64), kind.item(base))
                };
                assert_eq!(into[r].get(2 * slot + i), a, "{dims:?}");
                assert_eq!(all[r].get(2 * slot + i), g, "{dims:?}");
            }
        }
    }
}

#[test]
fn graphs_keep_the_order_of_repeated_edges() {
    // Each sends twice to its successor and once to itself.
    let (n, kind) = (4, Kind::plain());
    let destinations: Vec<Vec<i32>> = (0..n as i32).map(|r| vec![(r + 1) % 4, r, (r + 1) % 4]).collect();
    let sources: Vec<Vec<i32>> = (0..n as i32).map(|r| vec![r, (r + 3) % 4, (r + 3) % 4]).collect();
    let mut from: Vec<Memory> = (0..n).map(|r| Memory::filled(&kind, 6, 100 * r as u64)).collect();
    let mut into: Vec<Memory> = (0..n).map(|_| Memory::new(&kind, 6)).collect();
    let (counts, displs) = ([2, 1, 3], [0, 2, 3]);
    let (back_counts, back_displs) = ([1, 2, 3], [5, 3, 0]);
    run(n, 3, |r, b| {
        let (sources, destinations) = (sources[r].clone(), destinations[r].clone());
        let neighbors = &Neighbors { sources, destinations, cartesian: false };
        let send = from[r].listed(&counts, &displs, &kind);
        neighbor::alltoall(b, &CommView::new(r, n), neighbors, send, into[r].listed(&back_counts, &back_displs, &kind))
    });
    for (r, into) in into.iter().enumerate() {
        let previous = 100 * ((r + 3) % 4) as u64;
        let expected = [previous + 3, previous + 4, previous + 5, previous, previous + 1, 100 * r as u64 + 2];
        assert_eq!(into.all(), expected.map(|v| kind.item(v)));
    }
}
