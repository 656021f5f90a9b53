//! Operations against element-by-element definitions, on unaligned buffers of several lengths.

use proptest::prelude::*;

use super::x87::X87;
use super::*;
use crate::datatype::{self, Builtin, Form, Name, Repr};

const INTEGER_OPS: [Predefined; 10] =
    [P::Sum, P::Prod, P::Max, P::Min, P::Band, P::Bor, P::Bxor, P::Land, P::Lor, P::Lxor];

fn op(which: Predefined) -> &'static Rc<Op> {
    predefined(which)
}

fn dt(handle: Name) -> &'static Rc<Datatype> {
    datatype::predefined(handle)
}

fn builtins() -> impl Iterator<Item = Builtin> {
    Name::ALL.iter().map(|name| Builtin::named(*name))
}

/// Applies `which` to copies of the operands that lie at odd addresses.
fn apply(which: Predefined, handle: Name, input: &[u8], inout: &[u8]) -> Vec<u8> {
    let dt = dt(handle);
    let count = input.len() / dt.extent() as usize;
    let (mut a, mut b) = (vec![0u8], vec![0u8]);
    a.extend(input);
    b.extend(inout);
    op(which).check(dt).unwrap();
    let mut inside = crate::cs::enter_test();
    // SAFETY: both buffers hold `count` elements from byte 1 on.
    unsafe { op(which).apply(inside.section(), a[1..].as_ptr(), b[1..].as_mut_ptr(), count, dt) };
    b.split_off(1)
}

