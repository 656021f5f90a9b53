//! Truth values of Fortran (MPI-5.0, 20.4): compilers differ in the bits of `.TRUE.` and `.FALSE.`, and a program may say which they are.
//!
//! What is not `.FALSE.` is true, as in C; results have the bits that were told, or 1 and 0.

use super::Predefined as P;
use super::fold::fold;
use base::{Result, ensure};
use std::sync::OnceLock;

/// Largest Fortran logical in bytes.
const MAX_BYTES: usize = 16;

/// The bits of `.TRUE.` and `.FALSE.` for one size of logical.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    size: usize,
    yes: [u8; MAX_BYTES],
    no: [u8; MAX_BYTES],
}

/// What the program has said of logicals of 1, 2, 4, 8 and 16 bytes.
static TOLD: [OnceLock<Pattern>; 5] = [const { OnceLock::new() }; 5];

impl Pattern {
    /// From the bytes of both, which have the same length.
    fn new(yes: &[u8], no: &[u8]) -> Pattern {
        let padded = |bytes: &[u8]| std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0));
        Pattern { size: yes.len(), yes: padded(yes), no: padded(no) }
    }

    /// The bytes of `.TRUE.`.
    pub fn yes(&self) -> &[u8] {
        &self.yes[..self.size]
    }

    /// The bytes of `.FALSE.`.
    pub fn no(&self) -> &[u8] {
        &self.no[..self.size]
    }
}

/// Which entry of [`TOLD`] a size has; `ERR_ARG` for a size that no logical has.
fn place(size: usize) -> Result<&'static OnceLock<Pattern>> {
    ensure!(size.is_power_of_two() && size <= MAX_BYTES, ERR_ARG, "size of a Fortran logical is not 1, 2, 4, 8 or 16");
    Ok(&TOLD[size.trailing_zeros() as usize])
}

/// What the program has said of logicals of `size` bytes.
pub fn told(size: usize) -> Result<Option<Pattern>> {
    place(size).map(|place| place.get().copied())
}

/// `MPI_Abi_set_fortran_booleans`; both have the same length. Values that were set stay.
pub fn tell(yes: &[u8], no: &[u8]) -> Result {
    let (place, new) = (place(yes.len())?, Pattern::new(yes, no));
    ensure!(*place.get_or_init(|| new) == new, ERR_ABI, "Fortran logicals were set to other values");
    Ok(())
}

/// The bits in use.
pub(super) fn pattern(size: usize) -> Pattern {
    let one = 1u128.to_ne_bytes();
    let usual = || Pattern::new(&one[..size], &[0; MAX_BYTES][..size]);
    told(size).ok().flatten().unwrap_or_else(usual)
}

/// A logical operation on logicals of the pattern's size.
///
/// # Safety
/// Both pointers must be valid for `count` logicals, in any alignment, without overlap.
pub(super) unsafe fn apply(which: P, pattern: Pattern, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        match pattern.size {
            1 => each::<u8>(which, pattern, input, inout, count),
            2 => each::<u16>(which, pattern, input, inout, count),
            4 => each::<u32>(which, pattern, input, inout, count),
            8 => each::<u64>(which, pattern, input, inout, count),
            _ => each::<u128>(which, pattern, input, inout, count),
        }
    }
}

/// # Safety
/// As for [`apply`]; `T` is an integer of the pattern's size.
unsafe fn each<T: Copy + PartialEq>(which: P, pattern: Pattern, input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: `T` is not longer than the pattern's arrays, and every pattern of bits is one; the rest by the caller.
    unsafe {
        let yes = pattern.yes.as_ptr().cast::<T>().read_unaligned();
        let no = pattern.no.as_ptr().cast::<T>().read_unaligned();
        let truth = |value| if value { yes } else { no };
        match which {
            P::Land => fold(input, inout, count, |a: T, b: T| truth(a != no && b != no)),
            P::Lor => fold(input, inout, count, |a: T, b: T| truth(a != no || b != no)),
            _ => fold(input, inout, count, |a: T, b: T| truth((a != no) != (b != no))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_bits_that_were_told() {
        let pattern = Pattern::new(&(-1i32).to_ne_bytes(), &7i32.to_ne_bytes());
        let a = [-1i32, -1, 7, 7, 0];
        for (which, expected) in
            [(P::Land, [-1, 7, 7, 7, 7]), (P::Lor, [-1, -1, -1, 7, -1]), (P::Lxor, [7, -1, -1, 7, -1])]
        {
            let mut b = [-1i32, 7, -1, 7, 7];
            // SAFETY: both arrays have five logicals of four bytes.
            unsafe { apply(which, pattern, a.as_ptr().cast(), b.as_mut_ptr().cast(), 5) };
            assert_eq!(b, expected, "{which:?}");
        }
    }

    #[test]
    fn only_sizes_of_logicals_have_patterns() {
        for size in [0, 3, 32] {
            assert_eq!(told(size).unwrap_err().class, base::Class::ERR_ARG);
        }
        assert_eq!(pattern(16).yes()[0], 1);
        assert_eq!(pattern(2).no(), [0, 0]);
    }
}
