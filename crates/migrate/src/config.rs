//! The file in which the administrator describes virtual machines: JSON, read strictly. docs/user/migration.md explains it.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Largest file that is read, in bytes.
pub const SIZE_MAX: u64 = 1 << 20;

/// Arguments of a QMP command.
pub type Arguments = Map<String, Value>;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// By name.
    pub vms: BTreeMap<String, Vm>,
}

/// One virtual machine, by how its hypervisor is spoken to.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "driver", rename_all = "lowercase")]
pub enum Vm {
    /// QEMU's monitor protocol.
    Qmp(Qmp),
    /// A program that does the steps.
    Script(Script),
    /// `virsh`.
    Libvirt(Libvirt),
}

/// See docs/user/migration.md.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qmp {
    /// Its name among the hosts of the job; the VM's own name if it isn't given.
    pub host: Option<String>,
    /// Monitor of the VM where it runs: `unix:PATH` or `tcp:HOST:PORT`.
    pub source: String,
    /// By the name that `--to` takes.
    pub destinations: BTreeMap<String, QmpDestination>,
    /// In the order in which they are attached; they are detached from the last to the first.
    #[serde(default)]
    pub devices: Vec<QmpDevice>,
    /// Arguments of `migrate-set-parameters`.
    #[serde(default)]
    pub parameters: Arguments,
    /// Capabilities to set on both sides.
    #[serde(default)]
    pub capabilities: BTreeMap<String, bool>,
    /// A command that succeeds when the guest can use its devices; tried until then.
    #[serde(default)]
    pub ready: Vec<String>,
    /// Leaves the stopped QEMU of the source running after a success.
    #[serde(default)]
    pub keep_source: bool,
}

/// A QEMU that waits for the VM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QmpDestination {
    /// Its monitor.
    pub monitor: String,
    /// Where the source connects to: QEMU's migration URI.
    pub uri: String,
    /// With `-incoming defer`: where the destination is told to listen.
    pub listen: Option<String>,
    /// What is different about devices there, by their ids: replaces single properties.
    #[serde(default)]
    pub devices: BTreeMap<String, QmpDeviceChange>,
}

/// A device and what stands behind it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QmpDevice {
    /// Arguments of `device_add`; `id` and `driver` are needed.
    pub device: Arguments,
    /// Arguments of `netdev_add`; `id` and `type` are needed.
    pub netdev: Option<Arguments>,
    /// Arguments of `object-add`; `id` and `qom-type` are needed.
    pub object: Option<Arguments>,
}

/// Properties that differ at a destination.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QmpDeviceChange {
    /// Of the device.
    #[serde(default)]
    pub device: Arguments,
    /// Of the network behind it.
    #[serde(default)]
    pub netdev: Arguments,
    /// Of the object behind it.
    #[serde(default)]
    pub object: Arguments,
}

/// See docs/user/migration.md.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Its name among the hosts of the job; the VM's own name if it isn't given.
    pub host: Option<String>,
    /// Called with the step, the VM's name and the destination.
    pub program: String,
}

/// See docs/user/migration.md.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Libvirt {
    /// Its name among the hosts of the job; the VM's own name if it isn't given.
    pub host: Option<String>,
    /// The domain's name; the VM's own name if it isn't given.
    pub domain: Option<String>,
    /// `virsh --connect` for the source.
    pub connect: Option<String>,
    /// By the name that `--to` takes.
    pub destinations: BTreeMap<String, LibvirtDestination>,
    /// Files with the XML of devices.
    #[serde(default)]
    pub devices: Vec<String>,
    /// A command that succeeds when the guest can use its devices; tried until then.
    #[serde(default)]
    pub ready: Vec<String>,
}

/// Another libvirtd.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibvirtDestination {
    /// `virsh --connect` for it, and the destination of `virsh migrate`.
    pub connect: String,
    /// More options of `virsh migrate`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Files with the XML of devices there; those of the source if none are given.
    #[serde(default)]
    pub devices: Vec<String>,
}

