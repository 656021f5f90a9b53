//! `ferrule lab offload`: what workers bring on a cluster that is not at hand, from the simulation `netsim::offload`.

use super::schedules;
use netsim::offload::measure::{Figures, Load, measure};
use netsim::offload::{ASSUMPTIONS, PUBLISHED, Schedule, Settings, Share, Workers};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Offload {
    /// The collective
    #[arg(long, value_name = "NAME", value_parser = schedules::COLLECTIVES, default_value = "ialltoall")]
    collective: String,
    /// Nodes
    #[arg(long, value_name = "N", default_value = "32")]
    nodes: u32,
    /// Ranks of a node, each with a core
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16,32")]
    ranks: Vec<u32>,
    /// Workers of a node, each with a core that no rank uses
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4")]
    workers: Vec<u32>,
    /// Size of a block, or of the vector of a broadcast, such as 100, 64K or 1M
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = size, default_value = "16K,32K,64K,128K,256K,512K")]
    bytes: Vec<u32>,
    /// Where workers run: on a SmartNIC (dpu), on the host, or on the host with memory of ranks that is registered for the adapter
    #[arg(long, value_name = "WHERE", value_parser = ["dpu", "host", "registered"], default_value = "dpu")]
    worker: String,
    /// What the workers of a node share: its ranks, as BluesMPI's, or operations, as Ferrule's
    #[arg(long, value_name = "WHAT", value_parser = ["ranks", "operations"], default_value = "ranks")]
    share: String,
    /// The computation, as a multiple of the pure latency
    #[arg(long, value_name = "RATIO,…", value_delimiter = ',', default_value = "1")]
    compute: Vec<f64>,
    /// Calls of `MPI_Test` during the computation
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0")]
    tests: Vec<u32>,
    /// What a link carries
    #[arg(long, value_name = "GB/S", default_value = "12.5")]
    link: f64,
    /// From one node's adapter to another's
    #[arg(long, value_name = "US", default_value = "1")]
    latency: f64,
    /// Time of a rank's core for an operation of the adapter or a message without data
    #[arg(long, value_name = "US", default_value = "0.25")]
    operation: f64,
    /// What such a core copies
    #[arg(long, value_name = "GB/S", default_value = "8")]
    copy: f64,
    /// Speed of a worker's core, where a rank's is 1 (dpu: 0.4, else 1)
    #[arg(long, value_name = "RATIO")]
    speed: Option<f64>,
    /// What the way from the host's memory to a SmartNIC's carries
    #[arg(long, value_name = "GB/S", default_value = "12.5")]
    staging: f64,
    /// From a rank to its worker (dpu: 2, else 5)
    #[arg(long, value_name = "US")]
    hand_over: Option<f64>,
    /// Size of the chunks of workers
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "64K")]
    chunk: u32,
    /// Chunks that a worker has under way at most
    #[arg(long, value_name = "N", default_value = "128")]
    chunks: u32,
    /// Once more for each assumption, with 25 % less and 25 % more of it
    #[arg(long)]
    sensitivity: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn size(word: &str) -> Result<u32, String> {
    let found = <u64 as base::config::Value>::parse(word).and_then(|bytes| u32::try_from(bytes).ok());
    found.filter(|bytes| (1..=1 << 30).contains(bytes)).ok_or("expected 1 to 1G bytes, such as 100, 64K or 1M".into())
}

/// One simulated case, without and with workers.
struct Row {
    ranks: u32,
    workers: u32,
    bytes: u32,
    load: Load,
    assumption: String,
    alone: Figures,
    offloaded: Figures,
}

impl Row {
    /// By how many percent workers shorten the total time.
    fn less_percent(&self) -> f64 {
        100.0 * (1.0 - self.offloaded.total_us / self.alone.total_us)
    }
}

/// What has been simulated without workers: it doesn't depend on them.
type Known = Vec<((Settings, Load), Figures)>;

/// Runs the simulations; the text to print, or why not.
pub fn run(options: &Offload) -> Result<String, String> {
    let rows = simulate(options)?;
    if options.json {
        let settings = options.settings(options.ranks[0], options.workers[0]);
        return Ok(format!(
            "{:#}\n",
            json!({
                "collective": options.collective, "worker": options.worker, "share": options.share, "nodes": options.nodes,
                "settings": constants(&settings), "published": published(),
                "rows": rows.iter().map(value).collect::<Vec<_>>(),
            })
        ));
    }
    Ok(table(options, &rows))
}

