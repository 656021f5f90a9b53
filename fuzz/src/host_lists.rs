//! Host files and host lists: refused with a sentence, or hosts that are safe to give to a launcher.

use crate::input::Input;
use launch::cli::hostfile::{Host, parse_file, parse_list};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let as_file = input.flag();
    let text = String::from_utf8_lossy(input.rest());
    match if as_file { parse_file(&text) } else { parse_list(&text) } {
        Ok(hosts) => check(&hosts),
        Err(why) => assert!(!why.is_empty()),
    }
}

fn check(hosts: &[Host]) {
    assert!(!hosts.is_empty());
    for (at, host) in hosts.iter().enumerate() {
        let harmless = |c: char| !c.is_whitespace() && !c.is_control() && !"'\"`$;|&<>(){}\\".contains(c);
        assert!(!host.name.is_empty() && !host.name.starts_with('-') && host.name.chars().all(harmless), "{host:?}");
        assert!(host.slots != Some(0) && host.max_slots != Some(0), "{host:?}");
        assert!(hosts[..at].iter().all(|other| other.name != host.name), "{host:?} twice");
    }
}