/// Reads the file's text.
pub fn parse(text: &str) -> Result<Config, String> {
    let config: Config = serde_json::from_str(text).map_err(|e| e.to_string())?;
    for (name, vm) in &config.vms {
        check(vm).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(config)
}

fn check(vm: &Vm) -> Result<(), String> {
    let Vm::Qmp(qmp) = vm else { return Ok(()) };
    for device in &qmp.devices {
        needs(&device.device, &["id", "driver"], "device")?;
        device.netdev.as_ref().map_or(Ok(()), |netdev| needs(netdev, &["id", "type"], "netdev"))?;
        device.object.as_ref().map_or(Ok(()), |object| needs(object, &["id", "qom-type"], "object"))?;
    }
    let ids: Vec<&str> = qmp.devices.iter().map(QmpDevice::id).collect();
    for (name, destination) in &qmp.destinations {
        if let Some(unknown) = destination.devices.keys().find(|id| !ids.contains(&id.as_str())) {
            return Err(format!("destination {name} names the device {unknown}, which is not in \"devices\""));
        }
    }
    Ok(())
}

fn needs(arguments: &Arguments, names: &[&str], what: &str) -> Result<(), String> {
    match names.iter().find(|name| !arguments.get(**name).is_some_and(Value::is_string)) {
        Some(missing) => Err(format!("\"{what}\" needs \"{missing}\" with a string")),
        None => Ok(()),
    }
}

/// The `id` of arguments that [`parse`] has accepted.
pub fn id(arguments: &Arguments) -> &str {
    arguments.get("id").and_then(Value::as_str).unwrap_or_default()
}

impl Vm {
    /// Its name among the hosts of the job, if it has another one there.
    pub fn host(&self) -> Option<&str> {
        match self {
            Vm::Qmp(Qmp { host, .. }) | Vm::Script(Script { host, .. }) | Vm::Libvirt(Libvirt { host, .. }) => host,
        }
        .as_deref()
    }
}

impl QmpDevice {
    /// The device's id.
    pub fn id(&self) -> &str {
        id(&self.device)
    }

    /// The device with what a destination changes. Its ids stay, as it is detached by them again.
    pub fn changed(&self, change: &QmpDeviceChange) -> QmpDevice {
        let merge = |base: &Arguments, over: &Arguments| {
            let mut merged = base.clone();
            merged.extend(over.iter().filter(|(key, _)| *key != "id").map(|(key, value)| (key.clone(), value.clone())));
            merged
        };
        QmpDevice {
            device: merge(&self.device, &change.device),
            netdev: self.netdev.as_ref().map(|netdev| merge(netdev, &change.netdev)),
            object: self.object.as_ref().map(|object| merge(object, &change.object)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"vms": {
      "a": {"driver": "qmp", "host": "node1", "source": "unix:/run/a",
            "destinations": {"h2": {"monitor": "tcp:h2:4444", "uri": "tcp:h2:4445", "devices": {"nic": {"device": {"mac": "m2", "id": "no"}}}}},
            "devices": [{"device": {"id": "nic", "driver": "virtio-net-pci", "mac": "m1"}, "netdev": {"id": "net", "type": "tap"}}]},
      "b": {"driver": "script", "program": "/bin/true"},
      "c": {"driver": "libvirt", "destinations": {"h2": {"connect": "qemu+ssh://h2/system"}}, "devices": ["/etc/nic.xml"]}}}"#;

    #[test]
    fn drivers_are_read_and_changes_merged() {
        let config = parse(GOOD).unwrap();
        let Vm::Qmp(qmp) = &config.vms["a"] else { panic!("another driver") };
        let there = qmp.devices[0].changed(&qmp.destinations["h2"].devices["nic"]);
        assert_eq!((there.id(), there.device["mac"].as_str()), ("nic", Some("m2")));
        assert_eq!(config.vms["a"].host(), Some("node1"));
        assert!(matches!(config.vms["c"], Vm::Libvirt(_)));
    }

    #[test]
    fn what_is_not_known_or_missing_is_refused() {
        for (from, to, says) in [
            ("\"program\"", "\"programme\"", "programme"),
            ("\"script\"", "\"magic\"", "magic"),
            ("\"driver\": \"virtio-net-pci\", ", "", "needs \"driver\""),
            ("\"type\": \"tap\"", "\"type\": 3", "needs \"type\""),
            ("{\"nic\": {\"device\"", "{\"nac\": {\"device\"", "names the device nac"),
            ("\"uri\": \"tcp:h2:4445\", ", "", "uri"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let why = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
