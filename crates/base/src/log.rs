//! The log: one line on stderr, `ferrule[rank@host]: level: text`, written with a single `write`.
//!
//! Lower case, exact cause, errno, peer, and the setting to look at. The data path never logs on success.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// How important a line is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// The job cannot go on.
    Error = 1,
    /// Something is wrong, the job goes on.
    Warn = 2,
    /// What an operator may want to know.
    Info = 3,
    /// What a developer may want to know.
    Debug = 4,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);
static PREFIX: OnceLock<String> = OnceLock::new();

/// Sets what is shown; called once from the settings.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Shows nothing: for programs that write rubbish to this process on purpose.
pub fn set_silent() {
    LEVEL.store(0, Ordering::Relaxed);
}

/// Sets what is shown by name (`error`, `warn`, `info`, `debug`); false if there is no such level.
pub fn set_level_named(name: &str) -> bool {
    let level = match name {
        "error" => Level::Error,
        "warn" | "warning" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        _ => return false,
    };
    set_level(level);
    true
}

/// Names this process in every line, for example `3@node7`. The first call wins.
pub fn set_prefix(prefix: String) {
    let _ = PREFIX.set(prefix);
}

/// Whether a line of `level` would be shown.
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line; use [`log!`](crate::log!).
pub fn write(level: Level, text: std::fmt::Arguments<'_>) {
    let who = PREFIX.get().map_or("-", String::as_str);
    let level = match level {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
    };
    let line = format!("ferrule[{who}]: {level}: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// `log!(Warn, "connect to {peer}: {errno}")`
#[macro_export]
macro_rules! log {
    ($level:ident, $($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::write($crate::log::Level::$level, format_args!($($arg)*));
        }
    };
}
