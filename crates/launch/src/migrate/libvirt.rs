//! The driver for libvirt: calls `virsh`, which finds its credentials itself.

use super::command;
use super::driver::{Driver, Limit};
use ::migrate::config::{Libvirt, LibvirtDestination};
use ::migrate::machine::{Report, Side, Step};
use std::process::Command;

/// One domain.
#[derive(Debug)]
pub struct Virsh {
    domain: String,
    here: Libvirt,
    there: LibvirtDestination,
}

impl Virsh {
    /// For one domain.
    pub fn new(vm: &str, here: Libvirt, there: LibvirtDestination) -> Virsh {
        Virsh { domain: here.domain.clone().unwrap_or_else(|| vm.into()), here, there }
    }

    fn command(&self, side: Side, words: &[&str]) -> Command {
        let mut command = Command::new("virsh");
        // Words are matched below.
        command.env("LC_ALL", "C");
        match (side, &self.here.connect) {
            (Side::Destination, _) => drop(command.args(["--connect", &self.there.connect])),
            (Side::Source, Some(connect)) => drop(command.args(["--connect", connect])),
            (Side::Source, None) => {}
        }
        command.args(words);
        command
    }

    fn state(&self, side: Side, limit: &Limit) -> Result<String, String> {
        let said = command::succeed(&mut self.command(side, &["domstate", "--domain", &self.domain]), limit)?;
        Ok(said.trim().into())
    }

    fn check(&self, limit: &Limit) -> Result<(), String> {
        let state = self.state(Side::Source, limit)?;
        if state != "running" {
            return Err(format!("the domain {} is \"{state}\", not running", self.domain));
        }
        for file in self.here.devices.iter().chain(&self.there.devices) {
            std::fs::metadata(file).map_err(|e| format!("{file}: {e}"))?;
        }
        command::succeed(&mut self.command(Side::Destination, &["uri"]), limit).map(drop)
    }

    fn detach(&self, limit: &Limit) -> Result<(), String> {
        for file in self.here.devices.iter().rev() {
            let words = ["detach-device", "--live", "--domain", &self.domain, "--file", file];
            let ended = command::run(&mut self.command(Side::Source, &words), limit)?;
            // Told twice.
            let is_gone = ended.complaint.contains("not found") && ended.complaint.contains("device");
            if ended.code != 0 && !is_gone {
                return Err(format!("virsh can't detach {file}{}", command::last_line(&ended)));
            }
        }
        Ok(())
    }

    fn attach(&self, side: Side, limit: &Limit) -> Result<(), String> {
        let there = &self.there.devices;
        let files = if side == Side::Source || there.is_empty() { &self.here.devices } else { there };
        for file in files {
            let words = ["attach-device", "--live", "--domain", &self.domain, "--file", file];
            let ended = command::run(&mut self.command(side, &words), limit)?;
            let is_there = ["already exists", "already in", "Duplicate"].iter().any(|w| ended.complaint.contains(w));
            if ended.code != 0 && !is_there {
                return Err(format!("virsh can't attach {file}{}", command::last_line(&ended)));
            }
        }
        command::until_ready(&self.here.ready, side, limit)
    }

    fn migrate(&self, limit: &Limit) -> Result<(), String> {
        let mut words = vec!["migrate", "--live"];
        words.extend(self.there.options.iter().map(String::as_str));
        words.extend(["--domain", &self.domain, "--desturi", &self.there.connect]);
        command::succeed(&mut self.command(Side::Source, &words), limit).map(drop)
    }

    /// Ends a job of libvirt, if there is one, and looks where the domain runs.
    fn cancel(&self, limit: &Limit) -> Result<Side, String> {
        command::run(&mut self.command(Side::Source, &["domjobabort", "--domain", &self.domain]), limit)?;
        let here = loop {
            // While libvirt still ends the job, both sides may be paused.
            let (here, there) = (self.state(Side::Source, limit), self.state(Side::Destination, limit));
            match (here.as_deref(), there.as_deref()) {
                (Ok("running"), Ok("running")) => {}
                (Ok("running"), _) => return Ok(Side::Source),
                (_, Ok("running")) => return Ok(Side::Destination),
                _ => {}
            }
            if let Err(why) = limit.pause() {
                break format!("{why}; at the source: {here:?}, at the destination: {there:?}");
            }
        };
        Err(format!("it can't be told where {} runs: {here}", self.domain))
    }
}

impl Driver for Virsh {
    fn step(&mut self, step: Step, limit: &Limit) -> Result<Report, String> {
        match step {
            Step::Check => self.check(limit)?,
            Step::Detach => self.detach(limit)?,
            Step::Migrate => self.migrate(limit)?,
            Step::Cancel => return self.cancel(limit).map(Report::RunsAt),
            Step::Attach(side) => self.attach(side, limit)?,
        }
        Ok(Report::Done)
    }
}