fn simulate(options: &Offload) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    // Told before anything takes long.
    for (ranks, workers) in
        options.ranks.iter().flat_map(|ranks| options.workers.iter().map(move |workers| (*ranks, *workers)))
    {
        options.settings(ranks, workers).check().map_err(|why| why.to_string())?;
    }
    for &ranks in &options.ranks {
        for &bytes in &options.bytes {
            let schedules = schedules::of(&options.collective, options.nodes, ranks, bytes)?;
            let mut known = Known::new();
            for &workers in &options.workers {
                for (&ratio, &tests) in
                    options.compute.iter().flat_map(|ratio| options.tests.iter().map(move |tests| (ratio, tests)))
                {
                    for (assumption, settings) in options.variations(ranks, workers) {
                        let load = Load { ratio, tests };
                        let (alone, offloaded) = both(&schedules, &settings, load, &mut known)?;
                        rows.push(Row { ranks, workers, bytes, load, assumption, alone, offloaded });
                    }
                }
            }
        }
    }
    Ok(rows)
}

fn both(
    schedules: &[Schedule],
    settings: &Settings,
    load: Load,
    known: &mut Known,
) -> Result<(Figures, Figures), String> {
    let key = (Settings { workers: None, ..settings.clone() }, load);
    let alone = match known.iter().find(|(of, _)| *of == key) {
        Some((_, figures)) => *figures,
        None => {
            let figures = measure(schedules, &key.0, load).map_err(|why| why.to_string())?;
            known.push((key, figures));
            figures
        }
    };
    Ok((alone, measure(schedules, settings, load).map_err(|why| why.to_string())?))
}

impl Offload {
    fn settings(&self, ranks: u32, per_node: u32) -> Settings {
        let usual = match self.worker.as_str() {
            "dpu" => Workers::smart_nic(per_node),
            "registered" => Workers::registered(per_node),
            _ => Workers::host(per_node),
        };
        let workers = Workers {
            share: if self.share == "ranks" { Share::Ranks } else { Share::Operations },
            speed: self.speed.unwrap_or(usual.speed),
            staging_gb_s: self.staging,
            hand_over_us: self.hand_over.unwrap_or(usual.hand_over_us),
            chunk_bytes: self.chunk,
            chunks_max: self.chunks,
            ..usual
        };
        Settings {
            nodes: self.nodes,
            link_gb_s: self.link,
            latency_us: self.latency,
            op_us: self.operation,
            copy_gb_s: self.copy,
            workers: Some(workers),
            ..Settings::cluster(ranks)
        }
    }

    /// What is simulated for one shape: as assumed, and with each assumption varied.
    fn variations(&self, ranks: u32, workers: u32) -> Vec<(String, Settings)> {
        let assumed = self.settings(ranks, workers);
        let mut all = vec![("as assumed".to_string(), assumed.clone())];
        if self.sensitivity {
            for (name, vary) in ASSUMPTIONS {
                for (sign, by) in [("-", 0.75), ("+", 1.25)] {
                    let mut settings = assumed.clone();
                    vary(&mut settings, by);
                    all.push((format!("{name} {sign}25 %"), settings));
                }
            }
        }
        all
    }
}

/// The constants, with their units.
fn constants(settings: &Settings) -> Value {
    let workers = settings.workers.as_ref();
    json!({
        "link_gb_s": settings.link_gb_s, "latency_us": settings.latency_us, "op_us": settings.op_us, "copy_gb_s": settings.copy_gb_s, "local_us": settings.local_us,
        "speed": workers.map(|w| w.speed), "staging_gb_s": workers.map(|w| w.staging_gb_s), "hand_over_us": workers.map(|w| w.hand_over_us),
        "chunk_bytes": workers.map(|w| w.chunk_bytes), "chunks_max": workers.map(|w| w.chunks_max),
    })
}

fn published() -> Value {
    PUBLISHED.iter().map(|(what, figure)| json!({ "what": what, "figure": figure })).collect()
}

