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

/// The most balanced non-increasing sequence of `parts` factors of `n`: the smallest difference between the largest and the
/// smallest, then the largest smallest one, then the largest second smallest, and so on. Numbers with very many divisors get the
/// smallest sequence instead.
fn balance(n: u32, parts: usize) -> Vec<u32> {
    let divisors = divisors(n);
    let mut search = Search { divisors: &divisors, steps: STEPS_MAX };
    search.narrowest(n, parts as u32).unwrap_or_else(|| smallest(n, parts, &divisors))
}

/// Steps after which the search for the most balanced factors is given up: some milliseconds.
const STEPS_MAX: u32 = 3_000_000;

struct Search<'a> {
    divisors: &'a [u32],
    steps: u32,
}

impl Search<'_> {
    /// `None` if it takes too long.
    fn narrowest(&mut self, n: u32, parts: u32) -> Option<Vec<u32>> {
        let divisors = self.divisors;
        let root = divisors.iter().copied().find(|d| d.saturating_pow(parts) >= n)?;
        let mut best = (n, 1);
        for &least in divisors.iter().rev().filter(|d| d.checked_pow(parts).is_some_and(|p| p <= n)) {
            // No factorisation is narrower than one between this and the root.
            if root - least > best.0 - best.1 {
                break;
            }
            for &largest in divisors.iter().filter(|d| **d >= root) {
                if largest - least >= best.0 - best.1 {
                    break;
                }
                if self.splits(n, parts, (least, largest))? {
                    best = (largest, least);
                    break;
                }
            }
        }
        // From the smallest on, each as large as possible.
        let mut factors = Vec::with_capacity(parts as usize);
        let (mut rest, mut least) = (n, best.1);
        for left in (0..parts).rev() {
            for &next in divisors.iter().rev().filter(|d| (least..=best.0).contains(d)) {
                if rest.is_multiple_of(next) && self.splits(rest / next, left, (next, best.0))? {
                    factors.push(next);
                    (rest, least) = (rest / next, next);
                    break;
                }
            }
        }
        factors.reverse();
        Some(factors)
    }

    /// Whether `n` is the product of `parts` factors within `range`.
    fn splits(&mut self, n: u32, parts: u32, range: (u32, u32)) -> Option<bool> {
        let (least, largest) = range;
        match parts {
            0 => return Some(n == 1),
            1 => return Some(least <= n && n <= largest),
            _ => {}
        }
        let end = self.divisors.partition_point(|d| *d <= largest);
        for &d in self.divisors[..end].iter().rev() {
            self.steps = self.steps.checked_sub(1)?;
            if d < least || d.saturating_pow(parts) < n {
                break;
            }
            let enough = n.is_multiple_of(d) && n / d >= least.saturating_pow(parts - 1);
            if enough && self.splits(n / d, parts - 1, (least, d))? {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// The lexicographically smallest non-increasing sequence of `parts` factors of `n`: the largest is as small as possible,
/// then the second, and so on.
fn smallest(n: u32, parts: usize, divisors: &[u32]) -> Vec<u32> {
    let mut factors = Vec::with_capacity(parts);
    let mut rest = n;
    for left in (0..parts as u32).rev() {
        let fitting = |d: &u32| {
            rest.is_multiple_of(*d) && d.saturating_pow(left + 1) >= rest && fits(rest / d, left, *d, divisors)
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
    fn agrees_with_the_most_balanced_of_all_factorisations() {
        for n in (1..=200).chain([720, 1024, 5040, 6240, 7488, 10800]) {
            for parts in 1..=4 {
                let by_balance =
                    |f: &Vec<u32>| (f[0] - f[parts - 1], f.iter().rev().map(|d| u32::MAX - d).collect::<Vec<_>>());
                let best = naive(n, parts, n).into_iter().min_by_key(by_balance);
                assert_eq!(Some(balance(n, parts)), best, "{n} {parts}");
            }
        }
        assert_eq!(balance(5040, 3), [21, 16, 15]);
        assert_eq!(balance(98784, 5), [14, 14, 9, 8, 7]);
    }

    #[test]
    fn numbers_with_many_divisors_are_quick() {
        for n in [735_134_400, 1_396_755_360, 1 << 30, 2_147_483_646] {
            for parts in [1, 2, 3, 5, 8, 12] {
                assert_eq!(balance(n, parts).iter().product::<u32>(), n);
            }
        }
    }
}
