//! The models against figures: the authors' table, and times that the simulation made.

use netsim::events::Processors;
use netsim::startup::model::{self, Point};
use netsim::startup::simulate::simulate;
use netsim::startup::{Cost, Scheme, Shape, paper};

/// Our fit of the authors' formulas to their own table.
#[test]
fn the_authors_table_is_met() {
    for (scheme, seconds) in paper::SECONDS {
        let fit = paper::fit(scheme).unwrap();
        let (value, _) = fit.at(&paper::terms(scheme, 128).unwrap());
        let error = value / seconds[5] - 1.0;
        println!(
            "{}: {:?} at 128: {value:.2} s, measured {} s, {:+.1}%",
            scheme.name(),
            fit.constants,
            seconds[5],
            100.0 * error
        );
        let bound = if scheme == Scheme::MpdBc { 0.25 } else { 0.05 };
        assert!(error.abs() < bound, "{}: {error}", scheme.name());
    }
    let at = |scheme, ranks| paper::fit(scheme).unwrap().at(&paper::terms(scheme, ranks).unwrap()).0;
    println!("at 2,048 original / mpd-bc: {:.1}", at(Scheme::Original, 2048) / at(Scheme::MpdBc, 2048));
    assert!(at(Scheme::Original, 128) / at(Scheme::MpdBc, 128) > 4.0);
}

fn shape(hosts: usize) -> Shape {
    Shape { hosts, ranks_per_host: 2, tree_width: 16 }
}

/// Fitted to simulated times up to 64 emulated hosts that share two processors.
#[test]
fn models_meet_simulated_times() {
    let points = |scheme| -> Vec<Point> {
        [1, 2, 4, 8, 16, 32, 64]
            .map(|hosts| {
                let seconds = simulate(scheme, shape(hosts), Cost::default(), Processors::Shared(2)).end_s;
                Point { shape: shape(hosts), seconds }
            })
            .to_vec()
    };
    let lazy = model::fit(Scheme::Lazy, false, &points(Scheme::Lazy), None).unwrap();
    for scheme in Scheme::ALL {
        let model = model::fit(scheme, false, &points(scheme), Some(&lazy)).unwrap();
        println!(
            "{}: {:?} error {:+.1}%, held out {:?}",
            scheme.name(),
            model.fit.constants,
            100.0 * model.error,
            model.held_out_error
        );
        assert!(model.error.abs() < 0.15, "{}: {}", scheme.name(), model.error);
        let million = Shape { hosts: 1 << 19, ..shape(1) };
        let (emulated, _) = model.emulated(&million);
        let (cluster, _) = model.cluster(&million);
        assert!(
            cluster.is_finite() && cluster > 0.0 && cluster <= emulated * 1.001,
            "{}: {cluster} {emulated}",
            scheme.name()
        );
    }
}
