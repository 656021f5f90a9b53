//! Linear least squares with constants that can't be negative, and how sure they are.
//!
//! With few terms the exact solution is found by trying which of them are zero: the optimum is an ordinary solution on the terms that are
//! not. The covariance is that of the ordinary problem on all terms, also those at zero: the data chose them, and far beyond the data a
//! small constant of such a term may be all that counts. Intervals are Student's at 95%.

use nalgebra::{DMatrix, DVector};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Terms at most: the search is over their subsets.
pub const TERMS_MAX: usize = 8;

/// One observation: the value of each term, what was measured, and how much it weighs.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Value of each term.
    pub terms: Vec<f64>,
    /// What was measured.
    pub value: f64,
    /// The residual is divided by this: 1 for absolute errors, the value itself for relative ones.
    pub scale: f64,
}

/// The solution.
#[derive(Clone, Debug)]
pub struct Fit {
    /// A constant for each term, none negative.
    pub constants: Vec<f64>,
    /// Half width of the 95% interval of each; zero for those that the samples can't tell from the others, infinite without degrees of
    /// freedom.
    pub half_widths: Vec<f64>,
    covariance: DMatrix<f64>,
    student: f64,
}

impl Fit {
    /// The value at `terms`, and half the width of its 95% interval (of the mean, not of one more measurement).
    pub fn at(&self, terms: &[f64]) -> (f64, f64) {
        let x = DVector::from_column_slice(terms);
        let value = terms.iter().zip(&self.constants).map(|(t, c)| t * c).sum();
        let variance = (x.transpose() * &self.covariance * &x)[(0, 0)].max(0.0);
        let half = if self.student.is_finite() { self.student * variance.sqrt() } else { f64::INFINITY };
        (value, half)
    }
}

/// Fits; `None` without samples, with terms of different number, or more than [`TERMS_MAX`] of them.
pub fn fit(samples: &[Sample]) -> Option<Fit> {
    let count = samples.first()?.terms.len();
    let sound = |s: &Sample| s.terms.len() == count && s.scale > 0.0 && s.value.is_finite();
    if count == 0 || count > TERMS_MAX || !samples.iter().all(sound) {
        return None;
    }
    // Terms differ by many orders of magnitude: each column is scaled to at most one.
    let scaled = |s: &Sample, term: usize| s.terms[term] / s.scale;
    let width = |term| samples.iter().map(|s| scaled(s, term).abs()).fold(0.0, f64::max);
    let widths: Vec<f64> = (0..count).map(width).map(|w| if w > 0.0 { w } else { 1.0 }).collect();
    let matrix = DMatrix::from_fn(samples.len(), count, |row, term| scaled(&samples[row], term) / widths[term]);
    let target = DVector::from_fn(samples.len(), |row, _| samples[row].value / samples[row].scale);
    let mut best: Option<(f64, Vec<usize>, DVector<f64>)> = None;
    for mask in 1..1u32 << count {
        let chosen: Vec<usize> = (0..count).filter(|term| mask & (1 << term) != 0).collect();
        if chosen.len() > samples.len() {
            continue;
        }
        let part = matrix.select_columns(&chosen);
        let Some(solution) = solve(&part, &target) else { continue };
        if solution.iter().any(|c| *c < 0.0) {
            continue;
        }
        let error = (&part * &solution - &target).norm_squared();
        // A term more must earn its place; equal errors come from terms that say the same.
        if best.as_ref().is_none_or(|(least, ..)| error < least * (1.0 - 1e-9)) {
            best = Some((error, chosen, solution));
        }
    }
    let (error, chosen, solution) = best?;
    Some(report(&matrix, &widths, error, &chosen, &solution))
}

fn solve(matrix: &DMatrix<f64>, target: &DVector<f64>) -> Option<DVector<f64>> {
    // Collinear terms: a smaller set says the same.
    if collinear(matrix) {
        return None;
    }
    matrix.clone().svd(true, true).solve(target, 0.0).ok()
}

fn collinear(matrix: &DMatrix<f64>) -> bool {
    let values = matrix.singular_values();
    matrix.nrows() < matrix.ncols() || values.min() <= values.max() * 1e-10
}

/// The terms whose constants are unsure: the chosen ones, and all others that the samples can tell from them.
fn unsure(matrix: &DMatrix<f64>, chosen: &[usize]) -> Vec<usize> {
    let mut terms = chosen.to_vec();
    for term in (0..matrix.ncols()).filter(|term| !chosen.contains(term)) {
        terms.push(term);
        if collinear(&matrix.select_columns(&terms)) {
            terms.pop();
        }
    }
    terms
}

