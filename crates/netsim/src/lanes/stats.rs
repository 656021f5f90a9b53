//! Means, spread and percentiles of times.

/// What a list of numbers looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation through the mean (0: all are equal).
    pub variation: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of these numbers; all zero if there are none.
    pub fn of(values: &[f64]) -> Summary {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some(max) = sorted.last().copied() else { return Summary::default() };
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
        let at = |part: f64| sorted[((part * count as f64).ceil() as usize).clamp(1, count) - 1];
        let variation = if mean == 0.0 { 0.0 } else { variance.sqrt() / mean };
        Summary { count, mean, variation, p50: at(0.5), p99: at(0.99), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numbers_of_the_list() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = Summary::of(&values);
        assert_eq!((found.count, found.mean, found.p50, found.p99, found.max), (200, 100.5, 100.0, 198.0, 200.0));
        assert_eq!(Summary::of(&[2.0, 2.0]).variation, 0.0);
        assert_eq!(Summary::of(&[1.0, 3.0]).variation, 0.5);
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
