//! What `osu_ialltoall` measures, simulated: pure latency (start and wait), then start, a computation, wait.

use super::schedule::Schedule;
use super::settings::{BadSettings, Settings};
use super::simulation::{Program, Simulation, end_beside_workers};

/// What ranks do while the collective is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Time of the computation, as a multiple of the pure latency; 1 in the benchmark.
    pub ratio: f64,
    /// Calls of `MPI_Test` in it; none in the benchmark unless it is asked for some.
    pub tests: u32,
}

/// The figures; times are means over all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// From the start to the end of `MPI_Wait`, without a computation.
    pub pure_us: f64,
    /// The computation.
    pub compute_us: f64,
    /// From the start to the end of `MPI_Wait`, with it.
    pub total_us: f64,
    /// 100 (1 - (total - compute) / pure), and not less than 0.
    pub overlap_percent: f64,
    /// Share of the pure latency in which the busiest rank or worker has worked for the collective.
    pub driver_percent: f64,
    /// Share of it in which the busiest link has carried data.
    pub link_percent: f64,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Measures a collective.
pub fn measure(schedules: &[Schedule], settings: &Settings, load: Load) -> Result<Figures, BadSettings> {
    if !(load.ratio.is_finite() && (0.0..=1000.0).contains(&load.ratio)) {
        return Err(BadSettings(format!("computation of {} times the pure latency: expected 0 to 1000", load.ratio)));
    }
    if load.tests > 1_000_000 {
        return Err(BadSettings(format!("{} calls of MPI_Test: expected 0 to 1000000", load.tests)));
    }
    let alone = Simulation::run(schedules, settings, Program::default())?;
    let pure_us = mean(&alone.ends_us);
    let compute_us = pure_us * load.ratio;
    let program = Program { compute_us, tests: load.tests };
    let ends_us = match &settings.workers {
        None => Simulation::run(schedules, settings, program)?.ends_us,
        // Workers have done the same.
        Some(_) => alone.done_us.iter().map(|done_us| end_beside_workers(settings, program, *done_us)).collect(),
    };
    let total_us = mean(&ends_us);
    Ok(Figures {
        pure_us,
        compute_us,
        total_us,
        overlap_percent: (100.0 * (1.0 - (total_us - compute_us) / pure_us)).max(0.0),
        driver_percent: 100.0 * alone.driver_busy_us / pure_us,
        link_percent: 100.0 * alone.link_busy_us / pure_us,
    })
}
