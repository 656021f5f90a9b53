//! Settings. One [`config!`](crate::config!) table per module declares name, type, default, unit, range and doc of each
//! setting; the environment (`FERRULE_<NAME>`), `mpiexec --set`, `ferrule info --config` and the docs page all read it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A type that a setting can have.
pub trait Value: Copy + PartialOrd + std::fmt::Display + 'static {
    /// Reads the text of the environment or the command line.
    fn parse(text: &str) -> Option<Self>;
}

impl Value for bool {
    fn parse(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }
}

/// Reads `64`, `64K`, `1M`, `2G` (binary multiples).
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches(['i', 'b'].as_slice()) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Value for u64 {
    fn parse(text: &str) -> Option<u64> {
        parse_size(text)
    }
}

impl Value for f64 {
    fn parse(text: &str) -> Option<f64> {
        text.parse().ok().filter(|v: &f64| v.is_finite())
    }
}

/// What the documentation says of one setting.
pub struct Meta {
    /// Name without the `FERRULE_` prefix, upper case.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Unit of the value, or the empty string.
    pub unit: &'static str,
    /// The default, as text.
    pub default: fn() -> String,
    /// The allowed values, as text.
    pub range: fn() -> String,
    /// The value in force and where it came from.
    pub current: fn() -> (String, bool),
}

/// A typed setting; read with [`Var::value`].
pub struct Var<T: Value> {
    name: &'static str,
    default: T,
    min: T,
    max: T,
    read: OnceLock<(T, bool)>,
}

impl<T: Value> Var<T> {
    /// Used by [`config!`](crate::config!).
    pub const fn new(name: &'static str, default: T, min: T, max: T) -> Var<T> {
        Var { name, default, min, max, read: OnceLock::new() }
    }

    /// The value in force. A value out of range or unreadable is reported once and the default is used.
    pub fn value(&self) -> T {
        self.read().0
    }

    /// The value among `settings`, names and texts that somebody else has given; the default if there is none.
    pub fn among(&self, settings: &[(String, String)]) -> T {
        self.parse(find(self.name, settings)).0
    }

    /// Default as text.
    pub fn default_text(&self) -> String {
        self.default.to_string()
    }

    /// Range as text.
    pub fn range_text(&self) -> String {
        format!("{}..={}", self.min, self.max)
    }

    /// The value in force and whether somebody set it.
    pub fn read(&self) -> (T, bool) {
        *self.read.get_or_init(|| self.parse(variable(self.name).as_deref()))
    }

    /// The value that a text says, and whether it says one.
    fn parse(&self, text: Option<&str>) -> (T, bool) {
        let Some(text) = text else { return (self.default, false) };
        match T::parse(text.trim()) {
            Some(v) if v >= self.min && v <= self.max => (v, true),
            _ => {
                let Var { name, default, min, max, .. } = self;
                crate::log!(Warn, "FERRULE_{name}={text} is not in {min}..={max}; using {default}");
                (*default, false)
            }
        }
    }
}

/// Whether the environment is ignored.
static IGNORED: AtomicBool = AtomicBool::new(false);

/// From now on settings that nobody has read yet have their defaults, whatever the environment says: it may come from an attacker.
pub fn ignore_environment() {
    IGNORED.store(true, Ordering::Relaxed);
}

/// What the environment says of a setting. A variable that is set and empty counts as unset.
fn variable(name: &str) -> Option<String> {
    if IGNORED.load(Ordering::Relaxed) {
        return None;
    }
    std::env::var(format!("FERRULE_{name}")).ok().filter(|text| !text.trim().is_empty())
}

/// The text of a setting among others; an empty one counts as none.
fn find<'a>(name: &str, settings: &'a [(String, String)]) -> Option<&'a str> {
    let (_, text) = settings.iter().find(|(other, _)| other == name)?;
    Some(text.as_str()).filter(|text| !text.trim().is_empty())
}

/// A setting whose value is text; read with [`Text::value`].
pub struct Text {
    name: &'static str,
    default: &'static str,
    read: OnceLock<(String, bool)>,
}

impl Text {
    /// Used by [`config!`](crate::config!).
    pub const fn new(name: &'static str, default: &'static str) -> Text {
        Text { name, default, read: OnceLock::new() }
    }

    /// The value in force.
    pub fn value(&self) -> &str {
        &self.read().0
    }

    /// As [`Var::among`].
    pub fn among<'a>(&'a self, settings: &'a [(String, String)]) -> &'a str {
        find(self.name, settings).unwrap_or(self.default)
    }

