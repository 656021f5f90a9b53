//! The file that describes virtual machines: refused with a sentence, or devices that have what the drivers rely on, also as a destination changes them.

use migrate::config::{QmpDeviceChange, Vm, id, parse};

/// Plays one input.
pub fn run(data: &[u8]) {
    let config = match parse(&String::from_utf8_lossy(data)) {
        Ok(config) => config,
        Err(why) => return assert!(!why.is_empty()),
    };
    for vm in config.vms.values() {
        let Vm::Qmp(qmp) = vm else { continue };
        for device in &qmp.devices {
            let unchanged = QmpDeviceChange::default();
            let changes = qmp.destinations.values().map(|there| there.devices.get(device.id()).unwrap_or(&unchanged));
            for change in changes {
                let there = device.changed(change);
                assert_eq!(there.id(), device.id());
                let ids = |of: &migrate::config::QmpDevice| {
                    [&of.netdev, &of.object].map(|part| part.as_ref().map(|part| id(part).to_string()))
                };
                assert_eq!(ids(&there), ids(device));
            }
            assert!(device.device.get("id").is_some_and(|id| id.is_string()));
        }
    }
}
