//! Words that this project has replaced by the field's terms (STYLE.md, "Words"): neither names nor comments use them.
//!
//! A word counts wherever it is part of a name: `card` in `own_card`, `CardTable` and "a card", not in `wildcard`. Literals don't count, as
//! options, formats and messages may keep an older word.

use std::path::Path;

/// A word, and what is written instead.
const INSTEAD: &[(&str, &str)] = &[
    ("card", "endpoint address"),
    ("guardian", "reaper"),
    ("keeper", "container supervisor"),
    ("porch", "rank listener"),
    ("desk", "server"),
];

/// Files that must name a word, because somebody else's format does.
const FOREIGN: &[(&str, &str)] = &[];

/// The lines of a Rust source that use such a word, with what to write instead.
pub fn complaints(path: &Path, text: &str) -> Vec<(usize, String)> {
    let allowed = |word: &str| FOREIGN.iter().any(|(file, foreign)| path.ends_with(file) && *foreign == word);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let spoken = without_literals(line);
        for (word, instead) in INSTEAD.iter().filter(|(word, _)| !allowed(word)) {
            let plural = format!("{word}s");
            if parts(&spoken).any(|part| part == *word || part == plural) {
                found.push((number + 1, format!("\"{word}\": write \"{instead}\"")));
            }
        }
    }
    found
}

/// The line without what stands between quotes or back quotes: a word there is an option's or a format's.
fn without_literals(line: &str) -> String {
    let mut quote = None;
    let mut before = ' ';
    let mut kept = String::new();
    for c in line.chars() {
        match quote {
            None if matches!(c, '"' | '`') && before != '\'' => quote = Some(c),
            None => kept.push(c),
            Some(open) if c == open && before != '\\' => quote = None,
            Some(_) => {}
        }
        before = c;
    }
    kept
}

/// The words of a line in lower case; names are cut at `_` and where a capital begins.
fn parts(line: &str) -> impl Iterator<Item = String> {
    let mut all: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in line.chars() {
        let begins = !before.is_alphabetic() || (c.is_uppercase() && before.is_lowercase());
        if c.is_alphabetic() {
            if begins {
                all.push(String::new());
            }
            if let Some(last) = all.last_mut() {
                last.extend(c.to_lowercase());
            }
        }
        before = c;
    }
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        complaints(Path::new("crates/a/src/b.rs"), text).iter().map(|c| c.0).collect()
    }

    #[test]
    fn a_word_counts_as_a_part_of_names_and_in_comments() {
        assert_eq!(lines("let own_card = 1;\nstruct CardTable;\n// all cards\nconst CARD_MAX: u8 = 1;"), [1, 2, 3, 4]);
    }

    #[test]
    fn longer_words_and_literals_do_not_count() {
        assert_eq!(lines("wildcard, discards\nlet x = \"--keeper\"; // the option `--keeper`\nlet q = '\"';"), []);
    }

    #[test]
    fn what_follows_a_literal_counts() {
        assert_eq!(lines("f(\"x \\\" y\", card)"), [1]);
    }
}
