//! What `ferrule migrate` says: how it ended, and the table of phases.

use ::migrate::machine::{Order, Outcome, Side, Step, VmOutcome};
use protocol::control::epoch::PhaseTime;
use serde_json::{Map, json};
use std::io::Write;

/// Prints a line. If nobody reads any more, or the disk is full, the migration goes on all the same.
pub fn print(line: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// The same, to standard error.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// How a migration ended.
#[derive(Debug)]
pub struct Summary {
    /// Whether all was done.
    pub is_done: bool,
    /// In words.
    pub text: String,
    /// What has failed on the way.
    pub trouble: Vec<String>,
    /// Endpoints that were suspended.
    pub endpoints: u64,
    /// Names and microseconds.
    pub phases: Vec<(String, u64)>,
    /// By name: where it runs, whether it has its devices.
    pub vms: Vec<(String, VmOutcome)>,
}

impl Summary {
    /// Of the controller's outcome. `epoch` has mpiexec's phases, `phases` the controller's.
    pub fn new(
        names: &[String],
        (to, is_plan): (&str, bool),
        outcome: &Outcome,
        (endpoints, epoch): (u64, &[PhaseTime]),
        phases: &[(&'static str, u64)],
    ) -> Summary {
        let vms: Vec<(String, VmOutcome)> = names.iter().cloned().zip(outcome.vms.clone()).collect();
        let mut trouble = outcome.trouble.clone();
        for (name, vm) in &vms {
            trouble.extend(vm.trouble.iter().map(|what| format!("{name}: {what}")));
        }
        let text = if is_plan { plan(outcome, to) } else { words(outcome, &vms, to) };
        Summary { is_done: outcome.is_done, text, trouble, endpoints, phases: table(epoch, phases), vms }
    }

    /// For a person.
    pub fn to_text(&self) -> String {
        let mut lines = vec![if self.is_done { self.text.clone() } else { format!("not done: {}", self.text) }];
        lines.extend(self.trouble.iter().map(|what| format!("  {what}")));
        if !self.phases.is_empty() && self.endpoints > 0 {
            lines.push(format!("{} endpoints were suspended", self.endpoints));
        }
        lines.extend(self.phases.iter().map(|(name, us)| format!("{name:<16}{:>12.3} ms", *us as f64 / 1e3)));
        lines.join("\n")
    }

    /// As one JSON object.
    pub fn to_json(&self) -> String {
        let phases: Map<_, _> = self.phases.iter().map(|(name, us)| (name.clone(), json!(us))).collect();
        let vm = |vm: &VmOutcome| json!({"at": vm.place.map(side), "devices": vm.has_devices, "trouble": vm.trouble});
        let vms: Map<_, _> = self.vms.iter().map(|(name, outcome)| (name.clone(), vm(outcome))).collect();
        json!({
            "done": self.is_done, "text": self.text, "trouble": self.trouble, "endpoints": self.endpoints, "phases_us": phases, "vms": vms,
        })
        .to_string()
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Destination => "destination",
    }
}

fn plan(outcome: &Outcome, to: &str) -> String {
    match (outcome.is_done, outcome.is_aborted) {
        (true, _) => format!("the migration to {to} is possible; nothing has been changed"),
        (_, true) => "aborted".into(),
        _ => format!("the migration to {to} is not possible"),
    }
}

fn words(outcome: &Outcome, vms: &[(String, VmOutcome)], to: &str) -> String {
    let mut parts = Vec::new();
    if outcome.is_aborted {
        parts.push("aborted".to_string());
    }
    for (name, vm) in vms {
        let devices = if vm.has_devices { "" } else { ", without all of its devices" };
        parts.push(match vm.place {
            Some(Side::Destination) => format!("{name} runs on {to}{devices}"),
            Some(Side::Source) => format!("{name} runs where it was{devices}"),
            None => format!("nobody knows where {name} runs: ask its hypervisors"),
        });
    }
    parts.push(if outcome.is_resumed && outcome.trouble.is_empty() {
        "the job goes on".into()
    } else if outcome.is_resumed {
        "the job has been resumed, but not all is well with it".into()
    } else {
        "mpiexec has not said that the job goes on; it resumes it by itself (`ferrule drain --status`)".into()
    });
    parts.join("; ")
}

/// The phases in their order: mpiexec's own times where it has told them.
fn table(epoch: &[PhaseTime], phases: &[(&'static str, u64)]) -> Vec<(String, u64)> {
    let told = |name: &str| epoch.iter().find(|phase| phase.name == name).map(|phase| (name.to_string(), phase.micros));
    let own = |name: &str| phases.iter().find(|phase| phase.0 == name).map(|phase| (name.to_string(), phase.1));
    let rows =
        [told("pre-migration"), told("ready"), own("detach"), own("migrate"), own("attach"), told("post-migration")];
    rows.into_iter().flatten().collect()
}

/// What begins, for a person.
pub fn progress(order: Order, names: &[String], hosts: &[String], to: &str) -> String {
    let name = |vm: usize| names.get(vm).map_or("", String::as_str);
    match order {
        Order::Suspend => format!("suspending the endpoints of {}", hosts.join(", ")),
        Order::Resume => "resuming the job".into(),
        Order::Vm(vm, Step::Check) => format!("{}: checking whether it can move to {to}", name(vm)),
        Order::Vm(vm, Step::Detach) => format!("{}: detaching devices", name(vm)),
        Order::Vm(vm, Step::Migrate) => format!("{}: migrating to {to}", name(vm)),
        Order::Vm(vm, Step::Cancel) => format!("{}: ending its migration, and finding out where it runs", name(vm)),
        Order::Vm(vm, Step::Attach(Side::Source)) => format!("{}: attaching devices where it was", name(vm)),
        Order::Vm(vm, Step::Attach(Side::Destination)) => format!("{}: attaching devices on {to}", name(vm)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_phases_in_their_order() {
        let vm = VmOutcome { place: Some(Side::Destination), has_devices: true, trouble: Vec::new() };
        let outcome =
            Outcome { is_done: true, is_resumed: true, is_aborted: false, trouble: Vec::new(), vms: vec![vm.clone()] };
        let phase = |name: &str, micros| PhaseTime { name: name.into(), micros };
        let epoch =
            [phase("pre-migration", 8114), phase("ready", 1), phase("migration", 9), phase("post-migration", 2)];
        let names = ["vm1".to_string()];
        let done = Summary::new(&names, ("h2", false), &outcome, (20, &epoch), &[("attach", 5), ("detach", 3)]);
        let names_of = |summary: &Summary| summary.phases.iter().map(|phase| phase.0.clone()).collect::<Vec<_>>();
        assert_eq!(names_of(&done), ["pre-migration", "ready", "detach", "attach", "post-migration"]);
        assert!(
            done.to_text().starts_with("vm1 runs on h2; the job goes on\n20 endpoints were suspended\npre-migration ")
        );
        let lost = VmOutcome { place: None, has_devices: false, trouble: vec!["cancel: \"no\"".into()] };
        let outcome = Outcome { is_done: false, vms: vec![lost], ..outcome };
        let failed = Summary::new(&names, ("h2", false), &outcome, (0, &[]), &[]);
        assert!(failed.to_text().contains("not done: nobody knows where vm1 runs"));
        let value: serde_json::Value = serde_json::from_str(&failed.to_json()).unwrap();
        assert_eq!(value["trouble"][0], "vm1: cancel: \"no\"");
        assert!(value["vms"]["vm1"]["at"].is_null());
    }
}
