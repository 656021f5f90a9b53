//! The command line: any words give an error of one sentence, or options that can be placed on hosts.

use crate::input::Input;
use launch::cli::table::{self, Kind};
use launch::cli::{Command, Options, parse};
use launch::place::place;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Ranks that are placed at most; more would only take longer.
const RANKS_MAX: usize = 5000;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut words = Vec::new();
    while !input.is_empty() && words.len() < 200 {
        let word = match input.byte() {
            // An option by its number, so that the table need not be guessed.
            0x80.. => {
                let spelling = &table::TABLE[input.below(table::TABLE.len())];
                format!("--{}", spelling.names[input.below(spelling.names.len())]).into_bytes()
            }
            n => input.bytes(usize::from(n % 32)).to_vec(),
        };
        if !names_a_file(&word) {
            words.push(OsString::from_vec(word));
        }
    }
    match parse(words.into_iter()) {
        Ok(Command::Run(options)) => check(&options),
        Ok(_) => {}
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Whether an option reads a file, which a target must not.
fn names_a_file(word: &[u8]) -> bool {
    let text = String::from_utf8_lossy(word);
    let name = text.trim_start_matches('-').split('=').next().unwrap_or("");
    table::find(name).is_some_and(|s| matches!(s.kind, Kind::HostFile | Kind::ConfigFile | Kind::RankFile))
        || text.to_ascii_lowercase().contains("rankfile")
}

fn check(options: &Options) {
    assert!(!options.apps.is_empty() && options.apps.iter().all(|app| !app.argv.is_empty()));
    let counted: usize = options.apps.iter().map(|app| app.count.unwrap_or(0) as usize).sum();
    let hosts = options.hosts.iter().chain(options.apps.iter().flat_map(|app| &app.hosts)).flatten();
    let slots: usize = hosts.map(|h| options.per_node.or(h.slots).unwrap_or(1) as usize).sum();
    if counted + slots * options.apps.len() + options.per_node.unwrap_or(0) as usize * options.apps.len() > RANKS_MAX {
        return;
    }
    let Ok(placement) = place(options, "here") else { return };
    assert!(placement.universe as usize >= placement.ranks.len());
    for &(host, app) in &placement.ranks {
        assert!((host as usize) < placement.hosts.len() && (app as usize) < options.apps.len());
    }
    for (number, app) in options.apps.iter().enumerate() {
        if let Some(count) = app.count {
            assert_eq!(placement.ranks.iter().filter(|rank| rank.1 as usize == number).count(), count as usize);
        }
    }
    for host in options.hosts.iter().flatten().filter(|_| options.apps.iter().all(|app| app.hosts.is_none())) {
        let used = placement.ranks.iter().filter(|rank| placement.hosts[rank.0 as usize] == host.name).count();
        assert!(host.max_slots.is_none_or(|max| used <= max as usize), "{host:?} has {used} ranks");
    }
}
