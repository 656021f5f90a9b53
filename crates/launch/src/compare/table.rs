//! Results as text.

use super::launchers::{FLOOR, OURS};
use super::results::{LauncherPoint, ModelRecord, Results, SchemePoint, median};
use netsim::startup::{Scheme, paper};

/// Seconds with three digits or so, in a unit that suits them.
pub fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v < 1e-3 => format!("{:.0} us", v * 1e6),
        v if v < 1.0 => format!("{:.1} ms", v * 1e3),
        v if v < 100.0 => format!("{v:.2} s"),
        v if v < 36_000.0 => format!("{v:.0} s"),
        v if v < 48.0 * 3600.0 => format!("{:.0} h", v / 3600.0),
        v if v < 1000.0 * 86_400.0 => format!("{:.0} days", v / 86_400.0),
        v => format!("{:.0} years", v / 31_557_600.0),
    }
}

/// Columns of equal width.
fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(c, cell)| format!("{cell:>w$}", w = widths[c]));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

/// Everything there is.
pub fn text(results: &Results) -> String {
    let mut out = String::new();
    let mut settings: Vec<(u32, &str)> = results.schemes.iter().map(|p| (p.session_ms, p.connect.as_str())).collect();
    settings.dedup();
    for (session_ms, connect) in settings {
        let chosen: Vec<&SchemePoint> =
            results.schemes.iter().filter(|p| p.session_ms == session_ms && p.connect == connect).collect();
        out += &format!(
            "\nSchemes: {} ranks on each emulated host, links of {}, sessions of {session_ms} ms, connections: {connect}\n",
            results.ranks_per_host, results.rate
        );
        out += &schemes(&chosen);
    }
    if !results.launchers.is_empty() {
        out += "\nLaunchers: an empty MPI program on this host; floor: as many static programs by fork and exec\n";
        out += &launchers(&results.launchers);
    }
    for s in &results.sleepers {
        out += &format!(
            "\n{} sleeping ranks: ready after {}, ended in {}; mpiexec and agents {:.1} KiB a rank, ranks {:.0} KiB each, machine {:.2} GiB less\n",
            s.ranks,
            seconds(s.ready_s),
            seconds(s.end_s),
            s.launcher_bytes as f64 / 1024.0 / s.ranks.max(1) as f64,
            s.ranks_bytes as f64 / 1024.0 / s.ranks.max(1) as f64,
            s.machine_bytes as f64 / f64::from(1 << 30),
        );
    }
    if !results.models.is_empty() {
        out += &models(&results.models);
    }
    if !results.failures.is_empty() {
        out += "\nLeft out:\n";
        for f in &results.failures {
            out += &format!("  {}, {} ranks: {}\n", f.what, f.ranks, f.why);
        }
    }
    out
}

fn sizes(all: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut list: Vec<usize> = all.collect();
    list.sort_unstable();
    list.dedup();
    list
}

fn schemes(points: &[&SchemePoint]) -> String {
    let present: Vec<Scheme> =
        Scheme::ALL.into_iter().filter(|s| points.iter().any(|p| p.scheme == s.name())).collect();
    let find = |scheme: Scheme, ranks| points.iter().find(|p| p.scheme == scheme.name() && p.ranks == ranks);
    let time = |scheme, ranks| find(scheme, ranks).map_or(f64::INFINITY, |p| median(p.times()));
    let mut rows = vec![vec!["ranks".to_string(), "hosts".into()]];
    rows[0].extend(present.iter().map(|s| s.name().to_string()));
    rows[0].push("original/lazy".into());
    for ranks in sizes(points.iter().map(|p| p.ranks)) {
        let hosts = points.iter().find(|p| p.ranks == ranks).map_or(0, |p| p.hosts);
        let mut row = vec![ranks.to_string(), hosts.to_string()];
        row.extend(present.iter().map(|&s| seconds(time(s, ranks))));
        row.push(ratio(time(Scheme::Original, ranks), time(Scheme::Lazy, ranks)));
        rows.push(row);
    }
    let published = paper::SECONDS.map(|(scheme, values)| {
        let values = values.iter().zip(paper::RANKS).map(|(v, n)| format!("{n}: {v}"));
        format!("  {} {}\n", scheme.name(), values.collect::<Vec<_>>().join(", "))
    });
    grid(&rows) + "Published (Yu, Wu, Panda 2004; s, by ranks):\n" + &published.concat()
}

