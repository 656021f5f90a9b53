//! `subarray` and `darray` against their definition: which global indices, in which order.

use super::*;
use crate::datatype::build::{DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE};

/// Linear positions of all indices that `chosen` picks, the contiguous dimension varying fastest.
fn positions(sizes: &[i64], order: i32, chosen: impl Fn(usize, i64) -> bool) -> Vec<i64> {
    let outwards: Vec<usize> =
        if order == ORDER_C { (0..sizes.len()).rev().collect() } else { (0..sizes.len()).collect() };
    let total: i64 = sizes.iter().product();
    let wanted = |position: &i64| {
        let mut rest = *position;
        outwards.iter().all(|&dim| {
            let index = rest % sizes[dim];
            rest /= sizes[dim];
            chosen(dim, index)
        })
    };
    (0..total).filter(wanted).collect()
}

/// The positions that a type over ints selects.
fn selected(dt: &Datatype) -> Vec<i64> {
    let mut list = Vec::new();
    for (addr, len) in runs(dt, 0, 1) {
        assert!(addr % 4 == 0 && len % 4 == 0);
        list.extend((0..len / 4).map(|i| (addr / 4 + i) as i64));
    }
    list
}

fn int() -> &'static Rc<Datatype> {
    predefined(Name::MPI_INT)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn subarrays(dims in prop::collection::vec((1..6i64, any::<u8>(), any::<u8>()), 1..4), c in any::<bool>()) {
        let order = if c { ORDER_C } else { ORDER_FORTRAN };
        let sizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
        let subsizes: Vec<i64> = dims.iter().map(|dim| 1 + i64::from(dim.1) % dim.0).collect();
        let starts: Vec<i64> = dims.iter().zip(&subsizes).map(|(dim, sub)| i64::from(dim.2) % (dim.0 - sub + 1)).collect();
        let dt = subarray(Form::Int, &sizes, &subsizes, &starts, order, int()).unwrap();
        let inside = |dim: usize, index: i64| (starts[dim]..starts[dim] + subsizes[dim]).contains(&index);
        prop_assert_eq!(selected(&dt), positions(&sizes, order, inside));
        prop_assert_eq!((dt.lb(), dt.extent()), (0, 4 * sizes.iter().product::<i64>() as isize));
    }

    #[test]
    fn darrays(
        dims in prop::collection::vec((1..9i64, 0..3i32, 1..4i32, 0..4i32), 1..4), c in any::<bool>(), pick in any::<u16>()
    ) {
        let order = if c { ORDER_C } else { ORDER_FORTRAN };
        let gsizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
        let distribs: Vec<i32> = dims.iter().map(|dim| DISTRIBUTE_NONE + dim.1).collect();
        let psizes: Vec<i32> = dims.iter().map(|dim| if dim.1 == 0 { 1 } else { dim.2 }).collect();
        let mut dargs = Vec::new();
        let mut blocks = Vec::new();
        for (dim, procs) in dims.iter().zip(&psizes) {
            let cover = (dim.0 + i64::from(*procs) - 1) / i64::from(*procs);
            let (darg, block) = match (DISTRIBUTE_NONE + dim.1, dim.3) {
                (DISTRIBUTE_NONE, _) => (DISTRIBUTE_DFLT_DARG, dim.0),
                (DISTRIBUTE_BLOCK, 0) => (DISTRIBUTE_DFLT_DARG, cover),
                (DISTRIBUTE_BLOCK, extra) => (cover as i32 + extra, cover + i64::from(extra)),
                (DISTRIBUTE_CYCLIC, 0) => (DISTRIBUTE_DFLT_DARG, 1),
                (_, block) => (block, i64::from(block)),
            };
            dargs.push(darg);
            blocks.push(block);
        }
        let size: i32 = psizes.iter().product();
        let rank = i32::from(pick) % size;
        let mut coords = vec![0; psizes.len()];
        let mut rest = rank;
        for dim in (0..psizes.len()).rev() {
            coords[dim] = rest % psizes[dim];
            rest /= psizes[dim];
        }
        let args = DarrayArgs {
            size, rank, gsizes: &gsizes, distribs: &distribs, dargs: &dargs, psizes: &psizes, order,
        };
        let dt = darray(Form::Int, args, int()).unwrap();
        let ours = |dim: usize, index: i64| (index / blocks[dim]) % i64::from(psizes[dim]) == i64::from(coords[dim]);
        prop_assert_eq!(selected(&dt), positions(&gsizes, order, ours));
        prop_assert_eq!((dt.lb(), dt.extent()), (0, 4 * gsizes.iter().product::<i64>() as isize));
        let contents = dt.contents();
        prop_assert_eq!(contents.integers.len(), 4 + 4 * gsizes.len());
        prop_assert_eq!(&contents.integers[..3], &[size, rank, gsizes.len() as i32]);
    }
}

#[test]
fn wrong_arguments() {
    for (sizes, subsizes, starts) in [([4, 4], [5, 1], [0, 0]), ([4, 4], [2, 2], [3, 0]), ([0, 4], [1, 1], [0, 0])] {
        assert!(subarray(Form::Int, &sizes, &subsizes, &starts, ORDER_C, int()).is_err());
    }
    assert!(subarray(Form::Int, &[4], &[1], &[0], 7, int()).is_err());
    let good = DarrayArgs {
        size: 4,
        rank: 1,
        gsizes: &[8, 8],
        distribs: &[DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC],
        dargs: &[4, 2],
        psizes: &[2, 2],
        order: ORDER_C,
    };
    assert!(darray(Form::Int, good, int()).is_ok());
    assert!(darray(Form::Int, DarrayArgs { size: 5, ..good }, int()).is_err());
    assert!(darray(Form::Int, DarrayArgs { rank: 4, ..good }, int()).is_err());
    assert!(darray(Form::Int, DarrayArgs { dargs: &[3, 2], ..good }, int()).is_err());
    assert!(darray(Form::Int, DarrayArgs { distribs: &[DISTRIBUTE_NONE, DISTRIBUTE_BLOCK], ..good }, int()).is_err());
    let huge = [1 << 32, 1 << 32];
    assert!(subarray(Form::Count, &huge, &[1, 1], &[0, 0], ORDER_C, int()).is_err());
    // The offset overflows before the extent does.
    let (sizes, starts) = ([1 << 30, 3 << 31], [((1 << 30) - 1) / 3, (3 << 31) - 1]);
    assert!(subarray(Form::Count, &sizes, &[1, 1], &starts, ORDER_C, int()).is_err());
}
