//! How the packets of a class are marked: DSCP for switches, `SO_PRIORITY` for the queues of the own host (decision 0034).
//!
//! Only the sender marks, so processes of a job may mark differently. The default priorities are those that Linux's own queueing disciplines know
//! (`pfifo_fast`, `prio`, `mqprio`; tc-prio(8)): 6 leaves first, 2 leaves last, 0 is what all other traffic has.

use super::{Class, LANE_DSCP, LANE_PRIORITY};

/// Largest DSCP (RFC 2474).
pub const DSCP_MAX: u32 = 63;

/// What the kernel is told about a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// DSCP of its packets; `None` leaves it to the kernel.
    pub dscp: Option<u8>,
    /// `SO_PRIORITY`; `None` leaves it to the kernel.
    pub priority: Option<u32>,
}

/// The marks of all classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks {
    dscp: PerClass<u32>,
    priority: PerClass<u32>,
}

/// A setting that has a value for each class: nothing for any, or the values that differ from the defaults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PerClass<T> {
    /// `off`.
    Off,
    /// The values that it names.
    Except(Vec<(Class, T)>),
}

impl Marks {
    /// What the settings say.
    pub fn configured() -> Result<Marks, String> {
        Marks::parse(LANE_DSCP.value(), LANE_PRIORITY.value())
    }

    /// The marks of the texts of both settings.
    pub fn parse(dscp: &str, priority: &str) -> Result<Marks, String> {
        let number = |name, text, most| {
            let read = |text: &str| text.parse().ok().filter(|value| *value <= most);
            PerClass::parse(name, text, &format!("a number from 0 to {most}"), read)
        };
        let dscp = number("FERRULE_LANE_DSCP", dscp, DSCP_MAX)?;
        // SO_PRIORITY is an int.
        let priority = number("FERRULE_LANE_PRIORITY", priority, i32::MAX as u32)?;
        Ok(Marks { dscp, priority })
    }

    /// The mark of a class.
    pub fn of(&self, class: Class) -> Mark {
        let dscp = self.dscp.get_or(class, class.dscp().map(u32::from));
        Mark { dscp: dscp.map(|code| code as u8), priority: self.priority.get_or(class, Some(default_priority(class))) }
    }
}

/// As `tc-prio(8)` names them: interactive, interactive bulk, bulk; shares have no rank among each other.
fn default_priority(class: Class) -> u32 {
    match class {
        Class::Latency | Class::Control => 6,
        Class::Collectives | Class::PointToPoint => 4,
        Class::OneSided | Class::Share(_) => 0,
        Class::Offload | Class::Io | Class::Bulk => 2,
    }
}

impl<T: Copy> PerClass<T> {
    /// Reads `CLASS=VALUE,…` or `off`, the text of the setting `name`. `read` makes a value, which `form` describes.
    pub fn parse(name: &str, text: &str, form: &str, read: impl Fn(&str) -> Option<T>) -> Result<PerClass<T>, String> {
        if text.trim() == "off" {
            return Ok(PerClass::Off);
        }
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let mut found: Vec<(Class, T)> = Vec::new();
        for entry in entries {
            let wrong = |why: &str| format!("{name}={text}: {entry} {why}");
            let (class, value) = entry.split_once('=').ok_or_else(|| wrong("is not of the form CLASS=VALUE"))?;
            let class = Class::named(class.trim());
            let class = class.ok_or_else(|| wrong("names no class (ferrule info --lanes lists them)"))?;
            let value = read(value.trim()).ok_or_else(|| wrong(&format!("does not end in {form}")))?;
            if found.iter().any(|(other, _)| *other == class) {
                return Err(wrong("comes after another value for the class"));
            }
            found.push((class, value));
        }
        Ok(PerClass::Except(found))
    }

    /// What the setting says about a class.
    pub fn get(&self, class: Class) -> Option<T> {
        self.get_or(class, None)
    }

    /// What the setting says about a class; `default` if it doesn't name it and isn't `off`.
    pub fn get_or(&self, class: Class, default: Option<T>) -> Option<T> {
        match self {
            PerClass::Off => None,
            PerClass::Except(values) => {
                values.iter().find(|(other, _)| *other == class).map(|(_, value)| *value).or(default)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::LANES_MAX;

    #[test]
    fn defaults_are_distinct_and_fit() {
        let marks = Marks::parse("", "").unwrap();
        let mut seen = Vec::new();
        for class in Class::all() {
            let Mark { dscp: Some(dscp), priority: Some(priority) } = marks.of(class) else { panic!("{class}") };
            assert!(u32::from(dscp) <= DSCP_MAX && priority <= 6, "{class}");
            assert!(!seen.contains(&dscp), "{class}");
            seen.push(dscp);
            if let Class::Share(_) = class {
                assert_eq!(dscp & 3, 3, "the pool for local use");
            }
        }
        assert_eq!(seen.len(), LANES_MAX + 8);
        assert_eq!(Class::Share(16).dscp(), None);
    }

    #[test]
    fn settings_change_single_classes() {
        let marks = Marks::parse(" latency=10, share2 = 63,", "bulk=0").unwrap();
        assert_eq!(marks.of(Class::Latency), Mark { dscp: Some(10), priority: Some(6) });
        assert_eq!(marks.of(Class::Share(2)), Mark { dscp: Some(63), priority: Some(0) });
        assert_eq!(marks.of(Class::Bulk), Mark { dscp: Some(8), priority: Some(0) });
        let off = Marks::parse("off", " off ").unwrap();
        assert_eq!(off.of(Class::Bulk), Mark { dscp: None, priority: None });
    }

    #[test]
    fn bad_settings_are_told() {
        for (dscp, priority, text) in [
            ("latency", "", "FERRULE_LANE_DSCP=latency: latency is not of the form CLASS=VALUE"),
            ("fast=3", "", "FERRULE_LANE_DSCP=fast=3: fast=3 names no class"),
            ("bulk=64", "", "FERRULE_LANE_DSCP=bulk=64: bulk=64 does not end in a number from 0 to 63"),
            ("bulk=-1", "", "FERRULE_LANE_DSCP=bulk=-1: bulk=-1 does not end in"),
            ("bulk=1,bulk=1", "", "FERRULE_LANE_DSCP=bulk=1,bulk=1: bulk=1 comes after another value"),
            ("share16=1", "", "FERRULE_LANE_DSCP=share16=1: share16=1 names no class"),
            (
                "",
                "io=2147483648",
                "FERRULE_LANE_PRIORITY=io=2147483648: io=2147483648 does not end in a number from 0 to 2147483647",
            ),
        ] {
            let error = Marks::parse(dscp, priority).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
