//! Datatype constructors with arguments at the limits of the address space: an error or a consistent type, at once.

use crate::input::Input;
use mpi::datatype::{self as d, Datatype, Form, Name};
use std::rc::Rc;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let named = [Name::MPI_CHAR, Name::MPI_INT, Name::MPI_DOUBLE, Name::MPI_DOUBLE_INT, Name::MPI_LONG_DOUBLE_INT]
        [input.below(5)];
    let mut dt = d::predefined(named).clone();
    for _ in 0..12 {
        if input.is_empty() {
            return;
        }
        if let Ok(next) = build(&mut input, &dt) {
            check(&next);
            dt = next;
        }
    }
}

fn build(input: &mut Input<'_>, old: &Rc<Datatype>) -> base::Result<Rc<Datatype>> {
    let form = Form::Count;
    let n = 1 + input.below(4);
    let choice = input.below(11);
    let mut some = || -> Vec<i64> { (0..n).map(|_| input.evil()).collect() };
    match choice {
        0 => d::contiguous(form, input.evil(), old),
        1 => d::vector(form, input.evil(), input.evil(), input.evil(), old),
        2 => d::hvector(form, input.evil(), input.evil(), input.evil(), old),
        3 => d::indexed(form, &some(), &some(), old),
        4 => d::hindexed(form, &some(), &some(), old),
        5 => {
            let disps = some();
            d::indexed_block(form, input.evil(), &disps, old)
        }
        6 => d::structure(form, &some(), &some(), &vec![old.clone(); n]),
        7 => d::resized(form, input.evil(), input.evil(), old),
        8 => d::subarray(form, &some(), &some(), &some(), d::ORDER_C, old),
        9 => Ok(d::dup(old)),
        _ => {
            let gsizes = some();
            let ints = |input: &mut Input<'_>| -> Vec<i32> { (0..n).map(|_| input.evil() as i32).collect() };
            let (dargs, psizes) = (ints(input), ints(input));
            let distribs: Vec<i32> = (0..n).map(|_| d::DISTRIBUTE_NONE + input.below(3) as i32).collect();
            let size = psizes.iter().fold(1i32, |all, p| all.wrapping_mul(*p));
            let rank = if size > 0 { (input.word() % size as u32) as i32 } else { 0 };
            let (gsizes, distribs, dargs, psizes) = (&gsizes[..], &distribs[..], &dargs[..], &psizes[..]);
            let order = d::ORDER_FORTRAN;
            d::darray(form, d::DarrayArgs { size, rank, gsizes, distribs, dargs, psizes, order }, old)
        }
    }
}

fn check(dt: &Datatype) {
    assert_eq!(dt.ub() - dt.lb(), dt.extent());
    assert!(dt.true_extent() >= 0 && (dt.size() == 0) == (dt.true_extent() == 0), "{dt:?}");
    let end = dt.true_lb().checked_add(dt.true_extent());
    assert!(end.is_some(), "{dt:?} ends outside of the address space");
    let _ = (d::run_count(dt, 3), d::pack_external_size(dt, 3), dt.envelope(), dt.uniform_builtin());
    let elements = dt.elements_per_item();
    assert_eq!(dt.elements_in(dt.size()), Some(elements));
    assert_eq!(dt.bytes_of_elements(elements), Some(dt.size()));
    // The first bytes of the stream can be found at once, however large the type is.
    let mut bytes = 0;
    d::runs_in(dt, 1 << 47, 1, 0, dt.size().min(64), |_, len| bytes += len);
    assert_eq!(bytes, dt.size().min(64));
}