/// The value of an integer, extended by its sign.
fn integer(repr: Repr, bytes: &[u8]) -> i128 {
    let mut wide = [if repr.is_signed() && bytes[bytes.len() - 1] >= 0x80 { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_ne_bytes(wide)
}

fn naive_integer(which: Predefined, a: i128, b: i128) -> i128 {
    match which {
        P::Sum => a.wrapping_add(b),
        P::Prod => a.wrapping_mul(b),
        P::Max => a.max(b),
        P::Min => a.min(b),
        P::Band => a & b,
        P::Bor => a | b,
        P::Bxor => a ^ b,
        P::Land => i128::from(a != 0 && b != 0),
        P::Lor => i128::from(a != 0 || b != 0),
        P::Lxor => i128::from((a != 0) != (b != 0)),
        _ => unreachable!(),
    }
}

/// Value and index of two pairs.
type Operands = (i32, i32, i32, i32);

/// Few different bytes, so that zeros and equal values occur.
fn operands() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()];
    (0..2000usize)
        .prop_flat_map(move |len| (prop::collection::vec(byte.clone(), len), prop::collection::vec(byte.clone(), len)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integers((a, b) in operands()) {
        for builtin in builtins().filter(|builtin| matches!(
            builtin.family, Family::CInteger | Family::FortranInteger | Family::MultiLanguage | Family::Logical | Family::FortranLogical | Family::Byte
        )) {
            let size = builtin.size();
            let whole = a.len() / size * size;
            for which in INTEGER_OPS.into_iter().filter(|which| defined(*which, builtin.family)) {
                let result = apply(which, builtin.which, &a[..whole], &b[..whole]);
                for i in (0..whole).step_by(size) {
                    let (x, y) = (integer(builtin.repr, &a[i..i + size]), integer(builtin.repr, &b[i..i + size]));
                    let expected = naive_integer(which, x, y).to_ne_bytes();
                    prop_assert_eq!(&result[i..i + size], &expected[..size], "{:?} {:?}", which, builtin);
                }
            }
        }
    }

    #[test]
    fn floats(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..300)) {
        let bytes = |f: &dyn Fn(&(f64, f64)) -> f64| values.iter().flat_map(|v| f(v).to_ne_bytes()).collect::<Vec<u8>>();
        let (a, b) = (bytes(&|v| v.0), bytes(&|v| v.1));
        // As numbers: either zero may be the larger one.
        let numbers = |bytes: Vec<u8>| {
            bytes.chunks_exact(8).map(|chunk| f64::from_ne_bytes(chunk.try_into().unwrap())).collect::<Vec<f64>>()
        };
        prop_assert_eq!(apply(P::Sum, Name::MPI_DOUBLE, &a, &b), bytes(&|v| v.0 + v.1));
        prop_assert_eq!(apply(P::Prod, Name::MPI_DOUBLE_PRECISION, &a, &b), bytes(&|v| v.0 * v.1));
        let larger = bytes(&|v| if v.0 > v.1 { v.0 } else { v.1 });
        prop_assert_eq!(numbers(apply(P::Max, Name::MPI_REAL8, &a, &b)), numbers(larger));
        let smaller = bytes(&|v| if v.0 < v.1 { v.0 } else { v.1 });
        prop_assert_eq!(numbers(apply(P::Min, Name::MPI_DOUBLE, &a, &b)), numbers(smaller));
    }

    #[test]
    fn single_precision(values in prop::collection::vec((any::<f32>(), any::<f32>()), 0..300)) {
        let bytes = |f: &dyn Fn(&(f32, f32)) -> f32| values.iter().flat_map(|v| f(v).to_ne_bytes()).collect::<Vec<u8>>();
        let (a, b) = (bytes(&|v| v.0), bytes(&|v| v.1));
        prop_assert_eq!(apply(P::Sum, Name::MPI_FLOAT, &a, &b), bytes(&|v| v.0 + v.1));
        prop_assert_eq!(apply(P::Prod, Name::MPI_REAL, &a, &b), bytes(&|v| v.0 * v.1));
    }

    #[test]
    fn pairs(values in prop::collection::vec((-3..3i32, -3..3i32, -3..3i32, -3..3i32), 0..100)) {
        for handle in [Name::MPI_FLOAT_INT, Name::MPI_DOUBLE_INT, Name::MPI_LONG_INT, Name::MPI_2INT, Name::MPI_SHORT_INT, Name::MPI_LONG_DOUBLE_INT, Name::MPI_2REAL, Name::MPI_2DOUBLE_PRECISION, Name::MPI_2INTEGER] {
            let builtin = Builtin::named(handle);
            let lay = |pick: &dyn Fn(&Operands) -> (i32, i32)| {
                values.iter().flat_map(|v| pair_bytes(builtin, pick(v))).collect::<Vec<u8>>()
            };
            let (a, b) = (lay(&|v| (v.0, v.1)), lay(&|v| (v.2, v.3)));
            // Larger (or smaller) value first, then the smaller index.
            prop_assert_eq!(apply(P::Maxloc, handle, &a, &b), lay(&|v| {
                let (value, index) = (v.0, -v.1).max((v.2, -v.3));
                (value, -index)
            }));
            prop_assert_eq!(apply(P::Minloc, handle, &a, &b), lay(&|v| (v.0, v.1).min((v.2, v.3))));
        }
    }
}

fn scalar_bytes(repr: Repr, value: i32) -> Vec<u8> {
    match repr {
        Repr::F32 => (value as f32).to_ne_bytes().to_vec(),
        Repr::F64 => f64::from(value).to_ne_bytes().to_vec(),
        Repr::F80 => super::x87::tests::from_f64(value.into()).0.to_vec(),
        _ => i128::from(value).to_ne_bytes()[..repr.size()].to_vec(),
    }
}

fn pair_bytes(builtin: Builtin, (value, index): (i32, i32)) -> Vec<u8> {
    let mut bytes = scalar_bytes(builtin.repr, value);
    bytes.resize(builtin.index_offset(), 0);
    bytes.extend(scalar_bytes(builtin.index.unwrap(), index));
    bytes.resize(builtin.extent(), 0);
    bytes
}

#[test]
fn complex_numbers_multiply() {
    let bytes = |values: [f64; 4]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
    let (a, b) = (bytes([1.0, 2.0, 0.5, -1.0]), bytes([3.0, -4.0, 2.0, 2.0]));
    assert_eq!(apply(P::Prod, Name::MPI_C_DOUBLE_COMPLEX, &a, &b), bytes([11.0, 2.0, 3.0, -1.0]));
    assert_eq!(apply(P::Sum, Name::MPI_COMPLEX16, &a, &b), bytes([4.0, -2.0, 2.5, 1.0]));
    let long = |re: f64, im: f64| {
        let parts = [re, im].map(super::x87::tests::from_f64);
        parts.iter().flat_map(|X87(bytes)| *bytes).collect::<Vec<u8>>()
    };
    assert_eq!(apply(P::Prod, Name::MPI_C_LONG_DOUBLE_COMPLEX, &long(1.0, 2.0), &long(3.0, -4.0)), long(11.0, 2.0));
    // Halves: 1 + 2i, 3 - 4i, 11 + 2i.
    let half = |re: u16, im: u16| [re.to_ne_bytes(), im.to_ne_bytes()].concat();
    assert_eq!(apply(P::Prod, Name::MPI_COMPLEX4, &half(0x3c00, 0x4000), &half(0x4200, 0xc400)), half(0x4980, 0x4000));
    let quad = |re: u128, im: u128| [(re << 112).to_ne_bytes(), (im << 112).to_ne_bytes()].concat();
    assert_eq!(apply(P::Sum, Name::MPI_COMPLEX32, &quad(0x3fff, 0x4000), &quad(0x3fff, 0xc000)), quad(0x4000, 0));
}

#[test]
fn operations_are_defined_as_in_the_standard_and_on_characters() {
    let defined_on = |which: Predefined| -> Vec<&str> {
        builtins().filter(|b| op(which).check(dt(b.which)).is_ok()).map(|b| b.name).collect()
    };
    for name in ["MPI_INT", "MPI_CHAR", "MPI_AINT", "MPI_REAL16", "MPI_LONG_DOUBLE", "MPI_INTEGER2"] {
        assert!(defined_on(P::Max).contains(&name));
    }
    for name in ["MPI_C_COMPLEX", "MPI_CHARACTER", "MPI_BYTE", "MPI_C_BOOL", "MPI_2INT", "MPI_PACKED", "MPI_WCHAR"] {
        assert!(!defined_on(P::Max).contains(&name));
    }
    assert!(defined_on(P::Sum).contains(&"MPI_COMPLEX32") && !defined_on(P::Sum).contains(&"MPI_LOGICAL"));
    assert!(defined_on(P::Band).contains(&"MPI_BYTE") && !defined_on(P::Band).contains(&"MPI_FLOAT"));
    assert!(defined_on(P::Land).contains(&"MPI_LOGICAL2") && !defined_on(P::Land).contains(&"MPI_INTEGER"));
    assert_eq!(defined_on(P::Minloc).len(), 9);
    let derived = datatype::contiguous(Form::Int, 1, dt(Name::MPI_INT)).unwrap();
    assert!(op(P::Sum).check(&derived).is_err());
    assert!(op(P::Sum).check(&datatype::create_f90_real(6, 30).unwrap()).is_ok());
    assert!(ALL.iter().all(|which| op(*which).which() == Some(*which)));
    assert!(!op(P::Replace).is_commutative() && op(P::Sum).is_commutative());
}

#[test]
fn replace_and_no_op() {
    assert_eq!(apply(P::Replace, Name::MPI_INT, &[1; 8], &[2; 8]), [1; 8]);
    assert_eq!(apply(P::NoOp, Name::MPI_INT, &[1; 8], &[2; 8]), [2; 8]);
}

#[test]
fn the_function_of_the_program_is_called() {
    struct Subtract;
    impl Function for Subtract {
        unsafe fn combine(
            &self,
            _cs: &mut Section,
            input: *const u8,
            inout: *mut u8,
            count: usize,
            datatype: &Rc<Datatype>,
        ) {
            assert_eq!(datatype.named(), Some(Name::MPI_INT));
            for i in 0..count {
                // SAFETY: the test passes arrays of `count` ints.
                unsafe {
                    let (a, b) = (input.cast::<i32>().add(i), inout.cast::<i32>().add(i));
                    *b = *a - *b;
                }
            }
        }
    }
    let (a, mut b) = ([5, 6, 7], [1, 2, 3]);
    let user = Op::user(Box::new(Subtract), false);
    assert!(!user.is_commutative() && !user.is_predefined() && user.which().is_none());
    // SAFETY: arrays of three ints.
    unsafe {
        user.apply(crate::cs::enter_test().section(), a.as_ptr().cast(), b.as_mut_ptr().cast(), 3, dt(Name::MPI_INT))
    };
    assert_eq!(b, [4, 4, 4]);
}
