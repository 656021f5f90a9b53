//! Whether UCX is used: the setting, the library, the devices.

use super::{UCX, UCX_LIBRARY, UCX_SERVICE_LEVELS, UCX_TRAFFIC_CLASSES, UCX_TRANSPORTS};
use crate::locality;
use ::ucx::Ucx;
use base::log;
use protocol::lanes::Class;
use std::path::Path;

/// The kernel's list of RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// A library that is used, over some of its transports.
#[derive(Clone, Debug)]
pub struct Found {
    /// The library.
    pub ucx: Ucx,
    /// As `UCX_TLS`; empty for what the environment says.
    pub transports: String,
}

/// Why UCX isn't used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotUsed {
    /// In words.
    pub why: String,
    /// The user has asked for it, and should know.
    pub is_wanted: bool,
    /// The job must not start without it.
    pub is_fatal: bool,
}

/// What the settings ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Auto,
    Off,
    On,
    Required,
}

fn wish() -> Wish {
    match UCX.value() {
        "auto" => Wish::Auto,
        "off" => Wish::Off,
        "on" => Wish::On,
        "required" => Wish::Required,
        other => {
            log!(Warn, "FERRULE_UCX={other} is not off, auto, on or required; using off");
            Wish::Off
        }
    }
}

impl NotUsed {
    /// UCX is wanted, but can't be used.
    pub fn because(why: String) -> NotUsed {
        let wish = wish();
        NotUsed { why, is_wanted: matches!(wish, Wish::On | Wish::Required), is_fatal: wish == Wish::Required }
    }
}

fn load() -> Result<Ucx, String> {
    Ucx::load(if UCX_LIBRARY.value().is_empty() { "libucp.so.0" } else { UCX_LIBRARY.value() })
}

/// The version of the UCX library that would be loaded, whether it is wanted or not (`ferrule doctor`).
pub fn library_version() -> Result<String, String> {
    load().map(|ucx| ucx.version().to_string())
}

/// Whether this host has RDMA devices.
pub fn has_devices() -> bool {
    Path::new(DEVICES).read_dir().is_ok_and(|mut devices| devices.next().is_some())
}

/// Looks whether UCX is wanted and can be used.
pub fn find() -> Result<Found, NotUsed> {
    let wish = wish();
    if wish == Wish::Off {
        return Err(NotUsed::because("FERRULE_UCX is off".into()));
    }
    if !locality::allowed().ucx {
        return Err(NotUsed::because("FERRULE_CHANNELS lacks ucx".into()));
    }
    if wish == Wish::Auto && !has_devices() {
        return Err(NotUsed::because("this host has no RDMA devices (FERRULE_UCX=on uses UCX without)".into()));
    }
    let security = crate::tcp::security::Security::configured().map_err(NotUsed::because)?;
    if security != crate::tcp::security::Security::None {
        return Err(NotUsed::because(format!(
            "FERRULE_TCP_SECURITY={security} asks for protection, which UCX doesn't have"
        )));
    }
    let ucx = load().map_err(|why| NotUsed::because(format!("{why} (Debian: libucx0; FERRULE_UCX_LIBRARY)")))?;
    let transports = match (UCX_TRANSPORTS.value(), wish) {
        ("", Wish::Auto) => "ib".into(),
        (set, _) => set.to_string(),
    };
    Ok(Found { ucx, transports })
}

impl Found {
    /// UCX's settings for the lanes of a class.
    pub fn settings(&self, class: Option<Class>) -> Result<Vec<(&'static str, String)>, String> {
        let mut all = Vec::new();
        if !self.transports.is_empty() {
            all.push(("TLS", self.transports.clone()));
        }
        if let Some(class) = class {
            let level = value_of("FERRULE_UCX_SERVICE_LEVELS", UCX_SERVICE_LEVELS.value(), class, 15)?;
            let traffic = value_of("FERRULE_UCX_TRAFFIC_CLASSES", UCX_TRAFFIC_CLASSES.value(), class, 255)?;
            all.extend(level.map(|number| ("IB_SL", number.to_string())));
            all.extend(traffic.map(|number| ("IB_TRAFFIC_CLASS", number.to_string())));
        }
        Ok(all)
    }
}

/// The number of a class in a list as `latency=1,bulk=2`.
fn value_of(setting: &str, list: &str, class: Class, most: u32) -> Result<Option<u32>, String> {
    let mut found = None;
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let pair = entry.split_once('=').and_then(|(name, number)| Some((Class::named(name)?, number.parse().ok()?)));
        match pair {
            Some((name, number)) if number <= most => found = if name == class { Some(number) } else { found },
            _ => {
                return Err(format!(
                    "{setting}: {entry} is not CLASS=NUMBER with a class of lanes and a number up to {most}"
                ));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_classes_are_read() {
        let of = |list, class| value_of("S", list, class, 15);
        assert_eq!(of("latency=1, bulk=2", Class::Bulk), Ok(Some(2)));
        assert_eq!(of("latency=1,share3=4", Class::Share(3)), Ok(Some(4)));
        assert_eq!(of("latency=1", Class::Bulk), Ok(None));
        assert_eq!(of("", Class::Bulk), Ok(None));
        for bad in ["latency", "latency=16", "fast=1", "latency=x", "latency=-1"] {
            assert!(of(bad, Class::Bulk).unwrap_err().starts_with(&format!("S: {bad} is not CLASS=NUMBER")), "{bad}");
        }
    }
}
