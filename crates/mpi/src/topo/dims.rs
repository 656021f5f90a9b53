//! `MPI_Dims_create` (MPI-5.0, 8.5.2).

use base::{Result, ensure};

/// Fills the zeros of `dims` so that the product is `nodes`, as balanced as possible, in non-increasing order.
pub fn create(nodes: i32, dims: &mut [i32]) -> Result {
    ensure!(nodes > 0, ERR_DIMS, "the number of nodes is not positive");
    ensure!(dims.iter().all(|d| *d >= 0), ERR_DIMS, "a dimension is negative");
    let fixed = dims.iter().filter(|d| **d > 0).try_fold(1i32, |product, d| product.checked_mul(*d));
    let free = dims.iter().filter(|d| **d == 0).count();
    let Some(fixed) = fixed.filter(|fixed| nodes % fixed == 0) else {
        base::fail!(ERR_DIMS, "the number of nodes is not a multiple of the given dimensions");
    };
    if free == 0 {
        ensure!(fixed == nodes, ERR_DIMS, "the given dimensions are not the number of nodes");
        return Ok(());
    }
    let sizes = balance((nodes / fixed) as u32, free);
    for (dim, size) in dims.iter_mut().filter(|d| **d == 0).zip(sizes) {
        *dim = size as i32;
    }
    Ok(())
}

/// The lexicographically smallest non-increasing sequence of `parts` factors of `n`: the largest is as small as possible,
/// then the second, and so on.
fn balance(n: u32, parts: usize) -> Vec<u32> {
    let divisors = divisors(n);
    let mut factors = Vec::with_capacity(parts);
    let mut rest = n;
    for left in (0..parts as u32).rev() {
        let fitting = |d: &u32| {
            rest.is_multiple_of(*d) && d.saturating_pow(left + 1) >= rest && fits(rest / d, left, *d, &divisors)
        };
        let next = divisors.iter().copied().find(fitting).unwrap_or(rest);
        factors.push(next);
        rest /= next;
    }
    factors
}

/// Whether `n` is the product of `parts` factors of at most `largest`.
fn fits(n: u32, parts: u32, largest: u32, divisors: &[u32]) -> bool {
    if n == 1 || parts == 0 {
        return n == 1;
    }
    if n <= largest {
        return true;
    }
    let candidates = divisors.iter().rev().copied().filter(|&d| d > 1 && d <= largest && n.is_multiple_of(d));
    candidates.take_while(|&d| d.saturating_pow(parts) >= n).any(|d| fits(n / d, parts - 1, d, divisors))
}

/// Ascending.
fn divisors(n: u32) -> Vec<u32> {
    let small: Vec<u32> = (1..=n.isqrt()).filter(|d| n.is_multiple_of(*d)).collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| *d > n.isqrt());
    small.iter().copied().chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    fn dims<const N: usize>(nodes: i32, mut dims: [i32; N]) -> Result<[i32; N]> {
        create(nodes, &mut dims).map(|()| dims)
    }

    #[test]
    fn examples_of_the_standard() {
        assert_eq!(dims(6, [0, 0]), Ok([3, 2]));
        assert_eq!(dims(7, [0, 0]), Ok([7, 1]));
        assert_eq!(dims(6, [0, 3, 0]), Ok([2, 3, 1]));
        assert_eq!(dims(7, [0, 3, 0]).unwrap_err().class, Class::ERR_DIMS);
    }

    #[test]
    fn limits() {
        assert_eq!(dims(0, [0]).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(dims(4, [-1, 0]).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(dims(4, [2]).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(dims(4, []).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(dims(1, []), Ok([]));
        assert_eq!(dims(i32::MAX, [0, 0]), Ok([i32::MAX, 1]));
        assert_eq!(dims(1 << 30, [0; 5]), Ok([64; 5]));
    }

    /// All non-increasing factorisations.
    fn naive(n: u32, parts: usize, largest: u32) -> Vec<Vec<u32>> {
        if parts == 0 {
            return if n == 1 { vec![vec![]] } else { vec![] };
        }
        let first = (1..=largest.min(n)).filter(|d| n.is_multiple_of(*d));
        let with = |d: u32| naive(n / d, parts - 1, d).into_iter().map(move |rest| [vec![d], rest].concat());
        first.flat_map(with).collect()
    }

    #[test]
    fn agrees_with_the_smallest_of_all_factorisations() {
        for n in 1..=200 {
            for parts in 1..=4 {
                assert_eq!(Some(balance(n, parts)), naive(n, parts, n).into_iter().min(), "{n} {parts}");
            }
        }
    }
}
