//! What the authors of the published schemes measured, and their formulas.
//!
//! Seconds to start on a cluster of 128 nodes. W_x is the time to transfer x bytes; here x is taken as the number of ids, and the time of one
//! goes into the constant before it. Their measurements include the exchange, one process to a node.

use super::Scheme;
use crate::least_squares::{self, Fit, Sample};

/// Ranks.
pub const RANKS: [usize; 6] = [4, 8, 16, 32, 64, 128];

/// Seconds for each of [`RANKS`].
pub const SECONDS: [(Scheme, [f64; 6]); 4] = [
    (Scheme::Original, [0.59, 0.92, 1.74, 3.41, 7.3, 13.7]),
    (Scheme::Dr, [0.58, 0.94, 1.69, 3.37, 6.77, 13.45]),
    (Scheme::Bc, [0.61, 0.95, 1.70, 3.38, 6.76, 13.3]),
    (Scheme::MpdBc, [0.61, 0.63, 0.64, 0.84, 1.58, 3.10]),
];

/// The authors' formula as text.
pub fn formula(scheme: Scheme) -> Option<&'static str> {
    match scheme {
        Scheme::Original => Some("O0·N + O1·(W_N + W_N²)·N + O2"),
        Scheme::Dr => Some("(D0 + Dcomp)·N + D1·(W_N + W_N)·N + D2"),
        Scheme::Bc => Some("B0·N + (Bch·N + B1·W_N·N) + B2"),
        Scheme::MpdBc => Some("(M0 + Mreq·N) + (Mch·N + M1·W_N·N) + M2"),
        _ => None,
    }
}

/// Values of the formula's terms: the constant one, the one in N, that of the transfers. The authors give none for `bc`: it is a serial launch
/// and their ring.
pub fn terms(scheme: Scheme, ranks: usize) -> Option<Vec<f64>> {
    let n = ranks as f64;
    match scheme {
        Scheme::Original => Some(vec![1.0, n, (n + n * n) * n]),
        Scheme::Dr => Some(vec![1.0, n, 2.0 * n * n]),
        Scheme::Bc | Scheme::MpdBc => Some(vec![1.0, n, n * n]),
        _ => None,
    }
}

/// What each of [`terms`] grows with.
pub fn terms_text(scheme: Scheme) -> Option<[&'static str; 3]> {
    match scheme {
        Scheme::Original => Some(["1", "N", "N^2+N^3"]),
        Scheme::Dr => Some(["1", "N", "2N^2"]),
        Scheme::Bc | Scheme::MpdBc => Some(["1", "N", "N^2"]),
        _ => None,
    }
}

/// The formula fitted to the authors' figures, relative errors least.
pub fn fit(scheme: Scheme) -> Option<Fit> {
    let (_, seconds) = SECONDS.iter().find(|(s, _)| *s == scheme)?;
    let sample =
        |(&ranks, &value): (&usize, &f64)| terms(scheme, ranks).map(|terms| Sample { terms, value, scale: value });
    let samples: Option<Vec<_>> = RANKS.iter().zip(seconds).map(sample).collect();
    least_squares::fit(&samples?)
}
