//! Slurm's host lists and lists of counts: refused with the place of the error, or few enough sound names.

use crate::input::Input;
use launch::alloc::hostlist::{HOSTS_MAX, counts, expand};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (of_counts, hosts) = (input.flag(), input.word() as usize % 5000);
    let text = String::from_utf8_lossy(input.rest());
    if of_counts {
        match counts(&text, hosts) {
            Ok(all) => assert!(all.len() == hosts && all.iter().all(|n| *n > 0)),
            Err(why) => assert!(!why.is_empty()),
        }
        return;
    }
    match expand(&text) {
        Ok(names) => {
            assert!(!names.is_empty() && names.len() <= HOSTS_MAX);
            let sound = |name: &String| {
                !name.is_empty()
                    && !name.starts_with('-')
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            };
            assert!(names.iter().all(sound));
        }
        Err(why) => assert!(why.contains("character") && why.len() < 500),
    }
}
