//! Files that get the ranks' output: `--outfile-pattern`, `--errfile-pattern` and `--output-filename`.

use crate::cli::{Options, OutputDirectory};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The names of the two streams' files in a rank's directory.
const NAMES: [&str; 2] = ["stdout", "stderr"];

/// A stream of a rank.
pub struct Source<'a> {
    pub rank: u32,
    /// Of the job.
    pub ranks: usize,
    pub host: &'a str,
    pub node: u32,
    /// Standard error, not standard output.
    pub is_second: bool,
}

/// The files, opened at the first byte.
#[derive(Default)]
pub struct OutputFiles {
    open: HashMap<(u32, bool), Option<File>>,
}

impl OutputFiles {
    /// Makes the files of `--output-filename`, all of them empty: a directory that can't be written is an error before the job begins.
    pub fn begin(options: &Options, ranks: usize) -> Result<OutputFiles, String> {
        if let Some(to) = &options.output_directory {
            (0..ranks as u32).try_for_each(|rank| make_empty(to, rank, ranks))?;
        }
        Ok(OutputFiles::default())
    }

    /// Writes output to its file, if there is one. Says whether mpiexec doesn't show it.
    pub fn take(&mut self, options: &Options, source: &Source<'_>, bytes: &[u8]) -> bool {
        if let Some(to) = &options.output_directory {
            let name = NAMES[usize::from(source.is_second)];
            self.write(source, bytes, || to.of_rank(source.rank, source.ranks).join(name));
            return !to.copy;
        }
        let Some(pattern) = &options.file_patterns[usize::from(source.is_second)] else { return false };
        self.write(source, bytes, || expand(pattern, source).into());
        true
    }

    fn write(&mut self, source: &Source<'_>, bytes: &[u8], path: impl FnOnce() -> PathBuf) {
        let file = self.open.entry((source.rank, source.is_second)).or_insert_with(|| {
            let path = path();
            // Several ranks may share a file.
            match File::options().create(true).append(true).open(&path) {
                Ok(file) => Some(file),
                Err(e) => {
                    eprintln!("mpiexec: cannot open {}: {e}", path.display());
                    None
                }
            }
        });
        if let Some(file) = file
            && let Err(e) = file.write_all(bytes)
        {
            eprintln!("mpiexec: cannot write output of rank {}: {e}", source.rank);
        }
    }
}

/// The file of a pattern. `cli` refuses unknown letters.
fn expand(pattern: &str, source: &Source<'_>) -> String {
    let (mut out, mut letters) = (String::new(), pattern.chars());
    while let Some(letter) = letters.next() {
        match if letter == '%' { letters.next() } else { None } {
            Some('r') => out.push_str(&source.rank.to_string()),
            Some('h') => out.push_str(source.host),
            Some('p') => out.push_str(&source.node.to_string()),
            // Hydra's process group: a job is one.
            Some('g') => out.push('0'),
            Some('t') => {
                let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                out.push_str(&seconds.to_string());
            }
            _ => out.push(letter),
        }
    }
    out
}

fn make_empty(to: &OutputDirectory, rank: u32, ranks: usize) -> Result<(), String> {
    let directory = to.of_rank(rank, ranks);
    let wrong = |e| format!("--output-filename: cannot write {}: {e}", directory.display());
    std::fs::create_dir_all(&directory).map_err(wrong)?;
    NAMES.iter().try_for_each(|name| File::create(directory.join(name)).map(drop).map_err(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_a_pattern_are_replaced_once() {
        let source = Source { rank: 7, ranks: 8, host: "a%rb", node: 2, is_second: false };
        assert_eq!(expand("%r.%h.%p.%g", &source), "7.a%rb.2.0");
        assert_eq!(expand("%%r", &source), "%r");
        assert!(expand("%t", &source).parse::<u64>().unwrap() > 1_600_000_000);
    }
}
