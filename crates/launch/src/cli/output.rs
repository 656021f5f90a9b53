//! Files for the ranks' output: Hydra's patterns, and `--output-filename` in the words of Open MPI.

use super::Options;
use std::path::{Path, PathBuf};

/// Where the output of each rank is written, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDirectory {
    path: PathBuf,
    /// mpiexec shows the output as well.
    pub copy: bool,
}

impl OutputDirectory {
    /// Reads `DIR`, `DIR:nocopy`, `DIR:nojobid` and `DIR:nocopy,nojobid`. A directory with a colon in its last part is written with `/` at its end.
    pub(super) fn parse(shown: &str, text: &str) -> Result<OutputDirectory, String> {
        let (path, words) = text.rsplit_once(':').filter(|(_, words)| !words.contains('/')).unwrap_or((text, ""));
        if path.is_empty() {
            return Err(format!("{shown} needs a directory, not '{text}'"));
        }
        // A job of mpiexec has one number only, as in Open MPI.
        let mut to = OutputDirectory { path: Path::new(path).join("1"), copy: true };
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word {
                "nocopy" => to.copy = false,
                "nojobid" => to.path = path.into(),
                _ => return Err(format!("{shown}: '{word}' after the colon is neither nocopy nor nojobid")),
            }
        }
        Ok(to)
    }

    /// The directory of a rank; names of ranks are equally long, so that they are listed in order.
    pub fn of_rank(&self, rank: u32, ranks: usize) -> PathBuf {
        let width = ranks.saturating_sub(1).to_string().len();
        self.path.join(format!("rank.{rank:0width$}"))
    }
}

/// Reads `--output`: a directory for the output of each rank, marks before its lines, and words that only change how it looks.
pub(super) fn words(shown: &str, text: &str, options: &mut Options) -> Result<(), String> {
    let (words, qualifiers) = text.split_once(':').unwrap_or((text, ""));
    let lower = words.to_ascii_lowercase();
    if !qualifiers.is_empty() && !lower.split(',').any(|word| word.starts_with("dir=")) {
        options.warnings.push(format!("option {shown} :{qualifiers} is ignored without dir="));
    }
    for (word, low) in words.split(',').zip(lower.split(',')) {
        match low {
            "tag" | "rank" => options.tag = true,
            _ if low.starts_with("dir=") => {
                options.output_directory = Some(OutputDirectory::parse(
                    shown,
                    &format!("{}:{}", &word[4..], qualifiers.to_ascii_lowercase()),
                )?);
            }
            _ if low.starts_with("file=") => {
                return Err(format!(
                    "{shown} {word} is not supported: use --output-filename, or --outfile-pattern and --errfile-pattern"
                ));
            }
            _ if low.starts_with("merge") => {
                return Err(format!(
                    "{shown} {word} is not supported: give both patterns (--outfile-pattern, --errfile-pattern) the same file, or use 2>&1"
                ));
            }
            _ => options.warnings.push(format!("option {shown} {word} is ignored")),
        }
    }
    Ok(())
}

/// Reads a pattern of file names; `head::files` puts in what its letters stand for.
pub(super) fn pattern(shown: &str, text: &str) -> Result<String, String> {
    let mut letters = text.chars();
    while letters.by_ref().any(|letter| letter == '%') {
        match letters.next() {
            Some('r' | 'h' | 'p' | 'g' | 't' | '%') => {}
            other => {
                let found: String = other.into_iter().collect();
                return Err(format!("{shown} knows %r, %h, %p, %g, %t and %%, not '%{found}' in '{text}'"));
            }
        }
    }
    Ok(text.into())
}

/// Output goes to files in one way only.
pub(super) fn check(options: &Options) -> Result<(), String> {
    if options.output_directory.is_some() && options.file_patterns.iter().any(Option::is_some) {
        return Err("--output-filename doesn't go together with --outfile-pattern or --errfile-pattern".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of(text: &str, ranks: usize) -> Result<(String, bool), String> {
        let to = OutputDirectory::parse("--output-filename", text)?;
        Ok((to.of_rank(3, ranks).display().to_string(), to.copy))
    }

    #[test]
    fn unknown_letters_of_a_pattern_are_named() {
        assert_eq!(pattern("-o", "%%%r-%h.%p.%g.%t").unwrap(), "%%%r-%h.%p.%g.%t");
        assert!(pattern("-o", "a%d").unwrap_err().contains("'%d' in 'a%d'"));
        assert!(pattern("-o", "%%%").unwrap_err().contains("'%'"));
    }

    #[test]
    fn words_about_output_are_obeyed_or_told() {
        let read = |text: &str| {
            let mut options = Options::default();
            words("--output", text, &mut options)
                .map(|()| (options.tag, options.output_directory, options.warnings.len()))
        };
        let to = OutputDirectory { path: "D/1".into(), copy: false };
        assert_eq!(read("TAG,dir=D:NOCOPY"), Ok((true, Some(to), 0)));
        assert_eq!(read("tag:nocopy"), Ok((true, None, 1)));
        assert_eq!(read("timestamp"), Ok((false, None, 1)));
        for wrong in ["merge", "file=f", "dir=", "dir=d:nocpy"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directories_and_their_words_are_read() {
        assert_eq!(rank_of("d", 4), Ok(("d/1/rank.3".into(), true)));
        assert_eq!(rank_of("d", 10), Ok(("d/1/rank.3".into(), true)));
        assert_eq!(rank_of("/a/d:nocopy", 11), Ok(("/a/d/1/rank.03".into(), false)));
        assert_eq!(rank_of("d:nojobid,nocopy", 4), Ok(("d/rank.3".into(), false)));
        assert_eq!(rank_of("10:30/d", 4), Ok(("10:30/d/1/rank.3".into(), true)));
        assert_eq!(rank_of("10:30/", 4), Ok(("10:30/1/rank.3".into(), true)));
        for wrong in ["", ":nocopy", "d:nocpy", "10:30"] {
            assert!(rank_of(wrong, 4).is_err(), "{wrong}");
        }
    }
}
