//! Models of measured start-up times: the closed forms' dependence on N with constants fitted to what was measured.
//!
//! Measured are hosts that are emulated on one machine, so all work shares its processors: what a cluster does on all hosts at once takes
//! N times as long here. Each term therefore has two values: on *emulated* hosts, to which it is fitted, and on a *cluster* whose hosts have
//! processors of their own, for prediction. The cost to start one rank on shared processors can't be told from serial work for each rank
//! by fitting, as both grow with N. `lazy` has no serial work, so its constant is the start; in the published schemes, whose launcher does
//! something for each rank, what exceeds it is serial.

use super::{Scheme, Shape};
use crate::least_squares::{self, Fit, Sample};

/// A term of a model.
pub struct Term {
    /// As printed: what it grows with on emulated hosts.
    pub growth: &'static str,
    /// What its constant stands for.
    pub meaning: &'static str,
    /// Its value on emulated hosts.
    pub emulated: fn(&Shape) -> f64,
    /// Its value where hosts have processors of their own.
    pub cluster: fn(&Shape) -> f64,
}

fn ranks(shape: &Shape) -> f64 {
    shape.ranks() as f64
}

const FIXED: Term =
    Term { growth: "1", meaning: "start of mpiexec and of the last rank", emulated: |_| 1.0, cluster: |_| 1.0 };
const LEVELS: Term = Term {
    growth: "levels",
    meaning: "a level of agents",
    emulated: |s| s.levels() as f64,
    cluster: |s| s.levels() as f64,
};
/// Of schemes whose launcher has something to do for each rank. On a cluster this one is split, see the head of the file.
const START_AND_SERIAL: Term =
    Term { growth: "N", meaning: "start of a rank, serial work for it", emulated: ranks, cluster: ranks };
const START: Term =
    Term { growth: "N", meaning: "start of a rank", emulated: ranks, cluster: |s| s.ranks_per_host as f64 };
const ROUNDS: Term = Term {
    growth: "N log2 H",
    meaning: "a message of the doubling",
    emulated: |s| ranks(s) * (s.hosts as f64).log2(),
    cluster: |s| s.ranks_per_host as f64 * (s.hosts as f64).log2(),
};
const MESSAGES: Term =
    Term { growth: "N^2", meaning: "a message of the ring", emulated: |s| ranks(s).powi(2), cluster: ranks };
const RING: Term =
    Term { growth: "N^3", meaning: "an id in the ring", emulated: |s| ranks(s).powi(3), cluster: |s| ranks(s).powi(2) };
const IDS_TO_ALL: Term = Term {
    growth: "N^2+N^3",
    meaning: "an id through the launcher",
    emulated: |s| ranks(s).powi(2) + ranks(s).powi(3),
    cluster: |s| ranks(s).powi(2) + ranks(s).powi(3),
};
const IDS_NEEDED: Term = Term {
    growth: "2N^2",
    meaning: "an id through the launcher",
    emulated: |s| 2.0 * ranks(s).powi(2),
    cluster: |s| 2.0 * ranks(s).powi(2),
};
const ADDRESSES: Term = Term {
    growth: "N^2",
    meaning: "an endpoint address handed to a rank",
    emulated: |s| ranks(s).powi(2),
    cluster: |s| ranks(s) * s.ranks_per_host as f64,
};

/// As an endpoint address that is handed to a rank: work of that rank for each other one. Where the model has such a term already, connections add to it.
const CONNECTIONS: Term = Term { meaning: "a connection", ..ADDRESSES };

/// The terms of a scheme's model; `connect_all` if `MPI_Init` makes all connections.
pub fn terms(scheme: Scheme, connect_all: bool) -> &'static [Term] {
    match scheme {
        Scheme::Original if connect_all => &[FIXED, START_AND_SERIAL, CONNECTIONS, IDS_TO_ALL],
        // The ids that the launcher sends grow alike, but are far fewer seconds.
        Scheme::Dr if connect_all => &[FIXED, START_AND_SERIAL, CONNECTIONS],
        Scheme::Lazy if connect_all => &[FIXED, LEVELS, START, CONNECTIONS],
        Scheme::Original => &[FIXED, START_AND_SERIAL, IDS_TO_ALL],
        Scheme::Dr => &[FIXED, START_AND_SERIAL, IDS_NEEDED],
        Scheme::Bc => &[FIXED, START_AND_SERIAL, MESSAGES, RING],
        Scheme::MpdBc => &[FIXED, LEVELS, START_AND_SERIAL, MESSAGES, RING],
        Scheme::Tree => &[FIXED, LEVELS, START, ADDRESSES],
        Scheme::Hypercube => &[FIXED, LEVELS, START, ROUNDS, ADDRESSES],
        Scheme::Lazy => &[FIXED, LEVELS, START],
    }
}