fn ratio(a: f64, b: f64) -> String {
    let value = a / b;
    if value.is_finite() { format!("{value:.2}") } else { "-".into() }
}

fn launchers(points: &[LauncherPoint]) -> String {
    let mut names: Vec<&str> = vec![FLOOR, OURS];
    for point in points {
        if !names.contains(&point.name.as_str()) {
            names.push(&point.name);
        }
    }
    let time = |name: &str, ranks| {
        points.iter().find(|p| p.name == name && p.ranks == ranks).map_or(f64::INFINITY, |p| median(&p.wall_s))
    };
    let mut rows = vec![vec!["ranks".to_string()]];
    rows[0].extend(names.iter().map(|n| (*n).to_string()));
    rows[0].extend(["Ferrule/floor".into(), "best peer/Ferrule".into()]);
    for ranks in sizes(points.iter().map(|p| p.ranks)) {
        let best = names[2..].iter().map(|n| time(n, ranks)).fold(f64::INFINITY, f64::min);
        let mut row = vec![ranks.to_string()];
        row.extend(names.iter().map(|n| seconds(time(n, ranks))));
        row.extend([ratio(time(OURS, ranks), time(FLOOR, ranks)), ratio(best, time(OURS, ranks))]);
        rows.push(row);
    }
    grid(&rows)
}

fn models(models: &[ModelRecord]) -> String {
    let mut out = String::from(
        "\nModels: constants in seconds with 95% intervals; error at the largest N, in brackets if fitted without it\n",
    );
    for model in models {
        let terms: Vec<String> = model
            .terms
            .iter()
            .map(|t| {
                format!(
                    "({:.3e} ± {})·{}",
                    t.constant,
                    t.half_width.map_or("?".into(), |h| format!("{h:.1e}")),
                    t.growth
                )
            })
            .collect();
        let held = model.held_out_error.map_or(String::new(), |e| format!(" ({:+.1}%)", 100.0 * e));
        out += &format!(
            "  {}: {}; at {}: {:+.1}%{held}\n",
            title(model),
            terms.join(" + "),
            model.ranks_max,
            100.0 * model.error
        );
    }
    out += "\nPredicted, on hosts with processors of their own:\n";
    let mut rows = vec![vec!["ranks".to_string()]];
    rows[0].extend(models.iter().map(title));
    let count = models.iter().map(|m| m.predictions.len()).max().unwrap_or(0);
    for i in 0..count {
        let mut row = vec![models[0].predictions.get(i).map_or(String::new(), |p| p.ranks.to_string())];
        row.extend(models.iter().map(|m| {
            m.predictions.get(i).map_or("-".into(), |p| {
                let half = p.cluster_half_s.map_or(String::new(), |h| format!(" ±{}", seconds(h)));
                seconds(p.cluster_s) + &half
            })
        }));
        rows.push(row);
    }
    out + &grid(&rows)
}

fn title(model: &ModelRecord) -> String {
    if model.source == "paper" {
        return format!("{} (published)", model.scheme);
    }
    format!("{} ({} ms, {})", model.scheme, model.session_ms, model.connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_units() {
        let shown = [0.0000123, 0.0123, 1.234, 123.4, 40_000.0, 1e6, 1e10].map(seconds);
        assert_eq!(shown, ["12 us", "12.3 ms", "1.23 s", "123 s", "11 h", "12 days", "317 years"]);
    }

    #[test]
    fn launchers_are_compared_with_the_best_peer() {
        let point = |name: &str, s: f64| LauncherPoint { name: name.into(), ranks: 4, wall_s: vec![s] };
        let text = launchers(&[point(FLOOR, 0.001), point(OURS, 0.01), point("A", 0.05), point("B", 0.03)]);
        assert!(text.lines().nth(1).unwrap().ends_with("3.00"), "{text}");
        assert!(text.contains("10.00"), "{text}");
    }
}
