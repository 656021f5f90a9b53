//! The command line of `ferrule startup`.

use clap::Parser;
use netsim::startup::Scheme;
use std::path::PathBuf;

/// Compares ways to start a job, on hosts emulated by network namespaces, and launchers on this host; fits models and predicts.
#[derive(Parser, Clone, Debug)]
#[command(name = "ferrule startup", disable_version_flag = true)]
pub struct Options {
    /// Ranks of the measured jobs
    #[arg(long, overrides_with = "ranks", value_delimiter = ',', value_name = "N,N", default_value = "2,4,8,16,32,64,128", value_parser = ranks)]
    pub ranks: Vec<usize>,
    /// Ranks on each emulated host
    #[arg(long, value_name = "N", default_value = "2", value_parser = ranks)]
    pub ranks_per_host: usize,
    /// Schemes: original, dr, bc, mpd-bc, tree, hypercube, lazy; or all, or none
    #[arg(long, overrides_with = "schemes", value_delimiter = ',', value_name = "A,B", default_value = "all", value_parser = schemes)]
    pub schemes: Vec<Schemes>,
    /// What opening a session on another host takes, besides its work (as ssh's handshake does)
    #[arg(long, overrides_with = "session_ms", value_delimiter = ',', value_name = "MS,MS", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub session_ms: Vec<u32>,
    /// Connections in MPI_Init: demand (none) or all
    #[arg(long, overrides_with = "connect", value_delimiter = ',', value_name = "A,B", default_value = "demand", value_parser = ["demand", "all"])]
    pub connect: Vec<String>,
    /// Rate of the emulated hosts' links, as tc writes it, or none
    #[arg(long, value_name = "RATE", default_value = "1gbit", value_parser = rate)]
    pub rate: String,
    /// Agents that one agent starts
    #[arg(long, value_name = "K", default_value = "16", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub tree_width: u32,
    /// How often each point is measured; schemes, or launchers, take turns
    #[arg(long, value_name = "N", default_value = "3", value_parser = ranks)]
    pub repeats: usize,
    /// Ranks for the comparison of launchers on this host, or 0 for none
    #[arg(long, overrides_with = "local_ranks", value_delimiter = ',', value_name = "N,N", default_value = "1,2,4,8,16,32,64,128", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub local_ranks: Vec<u32>,
    /// Another launcher: its mpiexec, or a command with {n} in it that runs an empty MPI program
    #[arg(long = "peer", value_name = "NAME=MPIEXEC", value_parser = peer)]
    pub peers: Vec<(String, String)>,
    /// Start so many sleeping ranks on this host and measure the memory of mpiexec and its agent
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub sleepers: u32,
    /// Fit models to what was measured and predict up to 1,048,576 ranks
    #[arg(long)]
    pub predict: bool,
    /// Measure nothing: read this file
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write results here (JSON), after each point
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// An MPI program that does nothing; without it one is compiled by the mpicc beside this program
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// The longest that one job may take
    #[arg(long, value_name = "S", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Begin no new point after so many seconds
    #[arg(long, value_name = "S", default_value = "86400")]
    pub budget: u64,
}

/// A word of `--schemes`.
#[derive(Clone, Copy, Debug)]
pub enum Schemes {
    /// All of them.
    All,
    /// None.
    None,
    /// This one.
    One(Scheme),
}

impl Options {
    /// The schemes to measure, each once.
    pub fn chosen(&self) -> Vec<Scheme> {
        let wanted = |scheme: &Scheme| {
            self.schemes.iter().any(|word| match word {
                Schemes::All => true,
                Schemes::None => false,
                Schemes::One(one) => one == scheme,
            })
        };
        Scheme::ALL.into_iter().filter(wanted).collect()
    }

    /// How many hosts the largest job needs.
    pub fn hosts_max(&self) -> usize {
        self.ranks.iter().map(|n| n.div_ceil(self.ranks_per_host)).max().unwrap_or(0)
    }
}

fn ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=8192).contains(&n) => Ok(n),
        _ => Err("a number between 1 and 8192 is wanted".into()),
    }
}

fn schemes(text: &str) -> Result<Schemes, String> {
    match text {
        "all" => Ok(Schemes::All),
        "none" => Ok(Schemes::None),
        _ => Scheme::named(text).map(Schemes::One).ok_or_else(|| {
            let names: Vec<&str> = Scheme::ALL.iter().map(|s| s.name()).collect();
            format!("there is no such scheme; there are {}", names.join(", "))
        }),
    }
}

fn rate(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let sound = text == "none" || digits.parse::<f64>().is_ok_and(|r| r > 0.0 && digits.len() < text.len());
    if sound { Ok(text.into()) } else { Err("a rate such as 100mbit or 1gbit, or none, is wanted".into()) }
}

fn peer(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, command)) if !name.trim().is_empty() && !command.trim().is_empty() => {
            Ok((name.trim().into(), command.trim().into()))
        }
        _ => Err("NAME=MPIEXEC is wanted".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("startup").chain(words.split_whitespace()))
    }

    #[test]
    fn defaults_measure_all_schemes_up_to_64_hosts() {
        let options = parse("").unwrap();
        assert_eq!((options.chosen().len(), options.hosts_max(), options.repeats), (7, 64, 3));
    }

    #[test]
    fn lists_are_read() {
        let options =
            parse("--ranks 2,4 --schemes lazy,dr --session-ms 0,100 --peer A=/x/mpiexec --rate none").unwrap();
        assert_eq!(options.chosen(), [Scheme::Dr, Scheme::Lazy]);
        assert_eq!((options.ranks, options.session_ms), (vec![2, 4], vec![0, 100]));
        assert_eq!(options.peers, [("A".to_string(), "/x/mpiexec".to_string())]);
        assert_eq!(parse("--ranks 2,4 --ranks 8").unwrap().ranks, [8], "the last word counts");
        assert!(parse("--schemes none").unwrap().chosen().is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--ranks 0",
            "--ranks x",
            "--schemes fast",
            "--rate quick",
            "--rate 5",
            "--peer X",
            "--connect some",
            "more",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
