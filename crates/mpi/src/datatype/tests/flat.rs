//! Flat types walk the same runs as the types that they come from.

use super::super::flat::{ENTRIES_MAX, FlatType, Node, Part};
use super::*;
use base::Class;

/// Neighbours that touch are one run.
fn merged(runs: &[(i64, u64)]) -> Vec<(i64, u64)> {
    let mut list: Vec<(i64, u64)> = Vec::new();
    for &(at, len) in runs {
        match list.last_mut() {
            Some(last) if last.0 + last.1 as i64 == at => last.1 += len,
            _ => list.push((at, len)),
        }
    }
    list
}

/// The runs of a range of `count` items, and the bounds of all.
pub fn check(dt: &Datatype, count: usize, cuts: (usize, usize)) {
    let flat = FlatType::of(dt).expect("a type of a test is small");
    assert_eq!(flat.size(), dt.size() as u64);
    let total = dt.size() * count;
    let (a, b) = (cuts.0 % (total + 1), cuts.1 % (total + 1));
    let base = 1usize << 40;
    for (from, to) in [(a.min(b), a.max(b)), (0, total)] {
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        runs_in(dt, base, count, from, to - from, |at, len| expected.push((at as i64 - base as i64, len as u64)));
        flat.walk(count as u64, from as u64, to as u64, &mut |at, len| found.push((at, len)));
        assert_eq!(merged(&found), merged(&expected), "{from}..{to} of {count} {dt:?}");
        if let Some((size, low, high)) = flat.bounds(count as u64).expect("it fits") {
            assert_eq!(size, total as u64);
            assert!(found.iter().all(|&(at, len)| low <= at && at + len as i64 <= high));
        }
    }
}

#[test]
fn many_regular_blocks_are_few_nodes() {
    let byte = predefined(Name::MPI_BYTE);
    let column = hvector(Form::Int, 1_000_000, 1, 3, byte).unwrap();
    let matrix = hvector(Form::Int, 1_000, 1, 5_000_000, &column).unwrap();
    let flat = FlatType::of(&matrix).unwrap();
    assert!(flat.nodes.len() <= 3 && flat.parts.is_empty());
    assert_eq!(flat.size(), 1_000_000_000);
}

#[test]
fn too_many_irregular_blocks_are_refused() {
    let byte = predefined(Name::MPI_BYTE);
    let squares: Vec<i64> = (0..ENTRIES_MAX as i64).map(|i| i * i).collect();
    let list = hindexed_block(Form::Int, 1, &squares, byte).unwrap();
    assert_eq!(FlatType::of(&list).unwrap_err().class, Class::ERR_TYPE);
}

#[test]
fn invalid_layouts_are_refused() {
    let flat = |nodes: &[Node], parts: &[Part]| FlatType::new(nodes.into(), parts.into(), 0, 0);
    let child = |child| Part { disp: 0, child };
    for (i, bad) in [
        flat(&[Node::Run(0)], &[]),
        flat(&[Node::Run(u64::MAX)], &[]),
        flat(&[Node::Loop { count: 2, stride: 1, child: 0 }], &[]),
        flat(&[Node::Run(1), Node::Loop { count: 0, stride: 1, child: 0 }], &[]),
        flat(&[Node::Run(1), Node::Loop { count: u64::MAX, stride: 1, child: 0 }], &[]),
        flat(&[Node::Run(1), Node::Loop { count: 3, stride: i64::MAX, child: 0 }], &[]),
        flat(&[Node::Run(1), Node::Sequence { first: 0, count: 2 }], &[child(0)]),
        flat(&[Node::Run(1), Node::Sequence { first: 1, count: 1 }], &[child(0), child(0)]),
        flat(&[Node::Run(1), Node::Sequence { first: 0, count: 1 }], &[child(1)]),
        flat(&[Node::Run(1), Node::Sequence { first: 0, count: 0 }], &[]),
        flat(&[Node::Run(1)], &[child(0)]),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(bad.is_err(), "case {i}");
    }
    let deep: Vec<Node> = (0..100)
        .map(|i| if i == 0 { Node::Run(1) } else { Node::Loop { count: 1, stride: 0, child: i - 1 } })
        .collect();
    assert!(flat(&deep, &[]).is_err());
}