fn start_index(terms: &[Term]) -> usize {
    terms.iter().position(|t| t.growth == "N").expect("each model has the term")
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The job.
    pub shape: Shape,
    /// Its time.
    pub seconds: f64,
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct Model {
    /// Of which scheme.
    pub scheme: Scheme,
    /// Whether `MPI_Init` makes all connections.
    pub connect_all: bool,
    /// Constants in the order of [`terms`].
    pub fit: Fit,
    /// Largest N that was measured.
    pub ranks_max: usize,
    /// (model − measured) / measured at the largest N, against the median there.
    pub error: f64,
    /// The same for a model that has not seen the largest N.
    pub held_out_error: Option<f64>,
    /// The start of a rank on shared processors, and its half width.
    start: (f64, f64),
}

fn samples(terms: &[Term], points: &[Point]) -> Vec<Sample> {
    let values = |shape| emulated(terms, shape);
    points.iter().map(|p| Sample { terms: values(&p.shape), value: p.seconds, scale: p.seconds }).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Fits the model of `scheme` with least relative errors; `lazy` is the model that tells what starting a rank costs. `None` with
/// too few points.
pub fn fit(scheme: Scheme, connect_all: bool, points: &[Point], lazy: Option<&Model>) -> Option<Model> {
    let points: Vec<Point> = points.iter().copied().filter(|p| p.seconds > 0.0 && p.seconds.is_finite()).collect();
    let terms = terms(scheme, connect_all);
    let fit = least_squares::fit(&samples(terms, &points))?;
    let last = points.iter().max_by_key(|p| p.shape.ranks())?.shape;
    let (there, before): (Vec<Point>, Vec<Point>) = points.iter().partition(|p| p.shape == last);
    let measured = median(there.iter().map(|p| p.seconds).collect());
    let error = |fit: &Fit| fit.at(&emulated(terms, &last)).0 / measured - 1.0;
    let own = start_index(terms);
    let start = match lazy {
        Some(lazy) => lazy.start,
        None if scheme == Scheme::Lazy => (fit.constants[own], fit.half_widths[own]),
        None => (0.0, 0.0),
    };
    Some(Model {
        scheme,
        connect_all,
        ranks_max: last.ranks(),
        error: error(&fit),
        held_out_error: least_squares::fit(&samples(terms, &before)).map(|fit| error(&fit)),
        fit,
        start,
    })
}

fn emulated(terms: &[Term], shape: &Shape) -> Vec<f64> {
    terms.iter().map(|t| (t.emulated)(shape)).collect()
}

impl Model {
    /// The terms that the constants belong to.
    pub fn terms(&self) -> &'static [Term] {
        terms(self.scheme, self.connect_all)
    }

    /// Seconds, and half the width of their 95% interval, on emulated hosts.
    pub fn emulated(&self, shape: &Shape) -> (f64, f64) {
        self.fit.at(&emulated(self.terms(), shape))
    }

    /// Seconds, and half the width of their 95% interval, on hosts with processors of their own.
    pub fn cluster(&self, shape: &Shape) -> (f64, f64) {
        let values: Vec<f64> = self.terms().iter().map(|t| (t.cluster)(shape)).collect();
        let (value, half) = self.fit.at(&values);
        let index = start_index(self.terms());
        if matches!(self.scheme, Scheme::Tree | Scheme::Hypercube | Scheme::Lazy) {
            return (value, half);
        }
        // Ranks start on all hosts at once: only one host's are waited for. What the fit gave to the term beyond that is serial.
        let (constant, (start, start_half)) = (self.fit.constants[index], self.start);
        let elsewhere = values[index] - shape.ranks_per_host as f64;
        ((value - constant.min(start) * elsewhere).max(0.0), half.hypot(start_half * elsewhere))
    }
}