fn report(matrix: &DMatrix<f64>, widths: &[f64], error: f64, chosen: &[usize], solution: &DVector<f64>) -> Fit {
    let (rows, count) = matrix.shape();
    let unsure = unsure(matrix, chosen);
    let freedom = rows - unsure.len();
    let student = if freedom > 0 {
        StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
    } else {
        f64::INFINITY
    };
    let variance = if freedom > 0 { error / freedom as f64 } else { 0.0 };
    let part = matrix.select_columns(&unsure);
    let inverse = (part.transpose() * part).try_inverse().unwrap_or_else(|| DMatrix::zeros(unsure.len(), unsure.len()));
    let mut constants = vec![0.0; count];
    let mut half_widths = vec![0.0; count];
    let mut covariance = DMatrix::zeros(count, count);
    for (i, &term) in chosen.iter().enumerate() {
        constants[term] = solution[i] / widths[term];
    }
    for (i, &term) in unsure.iter().enumerate() {
        for (j, &other) in unsure.iter().enumerate() {
            covariance[(term, other)] = variance * inverse[(i, j)] / (widths[term] * widths[other]);
        }
        half_widths[term] =
            if student.is_finite() { student * covariance[(term, term)].max(0.0).sqrt() } else { f64::INFINITY };
    }
    Fit { constants, half_widths, covariance, student }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(f: impl Fn(f64) -> f64) -> Vec<Sample> {
        [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
            .iter()
            .map(|&n: &f64| Sample { terms: vec![1.0, n, n * n], value: f(n), scale: f(n) })
            .collect()
    }

    #[test]
    fn exact_data_give_their_constants() {
        let fit = fit(&samples(|n| 0.5 + 0.01 * n + 1e-4 * n * n)).unwrap();
        for (found, expected) in fit.constants.iter().zip([0.5, 0.01, 1e-4]) {
            assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{:?}", fit.constants);
        }
        assert!(fit.half_widths.iter().all(|w| *w < 1e-6));
    }

    #[test]
    fn constants_are_never_negative() {
        let fit = fit(&samples(|n| 10.0 + 1.0 * n - 1e-3 * n * n)).unwrap();
        assert!(fit.constants.iter().all(|c| *c >= 0.0), "{:?}", fit.constants);
        assert_eq!(fit.constants[2], 0.0);
    }

    #[test]
    fn the_interval_is_students() {
        // A mean of four values: 1, 2, 3, 4 has standard error 0.6455 and t(3) = 3.1824.
        let samples: Vec<_> = (1..=4).map(|v| Sample { terms: vec![1.0], value: f64::from(v), scale: 1.0 }).collect();
        let fit = fit(&samples).unwrap();
        assert!((fit.constants[0] - 2.5).abs() < 1e-12);
        assert!((fit.half_widths[0] - 3.1824 * 0.645_497).abs() < 1e-3, "{:?}", fit.half_widths);
        let (value, half) = fit.at(&[2.0]);
        assert!((value - 5.0).abs() < 1e-12 && (half - 2.0 * fit.half_widths[0]).abs() < 1e-9);
    }

    #[test]
    fn a_term_at_zero_has_an_interval() {
        // What the samples show of the second term is less than their noise, so the fit leaves it out. A thousand times further out it may
        // still be half of the whole, and the interval says so.
        let noise = [1.02, 0.97, 1.01, 1.03, 0.98, 1.0, 0.96];
        let samples: Vec<_> = samples(|_| 1.0)
            .into_iter()
            .zip(noise)
            .map(|(s, value)| Sample { terms: vec![1.0, s.terms[1].log2()], value, scale: 1.0 })
            .collect();
        let fit = fit(&samples).unwrap();
        assert_eq!(fit.constants[1], 0.0);
        assert!(fit.half_widths[1] > 1e-3, "{:?}", fit.half_widths);
        let ((near, near_half), (far, far_half)) = (fit.at(&[1.0, 4.0]), fit.at(&[1.0, 20.0]));
        assert_eq!(near, far);
        assert!(far_half > 3.0 * near_half, "{near_half} {far_half}");
    }

    #[test]
    fn equal_terms_do_not_confuse() {
        let samples: Vec<_> = (1..=5)
            .map(|v| Sample { terms: vec![f64::from(v), 2.0 * f64::from(v)], value: 3.0 * f64::from(v), scale: 1.0 })
            .collect();
        let (value, _) = fit(&samples).unwrap().at(&[1.0, 2.0]);
        assert!((value - 3.0).abs() < 1e-9);
        assert!(fit(&[]).is_none());
    }
}
