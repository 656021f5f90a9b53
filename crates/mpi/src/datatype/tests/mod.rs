//! Datatypes against the naive model: every byte, every bound, every constructor argument.

use std::rc::Rc;

use proptest::prelude::*;

use super::build::{ORDER_C, ORDER_FORTRAN};
use super::*;

mod arrays;
mod basics;
mod flat;
mod model;

use model::{Expr, Model, any_expr};

/// Memory around a buffer address, large enough for any offset that a test reaches.
struct Arena {
    bytes: Vec<u8>,
    origin: usize,
}

impl Arena {
    /// For the offsets in `offsets`, filled by `fill`.
    fn new(offsets: &[i64], fill: impl Fn(usize) -> u8) -> Arena {
        let low = offsets.iter().copied().min().unwrap_or(0).min(0);
        let high = offsets.iter().copied().max().unwrap_or(0).max(0);
        Arena { bytes: (0..(high - low + 1) as usize).map(fill).collect(), origin: -low as usize }
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes[self.origin..].as_mut_ptr()
    }

    fn at(&mut self, offset: i64) -> &mut u8 {
        &mut self.bytes[(self.origin as i64 + offset) as usize]
    }
}

fn scrambled(i: usize) -> u8 {
    (i as u8).wrapping_mul(37).wrapping_add((i >> 8) as u8)
}

fn check_bounds(dt: &Datatype, model: &Model) {
    let one = model.bytes(1);
    assert_eq!(dt.size(), one.len());
    assert_eq!((dt.lb() as i64, dt.ub() as i64), (model.lb, model.ub));
    let low = one.iter().copied().min().unwrap_or(0);
    let high = one.iter().map(|at| at + 1).max().unwrap_or(0);
    assert_eq!((dt.true_lb() as i64, dt.true_extent() as i64), (low, high - low));
    let dense = |count: usize| model.bytes(count).iter().copied().eq(0..(count * one.len()) as i64);
    assert_eq!(dt.is_contiguous(), dense(3) && model.lb == 0 && model.ub == one.len() as i64, "{dt:?}");
}

fn check_elements(dt: &Datatype, model: &Model) {
    let sizes: Vec<usize> = model
        .elements
        .iter()
        .flat_map(|(_, builtin)| match builtin.index {
            None => vec![builtin.size()],
            Some(index) => vec![builtin.repr.size(), index.size()],
        })
        .collect();
    assert_eq!(dt.elements_per_item(), sizes.len());
    let mut ends = vec![Some(0)];
    for (number, size) in sizes.iter().chain(&sizes).enumerate() {
        ends.extend(vec![None; size - 1]);
        ends.push(Some(number + 1));
    }
    for (bytes, expected) in ends.iter().enumerate() {
        assert_eq!(dt.elements_in(bytes), *expected, "{bytes} bytes of {dt:?}");
        if let Some(elements) = expected {
            assert_eq!(dt.bytes_of_elements(*elements), Some(bytes));
        }
    }
    let first = model.elements.first().map(|element| element.1);
    let uniform = first.filter(|first| model.elements.iter().all(|element| element.1 == *first));
    assert_eq!(dt.uniform_builtin(), uniform);
}

fn check_packing(dt: &Datatype, model: &Model, count: usize, cuts: (usize, usize)) {
    flat::check(dt, count, cuts);
    let offsets = model.bytes(count);
    let mut arena = Arena::new(&offsets, scrambled);
    let expected: Vec<u8> = offsets.iter().map(|at| *arena.at(*at)).collect();
    let total = offsets.len();
    let (a, b) = (cuts.0 % (total + 1), cuts.1 % (total + 1));
    let (from, to) = (a.min(b), a.max(b));
    for (from, to) in [(0, total), (from, to)] {
        let mut out = vec![0xee; to - from + 1];
        // SAFETY: the arena covers all offsets; `out` has one byte more than needed.
        unsafe { pack(dt, arena.base(), count, from, out.as_mut_ptr(), to - from) };
        assert_eq!(out[..to - from], expected[from..to]);
        assert_eq!(out[to - from], 0xee, "wrote past the end");

        let stream: Vec<u8> = (from..to).map(|i| scrambled(i + 99)).collect();
        let (mut real, mut naive) = (Arena::new(&offsets, |_| 1), Arena::new(&offsets, |_| 1));
        for (at, byte) in offsets[from..to].iter().zip(&stream) {
            *naive.at(*at) = *byte;
        }
        // SAFETY: as above.
        unsafe { unpack(dt, real.base(), count, from, stream.as_ptr(), to - from) };
        assert_eq!(real.bytes, naive.bytes);

        let mut walked = Vec::new();
        runs_in(dt, 1 << 40, count, from, to - from, |addr, len| {
            assert!(len > 0);
            walked.extend((0..len as i64).map(|i| addr as i64 - (1 << 40) + i));
        });
        assert_eq!(walked, offsets[from..to]);
    }
    assert!(runs(dt, 1 << 40, count).len() <= run_count(dt, count).max(1));
}

