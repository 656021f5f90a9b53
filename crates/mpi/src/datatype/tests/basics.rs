//! Single facts: predefined types, markers, padding, overflow, parametrised types, external32.

use super::*;
use base::Class;

fn named(name: Name) -> &'static Rc<Datatype> {
    predefined(name)
}

#[test]
fn predefined_types_have_the_sizes_of_the_platform() {
    for (handle, size, extent, external) in [
        (Name::MPI_LONG, 8, 8, 4),                     // MPI_LONG
        (Name::MPI_WCHAR, 4, 4, 2),                    // MPI_WCHAR
        (Name::MPI_LONG_DOUBLE, 16, 16, 16),           // MPI_LONG_DOUBLE
        (Name::MPI_C_LONG_DOUBLE_COMPLEX, 32, 32, 32), // MPI_C_LONG_DOUBLE_COMPLEX
        (Name::MPI_FLOAT_INT, 8, 8, 8),                // MPI_FLOAT_INT
        (Name::MPI_DOUBLE_INT, 12, 16, 12),            // MPI_DOUBLE_INT
        (Name::MPI_LONG_INT, 12, 16, 8),               // MPI_LONG_INT
        (Name::MPI_SHORT_INT, 6, 8, 6),                // MPI_SHORT_INT
        (Name::MPI_LONG_DOUBLE_INT, 20, 32, 20),       // MPI_LONG_DOUBLE_INT
        (Name::MPI_COMPLEX4, 4, 4, 4),                 // MPI_COMPLEX4
    ] {
        let dt = named(handle);
        assert_eq!(
            (dt.size(), dt.extent(), pack_external_size(dt, 1)),
            (size, extent, Some(external)),
            "{}",
            dt.name()
        );
        assert!(dt.is_committed() && dt.is_predefined());
        assert_eq!(dt.named(), Some(handle));
        assert_eq!(dt.envelope().combiner, Combiner::Named);
    }
    assert!(Name::ALL.iter().all(|name| named(*name).named() == Some(*name)));
}

#[test]
fn markers_win_also_when_nested() {
    let marked = resized(Form::Int, -4, 16, named(Name::MPI_INT)).unwrap();
    let dt = structure(Form::Int, &[1, 1], &[0, 8], &[named(Name::MPI_DOUBLE).clone(), marked.clone()]).unwrap();
    assert_eq!((dt.lb(), dt.ub(), dt.true_lb(), dt.true_extent()), (4, 20, 0, 12));
    let dt = contiguous(Form::Int, 3, &marked).unwrap();
    assert_eq!((dt.lb(), dt.extent(), dt.true_extent()), (-4, 48, 36));
    let dt = contiguous(Form::Int, 0, &marked).unwrap();
    assert_eq!((dt.lb(), dt.extent(), dt.size()), (0, 0, 0));
}

#[test]
fn structures_are_padded() {
    let dt = structure(Form::Int, &[1, 1], &[0, 8], &[named(Name::MPI_DOUBLE).clone(), named(Name::MPI_INT).clone()])
        .unwrap();
    assert_eq!((dt.size(), dt.extent(), dt.true_extent()), (12, 16, 12));
    let dt = structure(Form::Int, &[1, 1], &[3, 20], &[named(Name::MPI_DOUBLE).clone(), named(Name::MPI_CHAR).clone()])
        .unwrap();
    assert_eq!((dt.lb(), dt.extent()), (3, 24));
    let dt = structure(Form::Int, &[1, 0], &[0, 100], &[named(Name::MPI_INT).clone(), named(Name::MPI_DOUBLE).clone()])
        .unwrap();
    assert_eq!((dt.size(), dt.extent()), (4, 4));
}

#[test]
fn overflow_and_negative_counts_are_errors() {
    let class = |result: base::Result<Rc<Datatype>>| result.err().map(|error| error.class);
    let int = named(Name::MPI_INT);
    assert_eq!(class(contiguous(Form::Int, -1, int)), Some(Class::ERR_COUNT));
    assert_eq!(class(vector(Form::Int, 1, -1, 0, int)), Some(Class::ERR_COUNT));
    assert_eq!(class(contiguous(Form::Count, i64::MAX, int)), Some(Class::ERR_ARG));
    assert_eq!(class(hvector(Form::Count, 3, 1, i64::MAX, int)), Some(Class::ERR_ARG));
    assert_eq!(class(vector(Form::Count, 2, 1, i64::MAX, int)), Some(Class::ERR_ARG));
    assert_eq!(class(hindexed(Form::Count, &[1, 1], &[i64::MAX, i64::MIN], int)), Some(Class::ERR_ARG));
    assert_eq!(class(hindexed(Form::Count, &[0, 1], &[i64::MAX, 0], int)), None);
    assert_eq!(class(resized(Form::Count, i64::MAX, 1, int)), Some(Class::ERR_ARG));
    let big = contiguous(Form::Count, 1 << 60, int).unwrap();
    assert_eq!(big.size(), 1 << 62);
    assert_eq!(class(contiguous(Form::Count, 2, &big)), Some(Class::ERR_ARG));
}

