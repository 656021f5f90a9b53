//! `ferrule lab`: simulations. `lanes`: figures of virtual lanes from the packet-level simulator `netsim::lanes`; `offload`: see the file of that name.

mod offload;
mod schedules;

use clap::{CommandFactory, Parser, Subcommand};
use netsim::lanes::figures::{self, Figure, Inputs};
use netsim::lanes::opensm;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Simulates what no machine is at hand for.
#[derive(Parser)]
#[command(name = "ferrule lab", disable_version_flag = true)]
struct Lab {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Virtual lanes of InfiniBand: the figures of Subramoni, Lai, Sur and Panda (ICPP 2010) from a packet-level model
    Lanes(Lanes),
    /// Non-blocking collectives with and without workers: overlap, pure latency and total time on a cluster such as BluesMPI's (ISC 2021)
    Offload(Box<offload::Offload>),
}

#[derive(clap::Args)]
struct Lanes {
    /// A figure: interarrival, pt2pt, alltoall or cpmd
    #[arg(long, value_name = "NAME", value_parser = figures::NAMES, required_unless_present_any = ["all", "speed"])]
    figure: Vec<String>,
    /// All figures
    #[arg(long)]
    all: bool,
    /// How many packets a second the simulator itself does on this machine
    #[arg(long)]
    speed: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// SL-to-VL and arbitration tables from OpenSM's options file, in place of 8 equal lanes
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The command line, for its pages.
pub fn command() -> clap::Command {
    Lab::command()
}

/// Runs the command; `words` are those after `lab`.
pub fn main(words: &[std::ffi::OsString]) -> i32 {
    let name = std::ffi::OsString::from("ferrule lab");
    let what = match Lab::try_parse_from(std::iter::once(&name).chain(words)) {
        Ok(lab) => lab.what,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    let (name, outcome) = match &what {
        What::Lanes(lanes) => ("lanes", run(lanes)),
        What::Offload(options) => ("offload", offload::run(options)),
    };
    match outcome {
        Ok(text) => {
            print!("{text}");
            0
        }
        Err(why) => {
            eprintln!("ferrule lab {name}: {why}");
            1
        }
    }
}

fn run(lanes: &Lanes) -> Result<String, String> {
    let tables = match &lanes.tables {
        None => None,
        Some(path) => {
            let told = |why: String| format!("{}: {why}", path.display());
            let text = std::fs::read_to_string(path).map_err(|e| told(e.to_string()))?;
            Some(opensm::parse(&text).map_err(|e| told(e.to_string()))?)
        }
    };
    let inputs = Inputs { seed: lanes.seed, tables };
    let wanted = figures::NAMES.into_iter().filter(|name| lanes.all || lanes.figure.iter().any(|word| word == name));
    let found: Vec<Figure> = wanted
        .filter_map(|name| figures::figure(name, &inputs))
        .collect::<Result<_, _>>()
        .map_err(|why| why.to_string())?;
    let speed = if lanes.speed { Some(speed(lanes.seed)?) } else { None };
    if lanes.json {
        let all: Vec<Value> = found.iter().map(value).collect();
        return Ok(format!("{:#}\n", json!({ "seed": lanes.seed, "figures": all, "speed": speed })));
    }
    let mut text: String = found.iter().map(table).collect::<Vec<_>>().join("\n");
    if let Some(speed) = speed {
        text += &format!(
            "{} million packets over {} million links in {} s: {} million packets, {} million hops a second\n",
            speed["million_packets"],
            speed["million_hops"],
            speed["seconds"],
            speed["packets_per_us"],
            speed["hops_per_us"]
        );
    }
    Ok(text)
}

/// Runs the load; a hop is one packet on one link.
fn speed(seed: u64) -> Result<Value, String> {
    let begin = Instant::now();
    let counts = figures::speed_load(seed).map_err(|why| why.to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let (packets, hops) = (counts.arrived as f64 / 1e6, counts.hops as f64 / 1e6);
    Ok(json!({
        "million_packets": rounded(packets), "million_hops": rounded(hops), "seconds": rounded(seconds),
        "packets_per_us": rounded(packets / seconds), "hops_per_us": rounded(hops / seconds),
    }))
}

fn value(figure: &Figure) -> Value {
    let rows: Vec<Value> = figure.rows.iter().map(|(name, values)| json!({ "name": name, "values": values })).collect();
    json!({
        "name": figure.name, "title": figure.title, "paper": figure.paper, "assumes": figure.assumes,
        "columns": figure.columns, "rows": rows,
    })
}

fn table(figure: &Figure) -> String {
    let mut text =
        format!("{}: {}\n  assumes: {}\n  authors: {}\n", figure.name, figure.title, figure.assumes, figure.paper);
    let width = figure.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    text += &format!("  {:width$}", "");
    figure.columns.iter().for_each(|column| text += &format!("  {column:>12}"));
    for (name, values) in &figure.rows {
        text += &format!("\n  {name:width$}");
        for (value, column) in values.iter().zip(&figure.columns) {
            let columns = column.chars().count().max(12);
            text += &format!("  {value:>columns$.2}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_words_are_refused() {
        for words in ["", "lane", "lanes", "lanes --figure none", "lanes --all --seed x", "lanes --all more"] {
            let words = std::iter::once("lab").chain(words.split_whitespace());
            assert!(Lab::try_parse_from(words).is_err());
        }
        assert!(Lab::try_parse_from(["lab", "lanes", "--all", "--json"]).is_ok());
    }

    #[test]
    fn tables_that_are_not_there_are_told() {
        let words = ["lab", "lanes", "--figure", "pt2pt", "--tables", "/no/file"];
        let What::Lanes(lanes) = Lab::try_parse_from(words).ok().unwrap().what else { panic!("it is lanes") };
        assert!(run(&lanes).unwrap_err().starts_with("/no/file: "));
    }
}