    /// The value in force and whether somebody set it.
    pub fn read(&self) -> &(String, bool) {
        self.read.get_or_init(|| match variable(self.name) {
            Some(text) => (text, true),
            None => (self.default.to_string(), false),
        })
    }
}

/// Declares the settings of a module:
///
/// ```
/// base::config! {
///     /// Size of one ring.
///     RING_BYTES: u64 = 65536, 4096..=1048576, "bytes";
///     /// Which localities are used: off, host or auto.
///     LOCALITY: text = "auto";
/// }
/// assert_eq!(RING_BYTES.value(), 65536);
/// ```
/// `TABLE` lists them.
#[macro_export]
macro_rules! config {
    ($($(#[doc = $doc:literal])+ $name:ident : $ty:tt = $default:expr $(, $min:literal ..= $max:literal, $unit:literal)?;)*) => {
        $($crate::config!(@var $(#[doc = $doc])+ $name $ty $default $(, $min, $max)?);)*
        /// The settings of this module.
        pub static TABLE: &[$crate::config::Meta] = &[$($crate::config!(@meta [$($doc)+] $name $ty $default $(, $min, $max, $unit)?)),*];
    };
    (@var $(#[doc = $doc:literal])+ $name:ident text $default:expr) => {
        $(#[doc = $doc])+ pub static $name: $crate::config::Text = $crate::config::Text::new(stringify!($name), $default);
    };
    (@var $(#[doc = $doc:literal])+ $name:ident bool $default:expr) => {
        $(#[doc = $doc])+ pub static $name: $crate::config::Var<bool> =
            $crate::config::Var::new(stringify!($name), $default, false, true);
    };
    (@var $(#[doc = $doc:literal])+ $name:ident $ty:tt $default:expr, $min:expr, $max:expr) => {
        $(#[doc = $doc])+ pub static $name: $crate::config::Var<$ty> =
            $crate::config::Var::new(stringify!($name), $default, $min, $max);
    };
    (@meta [$($doc:literal)+] $name:ident text $default:expr) => {
        $crate::config::Meta {
            name: stringify!($name), doc: concat!($($doc),+), unit: "",
            default: || $default.to_string(), range: || String::from("text"), current: || $name.read().clone(),
        }
    };
    (@meta [$($doc:literal)+] $name:ident $ty:tt $default:expr $(, $min:expr, $max:expr, $unit:literal)?) => {
        $crate::config::Meta {
            name: stringify!($name), doc: concat!($($doc),+), unit: concat!($($unit)?),
            default: || $name.default_text(), range: || $name.range_text(),
            current: || { let (v, set) = $name.read(); (v.to_string(), set) },
        }
    };
}

/// Settings that have another name now: old and new.
pub const RENAMED: &[(&str, &str)] = &[
    ("CROWDED", "OVERSUBSCRIBED"),
    ("YIELD_CROWDED_US", "YIELD_OVERSUBSCRIBED_US"),
    ("CELLS_FLOOD", "BURST_BYTES"),
    ("TCP_CONNECTIONS", "LANES"),
];

/// The known name nearest to `unknown`, for the warning about a misspelt variable.
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.map(|k| (distance(unknown, k), k)).min().filter(|(d, k)| *d <= k.len() / 3 + 1).map(|(_, k)| k)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.bytes().enumerate() {
            let cost = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::config! {
        /// A size.
        TEST_SIZE: u64 = 64, 1..=1024, "bytes";
        /// A switch.
        TEST_SWITCH: bool = true;
        /// A text.
        TEST_TEXT: text = "auto";
    }

    #[test]
    fn sizes_are_read_with_binary_suffixes() {
        assert_eq!(u64::parse("64K"), Some(65536));
        assert_eq!(u64::parse("1MiB"), Some(1 << 20));
        assert_eq!(u64::parse("x"), None);
        assert_eq!(u64::parse("99999999999G"), None);
    }

    #[test]
    fn table_tells_defaults() {
        assert_eq!(TEST_SIZE.value(), 64);
        assert!(TEST_SWITCH.value());
        assert_eq!(TEST_TEXT.value(), "auto");
        assert_eq!(TABLE.len(), 3);
        assert_eq!((TABLE[0].default)(), "64");
    }

    #[test]
    fn misspelt_names_are_recognised() {
        assert_eq!(nearest("RING_BYTE", ["RING_BYTES", "LOCALITY"].into_iter()), Some("RING_BYTES"));
        assert_eq!(nearest("ZZZ", ["RING_BYTES"].into_iter()), None);
    }
}
