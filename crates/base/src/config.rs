//! Settings. One [`config!`](crate::config!) table per module declares name, type, default, unit, range and doc of each
//! setting; the environment (`FERRULE_<NAME>`), `mpiexec --set`, `ferrule info --config` and the docs page all read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What kind of value a setting has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// On or off.
    Switch,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// A text.
    Text,
}

/// Why a setting can't be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has been read, so it is in force.
    InForce,
    /// There is no such value.
    NoSuchValue,
}

/// A type that a setting can have.
pub trait Value: Copy + PartialOrd + std::fmt::Display + 'static {
    /// The kind of it.
    const KIND: Kind;
    /// Reads the text of the environment or the command line.
    fn parse(text: &str) -> Option<Self>;
}

impl Value for bool {
    const KIND: Kind = Kind::Switch;
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
    const KIND: Kind = Kind::Whole;
    fn parse(text: &str) -> Option<u64> {
        parse_size(text)
    }
}

impl Value for f64 {
    const KIND: Kind = Kind::Real;
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
    /// What kind of value it is.
    pub kind: Kind,
    /// The value that it has or would have, which does not become the one in force by that.
    pub peek: fn() -> String,
    /// Sets it, unless it is in force already.
    pub set: fn(&str) -> Result<(), Refused>,
}

/// A typed setting; read with [`Var::value`].
pub struct Var<T: Value> {
    name: &'static str,
    default: T,
    min: T,
    max: T,
    /// What the program has set.
    written: Mutex<Option<T>>,
    read: OnceLock<(T, bool)>,
}

impl<T: Value> Var<T> {
    /// Used by [`config!`](crate::config!).
    pub const fn new(name: &'static str, default: T, min: T, max: T) -> Var<T> {
        Var { name, default, min, max, written: Mutex::new(None), read: OnceLock::new() }
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
        *self.read.get_or_init(|| self.would_read())
    }

    fn would_read(&self) -> (T, bool) {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.map_or_else(|| self.parse(variable(self.name).as_deref()), |value| (value, true))
    }

    /// See [`Meta::peek`].
    pub fn peek(&self) -> T {
        self.read.get().copied().unwrap_or_else(|| self.would_read()).0
    }

    /// See [`Meta::set`].
    pub fn set(&self, text: &str) -> Result<(), Refused> {
        let value = T::parse(text.trim()).filter(|v| *v >= self.min && *v <= self.max).ok_or(Refused::NoSuchValue)?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.read.get().is_some() {
            return Err(Refused::InForce);
        }
        *written = Some(value);
        Ok(())
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
    /// What the program has set.
    written: Mutex<Option<String>>,
    read: OnceLock<(String, bool)>,
}

impl Text {
    /// Used by [`config!`](crate::config!).
    pub const fn new(name: &'static str, default: &'static str) -> Text {
        Text { name, default, written: Mutex::new(None), read: OnceLock::new() }
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
        self.read.get_or_init(|| self.would_read())
    }

    fn would_read(&self) -> (String, bool) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match written.or_else(|| variable(self.name)) {
            Some(text) => (text, true),
            None => (self.default.to_string(), false),
        }
    }

    /// See [`Meta::peek`].
    pub fn peek(&self) -> String {
        self.read.get().cloned().unwrap_or_else(|| self.would_read()).0
    }

    /// See [`Meta::set`].
    pub fn set(&self, text: &str) -> Result<(), Refused> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.read.get().is_some() {
            return Err(Refused::InForce);
        }
        *written = Some(text.to_string());
        Ok(())
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
            kind: $crate::config::Kind::Text, peek: || $name.peek(), set: |text| $name.set(text),
        }
    };
    (@meta [$($doc:literal)+] $name:ident $ty:tt $default:expr $(, $min:expr, $max:expr, $unit:literal)?) => {
        $crate::config::Meta {
            name: stringify!($name), doc: concat!($($doc),+), unit: concat!($($unit)?),
            default: || $name.default_text(), range: || $name.range_text(),
            current: || { let (v, set) = $name.read(); (v.to_string(), set) },
            kind: <$ty as $crate::config::Value>::KIND, peek: || $name.peek().to_string(), set: |text| $name.set(text),
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
        /// A size that is set.
        TEST_SET: u64 = 64, 1..=1024, "bytes";
    }

    #[test]
    fn a_setting_can_be_set_until_somebody_has_read_it() {
        let meta = TABLE.iter().find(|meta| meta.name == "TEST_SET").expect("it is there");
        assert_eq!(((meta.peek)(), meta.kind), ("64".into(), Kind::Whole));
        assert_eq!((meta.set)("2000"), Err(Refused::NoSuchValue));
        assert_eq!(((meta.set)("128"), (meta.set)("256")), (Ok(()), Ok(())));
        assert_eq!(((meta.peek)(), TEST_SET.read()), ("256".into(), (256, true)));
        assert_eq!((meta.set)("512"), Err(Refused::InForce));
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
        assert_eq!(TABLE.len(), 4);
        assert_eq!((TABLE[0].default)(), "64");
    }

    #[test]
    fn misspelt_names_are_recognised() {
        assert_eq!(nearest("RING_BYTE", ["RING_BYTES", "LOCALITY"].into_iter()), Some("RING_BYTES"));
        assert_eq!(nearest("ZZZ", ["RING_BYTES"].into_iter()), None);
    }
}
