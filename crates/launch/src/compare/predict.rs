//! Models of what was measured, and of the published figures beside it.

use super::results::{ModelRecord, Prediction, Results, SchemePoint, TermRecord};
use netsim::startup::model::{self, Model, Point};
use netsim::startup::{Scheme, Shape, paper};

/// Sizes that are predicted.
pub const RANKS: [usize; 8] = [128, 512, 2048, 8192, 32_768, 131_072, 524_288, 1_048_576];
/// Fewer different N than this are no basis for a model.
const SIZES_MIN: usize = 4;

/// Puts the models of all measured schemes, and of the authors' table, into `results`.
pub fn fit_all(results: &mut Results) {
    let mut settings: Vec<(u32, String)> = results.schemes.iter().map(|p| (p.session_ms, p.connect.clone())).collect();
    settings.sort();
    settings.dedup();
    let mut models = Vec::new();
    for (session_ms, connect) in settings {
        let chosen = |scheme: Scheme| -> Vec<&SchemePoint> {
            let fits =
                |p: &&SchemePoint| p.scheme == scheme.name() && p.session_ms == session_ms && p.connect == connect;
            results.schemes.iter().filter(fits).collect()
        };
        let lazy = fit_one(Scheme::Lazy, &chosen(Scheme::Lazy), results, None);
        for scheme in Scheme::ALL {
            let Some(model) = fit_one(scheme, &chosen(scheme), results, lazy.as_ref()) else { continue };
            let each = results.ranks_per_host.max(1);
            let width = results.tree_width as usize;
            models.push(ModelRecord { session_ms, connect: connect.clone(), ..record(&model, each, width) });
        }
    }
    models.extend(paper::SECONDS.iter().filter_map(|(scheme, seconds)| published(*scheme, seconds[seconds.len() - 1])));
    results.models = models;
}

fn fit_one(scheme: Scheme, points: &[&SchemePoint], results: &Results, lazy: Option<&Model>) -> Option<Model> {
    if points.len() < SIZES_MIN {
        return None;
    }
    let shape = |p: &SchemePoint| Shape {
        hosts: p.hosts,
        ranks_per_host: p.ranks.div_ceil(p.hosts.max(1)),
        tree_width: results.tree_width as usize,
    };
    let connect_all = points[0].connect == "all";
    let points: Vec<Point> =
        points.iter().flat_map(|p| p.times().iter().map(|&seconds| Point { shape: shape(p), seconds })).collect();
    model::fit(scheme, connect_all, &points, lazy)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn record(model: &Model, ranks_per_host: usize, tree_width: usize) -> ModelRecord {
    let terms = model.terms().iter().enumerate().map(|(i, term)| TermRecord {
        growth: term.growth.into(),
        meaning: term.meaning.into(),
        constant: model.fit.constants[i],
        half_width: finite(model.fit.half_widths[i]),
    });
    let predict = |ranks: usize| {
        let shape = Shape { hosts: ranks.div_ceil(ranks_per_host), ranks_per_host, tree_width };
        let (emulated, cluster) = (model.emulated(&shape), model.cluster(&shape));
        Prediction {
            ranks,
            emulated_s: emulated.0,
            emulated_half_s: finite(emulated.1),
            cluster_s: cluster.0,
            cluster_half_s: finite(cluster.1),
        }
    };
    ModelRecord {
        scheme: model.scheme.name().into(),
        source: "measured".into(),
        terms: terms.collect(),
        ranks_max: model.ranks_max,
        error: model.error,
        held_out_error: model.held_out_error,
        predictions: RANKS.into_iter().map(predict).collect(),
        ..ModelRecord::default()
    }
}

/// The authors' formula, fitted to their table.
fn published(scheme: Scheme, at_128_s: f64) -> Option<ModelRecord> {
    let fit = paper::fit(scheme)?;
    let growth = paper::terms_text(scheme)?;
    let terms = growth.iter().enumerate().map(|(i, growth)| TermRecord {
        growth: (*growth).into(),
        meaning: String::new(),
        constant: fit.constants[i],
        half_width: finite(fit.half_widths[i]),
    });
    let predict = |ranks: usize| {
        let (seconds, half) = paper::terms(scheme, ranks).map_or((0.0, 0.0), |terms| fit.at(&terms));
        let half = finite(half);
        Prediction { ranks, emulated_s: seconds, emulated_half_s: half, cluster_s: seconds, cluster_half_s: half }
    };
    let predictions: Vec<Prediction> = RANKS.into_iter().map(predict).collect();
    Some(ModelRecord {
        scheme: scheme.name().into(),
        source: "paper".into(),
        terms: terms.collect(),
        ranks_max: 128,
        error: predictions[0].cluster_s / at_128_s - 1.0,
        predictions,
        ..ModelRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_come_from_points() {
        let mut results = Results { ranks_per_host: 2, tree_width: 16, ..Results::default() };
        for scheme in [Scheme::Original, Scheme::Lazy] {
            for hosts in [1, 2, 4, 8, 16] {
                let n = 2.0 * hosts as f64;
                let serial = if scheme == Scheme::Original { 0.05 * n } else { 0.0 };
                results.schemes.push(SchemePoint {
                    scheme: scheme.name().into(),
                    ranks: 2 * hosts,
                    hosts,
                    connect: "demand".into(),
                    wall_s: vec![0.01 + 0.002 * n + serial; 3],
                    ..SchemePoint::default()
                });
            }
        }
        fit_all(&mut results);
        let million = |scheme: &str, source: &str| {
            let model = results.models.iter().find(|m| m.scheme == scheme && m.source == source).unwrap();
            model.predictions.last().unwrap().clone()
        };
        assert!((million("lazy", "measured").cluster_s - 0.014).abs() < 1e-3);
        assert!((million("original", "measured").cluster_s / (0.05 * 1_048_576.0) - 1.0).abs() < 1e-3);
        assert!(million("original", "paper").cluster_s > million("mpd-bc", "paper").cluster_s);
        assert_eq!(results.models.len(), 6);
    }
}
