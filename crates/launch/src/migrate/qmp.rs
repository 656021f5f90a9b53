//! The driver for QEMU by its monitor protocol: devices are unplugged and plugged by the guest's help, the memory goes from QEMU to QEMU.

use super::command::until_ready;
use super::driver::{Driver, Limit};
use super::monitor::{Monitor, Refusal};
use ::migrate::config::{Arguments, Qmp, QmpDestination, QmpDevice, QmpDeviceChange, id};
use ::migrate::machine::{Report, Side, Step};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A guest that was busy may have missed the request to let a device go.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// One VM: its QEMU, and the one that waits for it.
pub struct Hypervisor {
    here: Qmp,
    there: QmpDestination,
    source: Option<Monitor>,
    destination: Option<Monitor>,
}

impl Hypervisor {
    /// For one VM.
    pub fn new(here: Qmp, there: QmpDestination) -> Hypervisor {
        Hypervisor { here, there, source: None, destination: None }
    }

    /// The connection, which is made when it is needed.
    fn monitor(&mut self, side: Side, limit: &Limit) -> Result<&mut Monitor, String> {
        let (place, slot) = match side {
            Side::Source => (&self.here.source, &mut self.source),
            Side::Destination => (&self.there.monitor, &mut self.destination),
        };
        if slot.is_none() {
            *slot = Some(Monitor::open(place, limit)?);
        }
        slot.as_mut().ok_or_else(|| "there is no monitor".into())
    }

    fn status(&mut self, side: Side, limit: &Limit) -> Result<String, String> {
        status(self.monitor(side, limit)?, limit)
    }

    fn check(&mut self, limit: &Limit) -> Result<(), String> {
        let source = self.status(Side::Source, limit)?;
        if source != "running" {
            return Err(format!("the source is \"{source}\", not running"));
        }
        let destination = self.status(Side::Destination, limit)?;
        if destination != "inmigrate" {
            return Err(format!("the destination is \"{destination}\"; it must be started with -incoming"));
        }
        for device in self.here.devices.clone() {
            if !has(self.monitor(Side::Source, limit)?, device.id(), limit)? {
                return Err(format!("the source has no device {}", device.id()));
            }
        }
        Ok(())
    }

    fn detach(&mut self, limit: &Limit) -> Result<(), String> {
        let devices = self.here.devices.clone();
        let monitor = self.monitor(Side::Source, limit)?;
        for device in devices.iter().rev() {
            unplug(monitor, device.id(), limit)?;
            let behind = [("netdev_del", &device.netdev), ("object-del", &device.object)];
            for (command, arguments) in behind {
                if let Some(arguments) = arguments {
                    absent_is_fine(monitor.ask(command, &json!({ "id": id(arguments) }), limit))?;
                }
            }
        }
        Ok(())
    }

    fn migrate(&mut self, limit: &Limit) -> Result<(), String> {
        let capabilities: Vec<Value> =
            self.here.capabilities.iter().map(|(name, state)| json!({"capability": name, "state": state})).collect();
        let capabilities = json!({ "capabilities": capabilities });
        let parameters = Value::Object(self.here.parameters.clone());
        let (uri, listen) = (json!({ "uri": self.there.uri }), self.there.listen.clone());
        if !self.here.capabilities.is_empty() {
            for side in [Side::Destination, Side::Source] {
                self.monitor(side, limit)?.ask("migrate-set-capabilities", &capabilities, limit)?;
            }
        }
        if let Some(listen) = listen {
            let listen = json!({ "uri": listen });
            self.monitor(Side::Destination, limit)?.ask("migrate-incoming", &listen, limit)?;
        }
        let source = self.monitor(Side::Source, limit)?;
        if parameters.as_object().is_some_and(|parameters| !parameters.is_empty()) {
            source.ask("migrate-set-parameters", &parameters, limit)?;
        }
        source.ask("migrate", &uri, limit)?;
        loop {
            let (status, why) = migration(source, limit)?;
            match status.as_str() {
                "completed" => break,
                "failed" | "cancelled" => return Err(format!("QEMU says {status}{why}")),
                _ => limit.pause()?,
            }
        }
        self.until_running(limit)
    }

    /// The destination goes on by itself, unless it was started with -S.
    fn until_running(&mut self, limit: &Limit) -> Result<(), String> {
        loop {
            let monitor = self.monitor(Side::Destination, limit)?;
            match status(monitor, limit)?.as_str() {
                "running" => return Ok(()),
                "paused" | "prelaunch" => drop(monitor.ask("cont", &Value::Null, limit)?),
                _ => {}
            }
            limit.pause()?;
        }
    }

    /// Ends a migration, and finds out where the VM runs. It may have arrived meanwhile.
    fn cancel(&mut self, limit: &Limit) -> Result<Side, String> {
        // What was under way on this connection may have left it half read.
        self.source = None;
        self.destination = None;
        let here = self.stays_at_source(limit);
        match here {
            Ok(true) => Ok(Side::Source),
            Ok(false) => self.until_running(limit).map(|()| Side::Destination),
            Err(why) => match self.status(Side::Destination, limit).as_deref() {
                Ok("running") => Ok(Side::Destination),
                other => Err(format!("source: {why}; destination: {other:?}")),
            },
        }
    }