/// Builds the same type again from its envelope and contents.
fn rebuild(dt: &Rc<Datatype>) -> Rc<Datatype> {
    let (envelope, contents) = (dt.envelope(), dt.contents());
    let form = if envelope.large_counts > 0 { Form::Count } else { Form::Int };
    let mut large = contents.large_counts.iter().copied();
    let mut ints = contents.integers.iter().map(|value| i64::from(*value));
    let mut addresses = contents.addresses.iter().map(|value| *value as i64);
    let large_form = form == Form::Count;
    let mut counts = |n: usize| -> Vec<i64> {
        if large_form { large.by_ref().take(n).collect() } else { ints.by_ref().take(n).collect() }
    };
    let old: Vec<_> = contents.datatypes.iter().map(rebuild).collect();
    let blocks = |c: &mut dyn FnMut(usize) -> Vec<i64>| c(1)[0] as usize;
    match envelope.combiner {
        Combiner::Named => dt.clone(),
        Combiner::Dup => dup(&old[0]),
        Combiner::Contiguous => contiguous(form, counts(1)[0], &old[0]).unwrap(),
        Combiner::Vector => {
            let c = counts(3);
            vector(form, c[0], c[1], c[2], &old[0]).unwrap()
        }
        Combiner::Hvector => {
            let c = counts(2);
            let stride = if large_form { counts(1)[0] } else { addresses.next().unwrap() };
            hvector(form, c[0], c[1], stride, &old[0]).unwrap()
        }
        Combiner::Resized => {
            let (lb, extent) = match form {
                Form::Int => (addresses.next().unwrap(), addresses.next().unwrap()),
                Form::Count => (counts(1)[0], counts(1)[0]),
            };
            resized(form, lb, extent, &old[0]).unwrap()
        }
        Combiner::Indexed => {
            let n = blocks(&mut counts);
            let (lengths, disps) = (counts(n), counts(n));
            indexed(form, &lengths, &disps, &old[0]).unwrap()
        }
        Combiner::IndexedBlock => {
            let n = blocks(&mut counts);
            let (length, disps) = (counts(1)[0], counts(n));
            indexed_block(form, length, &disps, &old[0]).unwrap()
        }
        other => {
            let n = blocks(&mut counts);
            let lengths = counts(if other == Combiner::HindexedBlock { 1 } else { n });
            let disps = if large_form { counts(n) } else { addresses.by_ref().take(n).collect() };
            match other {
                Combiner::Hindexed => hindexed(form, &lengths, &disps, &old[0]).unwrap(),
                Combiner::HindexedBlock => hindexed_block(form, lengths[0], &disps, &old[0]).unwrap(),
                Combiner::Struct => structure(form, &lengths, &disps, &old).unwrap(),
                _ => unreachable!("combiner {other:?}"),
            }
        }
    }
}

fn is_small(model: &Model) -> bool {
    model.elements.len() <= 3000
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_type_means_what_the_model_says(
        expr in any_expr(), count in 0..4usize, cuts in any::<(u16, u16)>(), large in any::<bool>()
    ) {
        let model = expr.model();
        prop_assume!(is_small(&model));
        let dt = expr.build(if large { Form::Count } else { Form::Int });
        check_bounds(&dt, &model);
        check_elements(&dt, &model);
        check_packing(&dt, &model, count, (cuts.0.into(), cuts.1.into()));
    }

    #[test]
    fn contents_rebuild_the_type(expr in any_expr(), large in any::<bool>()) {
        prop_assume!(is_small(&expr.model()));
        let dt = expr.build(if large { Form::Count } else { Form::Int });
        let again = rebuild(&dt);
        prop_assert_eq!(format!("{dt:?} {:?}", dt.signature), format!("{again:?} {:?}", again.signature));
        prop_assert_eq!(dt.envelope(), again.envelope());
        prop_assert_eq!(&dt.contents().integers, &again.contents().integers);
        prop_assert_eq!(&dt.contents().addresses, &again.contents().addresses);
        prop_assert_eq!(&dt.contents().large_counts, &again.contents().large_counts);
    }

    #[test]
    fn typed_copies_go_through_the_stream(a in any_expr(), b in any_expr(), counts in (0..4usize, 0..4usize)) {
        let (a_model, b_model) = (a.model(), b.model());
        prop_assume!(is_small(&a_model) && is_small(&b_model));
        let (from, to) = (a_model.bytes(counts.0), b_model.bytes(counts.1));
        let mut src = Arena::new(&from, scrambled);
        let (mut real, mut naive) = (Arena::new(&to, |_| 1), Arena::new(&to, |_| 1));
        for (from, to) in from.iter().zip(&to) {
            *naive.at(*to) = *src.at(*from);
        }
        let (a, b) = (a.build(Form::Int), b.build(Form::Int));
        // SAFETY: the arenas cover all offsets.
        let len = unsafe { copy(src.base(), counts.0, &a, real.base(), counts.1, &b) };
        prop_assert_eq!(len, from.len().min(to.len()));
        prop_assert_eq!(real.bytes, naive.bytes);
    }
}

/// Larger and more regular than random types: loops of loops, lists too long to flatten.
#[test]
fn large_regular_types() {
    let int = || Box::new(Expr::Named(Name::MPI_INT));
    let column = Expr::Vector(100, 1, 100, int());
    let many: Vec<(i64, i64)> = (0..400).map(|i| (1 + i % 3, 5 * i + i % 2)).collect();
    let scattered: Vec<i64> = (0..700).map(|i| 3 * i + (i * i) % 2).collect();
    let members = (0..300).map(|i| (1, 40 * i, Expr::Vector(3, 1, 2, int()))).collect();
    for expr in [
        Expr::Hvector(30, 1, 4, Box::new(column.clone())),
        Expr::Contiguous(3, Box::new(column)),
        Expr::Indexed(many.clone(), int()),
        Expr::Indexed(many, Box::new(Expr::Named(Name::MPI_SHORT_INT))),
        Expr::IndexedBlock(1, scattered.clone(), int()),
        Expr::IndexedBlock(2, scattered, Box::new(Expr::Named(Name::MPI_DOUBLE_INT))),
        Expr::Struct(members),
    ] {
        let (dt, model) = (expr.build(Form::Int), expr.model());
        check_bounds(&dt, &model);
        for cuts in [(0, 1), (17, 4444), (1000, 1001), (333, 10_000)] {
            check_packing(&dt, &model, 2, cuts);
        }
    }
}