#[test]
fn absolute_addresses_need_no_base() {
    let values = [1u32, 2, 3];
    let at = |i: usize| (&raw const values[i]) as i64;
    let dt = hindexed(Form::Int, &[1, 1], &[at(2), at(0)], named(Name::MPI_INT)).unwrap();
    let mut out = [0u32; 2];
    // SAFETY: the displacements are the addresses of the values.
    unsafe { pack(&dt, std::ptr::null(), 1, 0, out.as_mut_ptr().cast(), 8) };
    assert_eq!(out, [3, 1]);
}

#[test]
fn parametrised_types_are_unique() {
    let real = create_f90_real(15, 300).unwrap();
    assert!(Rc::ptr_eq(&real, &create_f90_real(15, 300).unwrap()));
    assert_eq!((real.size(), real.envelope().combiner), (8, Combiner::F90Real));
    assert_eq!(real.contents().integers, [15, 300]);
    assert!(real.is_predefined() && real.is_committed() && real.named().is_none());
    assert_eq!(create_f90_real(6, 37).unwrap().size(), 4);
    assert_eq!(create_f90_complex(33, -32766).unwrap().size(), 32);
    assert_eq!(create_f90_integer(9).unwrap().size(), 4);
    assert_eq!(create_f90_integer(38).unwrap().size(), 16);
    assert!(create_f90_real(-32766, -32766).is_err() && create_f90_real(40, 1).is_err());
    assert!(create_f90_integer(39).is_err() && create_f90_integer(-1).is_err());
}

#[test]
fn sizes_and_pairs_find_named_types() {
    assert_eq!(match_size(TypeClass::Integer, 8).unwrap().name(), "MPI_INTEGER8");
    assert_eq!(match_size(TypeClass::Complex, 32).unwrap().name(), "MPI_COMPLEX32");
    assert!(match_size(TypeClass::Real, 3).is_err() && match_size(TypeClass::Integer, 32).is_err());
    assert_eq!(value_index(named(Name::MPI_DOUBLE), named(Name::MPI_INT)).unwrap().name(), "MPI_DOUBLE_INT");
    assert!(value_index(named(Name::MPI_DOUBLE), named(Name::MPI_LONG)).is_none());
}

#[test]
fn external32_carries_a_structure() {
    let types = [
        named(Name::MPI_DOUBLE_INT).clone(),
        named(Name::MPI_SHORT).clone(),
        named(Name::MPI_C_DOUBLE_COMPLEX).clone(),
        named(Name::MPI_UNSIGNED_LONG).clone(),
    ];
    let dt = structure(Form::Int, &[1, 3, 1, 2], &[0, 16, 24, 40], &types).unwrap();
    let items = 200;
    let mut source = vec![0u8; dt.extent() as usize * items];
    let stride = dt.extent() as usize;
    for (i, item) in source.chunks_exact_mut(stride).enumerate() {
        item[..8].copy_from_slice(&(i as f64).to_ne_bytes());
        item[8..12].copy_from_slice(&(-(i as i32)).to_ne_bytes());
        item[16..22].copy_from_slice(&[1, 2, 3, 4, 5, i as u8]);
        item[24..40].copy_from_slice(&[7; 16]);
        item[40..48].copy_from_slice(&(i as u64).to_ne_bytes());
        item[48..56].copy_from_slice(&u64::from(u32::MAX).to_ne_bytes());
    }
    let size = pack_external_size(&dt, items).unwrap();
    assert_eq!(size, items * (8 + 4 + 6 + 16 + 8));
    let (mut wire, mut back) = (vec![0u8; size], vec![0u8; source.len()]);
    // SAFETY: buffers of the computed sizes.
    unsafe {
        assert_eq!(pack_external(&dt, source.as_ptr(), items, wire.as_mut_ptr(), size), Ok(size));
        assert_eq!(unpack_external(&dt, back.as_mut_ptr(), items, wire.as_ptr(), size), Ok(size));
    }
    assert_eq!(wire[42..50], 1f64.to_be_bytes());
    assert_eq!(wire[50..54], (-1i32).to_be_bytes());
    assert_eq!(back, source);
}

#[test]
fn a_long_chain_of_types_is_freed() {
    let mut dt = named(Name::MPI_INT).clone();
    for _ in 0..200_000 {
        dt = dup(&dt);
    }
    assert_eq!(dt.size(), 4);
}