    fn stays_at_source(&mut self, limit: &Limit) -> Result<bool, String> {
        let source = self.monitor(Side::Source, limit)?;
        source.ask("migrate_cancel", &Value::Null, limit)?;
        loop {
            let (migration, _) = migration(source, limit)?;
            match migration.as_str() {
                "completed" => return Ok(false),
                "none" | "failed" | "cancelled" => {}
                _ => {
                    limit.pause()?;
                    continue;
                }
            }
            match status(source, limit)?.as_str() {
                "running" => return Ok(true),
                // The migration has failed, so the guest's memory is here, and nobody else has been started with it.
                "paused" | "postmigrate" | "finish-migrate" => drop(source.ask("cont", &Value::Null, limit)?),
                _ => {}
            }
            limit.pause()?;
        }
    }

    fn attach(&mut self, side: Side, limit: &Limit) -> Result<(), String> {
        let nothing = QmpDeviceChange::default();
        let change = |device: &QmpDevice| match side {
            Side::Source => device.clone(),
            Side::Destination => device.changed(self.there.devices.get(device.id()).unwrap_or(&nothing)),
        };
        let devices: Vec<QmpDevice> = self.here.devices.iter().map(change).collect();
        let monitor = self.monitor(side, limit)?;
        for device in &devices {
            plug(monitor, device, limit)?;
        }
        until_ready(&self.here.ready, side, limit)?;
        if side == Side::Destination && !self.here.keep_source {
            // It has nothing to do any more; if it is gone already, so be it.
            if let Ok(source) = self.monitor(Side::Source, limit) {
                let _ = source.ask("quit", &Value::Null, limit);
            }
            self.source = None;
        }
        Ok(())
    }
}

impl Driver for Hypervisor {
    fn step(&mut self, step: Step, limit: &Limit) -> Result<Report, String> {
        let done = match step {
            Step::Check => self.check(limit),
            Step::Detach => self.detach(limit),
            Step::Migrate => self.migrate(limit),
            Step::Cancel => return self.cancel(limit).map(Report::RunsAt),
            Step::Attach(side) => self.attach(side, limit),
        };
        if done.is_err() {
            self.source = None;
            self.destination = None;
        }
        done.map(|()| Report::Done)
    }
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}

fn status(monitor: &mut Monitor, limit: &Limit) -> Result<String, String> {
    Ok(text(&monitor.ask("query-status", &Value::Null, limit)?, "status"))
}

/// The state of a migration, and QEMU's reason.
fn migration(monitor: &mut Monitor, limit: &Limit) -> Result<(String, String), String> {
    let state = monitor.ask("query-migrate", &Value::Null, limit)?;
    let why = text(&state, "error-desc");
    let status = state.get("status").and_then(Value::as_str).unwrap_or("none").to_string();
    Ok((status, if why.is_empty() { why } else { format!(": {why}") }))
}

fn has(monitor: &mut Monitor, device: &str, limit: &Limit) -> Result<bool, String> {
    let path = json!({ "path": format!("/machine/peripheral/{device}") });
    match monitor.ask("qom-list", &path, limit) {
        Ok(_) => Ok(true),
        Err(refusal) if refusal.class.is_empty() => Err(refusal.text),
        Err(_) => Ok(false),
    }
}

/// Takes a device away. The guest has to let it go; an event tells when it has.
fn unplug(monitor: &mut Monitor, device: &str, limit: &Limit) -> Result<(), String> {
    while has(monitor, device, limit)? {
        match monitor.ask("device_del", &json!({ "id": device }), limit) {
            Ok(_) => {}
            Err(refusal) if refusal.class == "DeviceNotFound" => return Ok(()),
            // It has been asked already.
            Err(refusal) if refusal.text.contains("in the process of unplug") => {}
            Err(refusal) => return Err(refusal.text),
        }
        let again = Instant::now() + ASK_AGAIN;
        while Instant::now() < again && has(monitor, device, limit)? {
            limit.pause().map_err(|why| format!("the guest keeps the device {device}: {why}"))?;
        }
        let refused = monitor.take_event("DEVICE_UNPLUG_GUEST_ERROR", |data| text(data, "device") == device);
        if refused {
            return Err(format!("the guest refuses to let the device {device} go"));
        }
    }
    Ok(())
}

fn plug(monitor: &mut Monitor, device: &QmpDevice, limit: &Limit) -> Result<(), String> {
    let value = |arguments: &Arguments| Value::Object(arguments.clone());
    if let Some(object) = &device.object {
        present_is_fine(monitor.ask("object-add", &value(object), limit))?;
    }
    if let Some(netdev) = &device.netdev {
        present_is_fine(monitor.ask("netdev_add", &value(netdev), limit))?;
    }
    if has(monitor, device.id(), limit)? {
        return Ok(());
    }
    present_is_fine(monitor.ask("device_add", &value(&device.device), limit))
}

/// Told twice: it is there already.
fn present_is_fine(answer: Result<Value, Refusal>) -> Result<(), String> {
    match answer {
        Err(refusal) if refusal.text.to_lowercase().contains("duplicate") => Ok(()),
        answer => answer.map(drop).map_err(String::from),
    }
}

/// Told twice: it is gone already.
fn absent_is_fine(answer: Result<Value, Refusal>) -> Result<(), String> {
    match answer {
        Err(refusal) if refusal.class == "DeviceNotFound" || refusal.text.contains("not found") => Ok(()),
        answer => answer.map(drop).map_err(String::from),
    }
}
