//! What every driver of a hypervisor does, and until when.

use ::migrate::config::Vm;
use ::migrate::machine::{Report, Step};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a driver looks again while it waits.
pub const PAUSE: Duration = Duration::from_millis(20);

/// When a step must be over.
#[derive(Clone, Debug)]
pub struct Limit {
    end: Instant,
    stop: Arc<AtomicBool>,
}

impl Limit {
    /// So long from now, or until `stop` is set.
    pub fn new(time: Duration, stop: Arc<AtomicBool>) -> Limit {
        // One that can't be told is a year away.
        let year = Duration::from_secs(365 * 86_400);
        Limit { end: Instant::now() + time.min(year), stop }
    }

    /// The time that is left, or why there is none.
    pub fn left(&self) -> Result<Duration, String> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("ended by the controller".into());
        }
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err("the limit is over".into()),
            left => Ok(left),
        }
    }

    /// Waits for a moment.
    pub fn pause(&self) -> Result<(), String> {
        std::thread::sleep(PAUSE.min(self.left()?));
        self.left().map(drop)
    }
}

/// One VM by its hypervisor. A step may be told twice: what is done already is no failure.
pub trait Driver: Send {
    /// Does a step.
    fn step(&mut self, step: Step, limit: &Limit) -> Result<Report, String>;
}

/// The driver for one VM and its destination.
pub fn open(name: &str, vm: &Vm, to: &str) -> Result<Box<dyn Driver>, String> {
    let unknown = |known: Vec<&String>| {
        let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        format!("{name} has no destination {to}; there are: {}", known.join(", "))
    };
    Ok(match vm {
        Vm::Qmp(qmp) => {
            let there = qmp.destinations.get(to).ok_or_else(|| unknown(qmp.destinations.keys().collect()))?;
            Box::new(super::qmp::Hypervisor::new(qmp.clone(), there.clone()))
        }
        Vm::Script(script) => Box::new(super::script::Program::new(&script.program, name, to)),
        Vm::Libvirt(libvirt) => {
            let there = libvirt.destinations.get(to).ok_or_else(|| unknown(libvirt.destinations.keys().collect()))?;
            Box::new(super::libvirt::Virsh::new(name, libvirt.clone(), there.clone()))
        }
    })
}