fn value(row: &Row) -> Value {
    let figures = |f: &Figures| {
        json!({
            "pure_us": f.pure_us, "compute_us": f.compute_us, "total_us": f.total_us, "overlap_percent": f.overlap_percent,
            "driver_percent": f.driver_percent, "link_percent": f.link_percent,
        })
    };
    json!({
        "ranks": row.ranks, "workers": row.workers, "bytes": row.bytes, "compute": row.load.ratio, "tests": row.load.tests, "assumption": row.assumption,
        "alone": figures(&row.alone), "offloaded": figures(&row.offloaded), "less_percent": row.less_percent(),
    })
}

fn table(options: &Offload, rows: &[Row]) -> String {
    let mut text = format!(
        "{} on {} nodes, workers: {}, they share {}\n",
        options.collective, options.nodes, options.worker, options.share
    );
    for (what, figure) in PUBLISHED {
        text += &format!("  published: {what}: {figure}\n");
    }
    text += "  each pair of columns: ranks alone, with workers; busy: the busiest worker, and the busiest link\n";
    text += &format!(
        "{:>5} {:>7} {:>8} {:>7} {:>5} {:>22} {:>15} {:>22} {:>6} {:>11}  assumption\n",
        "ranks", "workers", "bytes", "compute", "tests", "pure µs", "overlap %", "total µs", "less %", "busy %"
    );
    for row in rows {
        let (alone, offloaded) = (&row.alone, &row.offloaded);
        text += &format!(
            "{:>5} {:>7} {:>8} {:>7} {:>5} {:>11.1}{:>11.1} {:>8.1}{:>7.1} {:>11.1}{:>11.1} {:>6.1} {:>6.0}{:>5.0}  {}\n",
            row.ranks,
            row.workers,
            row.bytes,
            row.load.ratio,
            row.load.tests,
            alone.pure_us,
            offloaded.pure_us,
            alone.overlap_percent,
            offloaded.overlap_percent,
            alone.total_us,
            offloaded.total_us,
            row.less_percent(),
            offloaded.driver_percent,
            offloaded.link_percent,
            row.assumption
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        offload: Offload,
    }

    fn line(words: &str) -> Result<String, String> {
        let words = std::iter::once("offload").chain(words.split_whitespace());
        run(&Line::try_parse_from(words).map_err(|e| e.to_string())?.offload)
    }

    #[test]
    fn bad_words_are_refused() {
        for (words, told) in [
            ("--collective ibarrier", "possible values"),
            ("--bytes 0", "expected 1 to 1G bytes"),
            ("--bytes 16k,x", "expected 1 to 1G bytes"),
            ("--worker gpu", "possible values"),
            ("--nodes 0", "nodes 0: expected 1 to 1024"),
            ("--ranks 16 --workers 17", "workers per node 17: expected 1 to 16"),
            ("--ranks 256", "ranks of all nodes 8192: expected 2 to 4096"),
            ("--link 0 --ranks 2", "link, GB/s 0"),
            ("--speed=-1 --ranks 4", "speed"),
            ("--nodes 2 --ranks 2 --workers 1 --bytes 8 --compute nan", "computation of NaN"),
        ] {
            let text = line(words).expect_err(words);
            assert!(text.contains(told), "{words}: {text}");
        }
    }

    #[test]
    fn cases_are_shown_as_table_and_as_json() {
        let words = "--nodes 4 --ranks 2,4 --workers 1,2 --bytes 16K,64K";
        let text = line(words).expect("it runs");
        assert_eq!(text.lines().filter(|line| line.ends_with("as assumed")).count(), 8, "{text}");
        let found: Value =
            serde_json::from_str(&line(&format!("{words} --json")).expect("it runs")).expect("it is JSON");
        let rows = found["rows"].as_array().expect("there are rows");
        assert_eq!(rows.len(), 8);
        for row in rows {
            let of = |who: &str, what: &str| row[who][what].as_f64().expect("a number");
            assert!(of("offloaded", "overlap_percent") > of("alone", "overlap_percent"), "{row}");
            assert!(of("alone", "total_us") >= of("alone", "pure_us"), "{row}");
        }
    }

    #[test]
    fn each_assumption_has_two_rows() {
        let text = line("--nodes 2 --ranks 2 --workers 1 --bytes 64K --sensitivity").expect("it runs");
        assert_eq!(text.matches("25 %").count(), 2 * ASSUMPTIONS.len(), "{text}");
    }
}
