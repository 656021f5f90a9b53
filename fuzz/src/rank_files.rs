//! Rank files and rank maps: refused with a sentence that names the line, or places within the limits.

use crate::input::Input;
use launch::cli::RANKS_MAX;
use launch::cli::rankfile::{RankHost, parse, parse_map};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let as_file = input.flag();
    let text = String::from_utf8_lossy(input.rest());
    if as_file {
        check_file(&text);
    } else {
        match parse_map(&text) {
            Ok(map) => assert!(!map.is_empty() && map.len() <= RANKS_MAX as usize),
            Err(why) => assert!(why.starts_with("-rankmap: ")),
        }
    }
}

fn check_file(text: &str) {
    let ranks = match parse(text) {
        Ok(ranks) => ranks,
        Err(why) => return assert!(why.starts_with("line ") || why == "it places no rank", "{why}"),
    };
    let mut lines = std::collections::BTreeSet::new();
    for (rank, place) in &ranks {
        assert!(*rank < RANKS_MAX && lines.insert(place.line) && place.line <= text.lines().count());
        assert!(!place.cores.is_empty() && place.cores.iter().all(|range| range.first <= range.last), "{place:?}");
        if let RankHost::Named(name) = &place.host {
            let harmless = |c: char| !c.is_whitespace() && !c.is_control() && !"'\"`$;|&<>(){}\\".contains(c);
            assert!(!name.is_empty() && !name.starts_with('-') && name.chars().all(harmless), "{name}");
        }
    }
}
