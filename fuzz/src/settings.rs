//! The texts of settings: a value that a user can read back, or none.

use crate::input::Input;
use base::config::{Value, nearest};
use channel::tcp::listen_at::ports_of;
use launch::cli::{bind_to, seconds};
use launch::settings::check_name;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let what = input.byte() % 6;
    let text = &*String::from_utf8_lossy(input.rest());
    match what {
        0 => {
            if let Some(value) = u64::parse(text) {
                assert_eq!(u64::parse(&value.to_string()), Some(value));
                assert!(text.starts_with(|c: char| c.is_ascii_digit() || c == '+'), "{text:?} is no size");
            }
        }
        1 => {
            if let Some(value) = f64::parse(text) {
                assert!(value.is_finite() && f64::parse(&value.to_string()) == Some(value));
            }
        }
        2 => {
            let _ = (bool::parse(text), bind_to(text));
            if let Ok(value) = seconds(text) {
                // What the launcher does with it must not panic.
                let _ = std::time::Duration::from_secs_f64(value);
            }
        }
        3 => {
            if let Ok(ports) = ports_of(text) {
                assert!(ports.start() <= ports.end());
            }
        }
        4 => {
            let _ = check_name(text);
        }
        _ => {
            let known = ["RING_BYTES", "LOCALITY", "é"];
            let found = nearest(text, known.into_iter());
            assert!(!known.contains(&text) || found == Some(text));
        }
    }
}
