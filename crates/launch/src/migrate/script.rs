//! The driver for anything: a program of the administrator does the steps.

use super::command;
use super::driver::{Driver, Limit};
use ::migrate::machine::{Report, Side, Step, name};
use std::process::Command;

/// `cancel` ends with it if the VM runs at the destination.
const AT_DESTINATION: i32 = 3;

/// The program and what it is told.
#[derive(Debug)]
pub struct Program {
    program: String,
    vm: String,
    to: String,
}

impl Program {
    /// For one VM.
    pub fn new(program: &str, vm: &str, to: &str) -> Program {
        Program { program: program.into(), vm: vm.into(), to: to.into() }
    }
}

impl Driver for Program {
    fn step(&mut self, step: Step, limit: &Limit) -> Result<Report, String> {
        let mut command = Command::new(&self.program);
        command.args([name(step), &self.vm, &self.to]);
        command.env("FERRULE_STEP", name(step)).env("FERRULE_VM", &self.vm).env("FERRULE_TO", &self.to);
        command.env("FERRULE_LIMIT_S", limit.left()?.as_secs().to_string());
        if step != Step::Cancel {
            return command::succeed(&mut command, limit).map(|_| Report::Done);
        }
        let ended = command::run(&mut command, limit)?;
        match ended.code {
            0 => Ok(Report::RunsAt(Side::Source)),
            AT_DESTINATION => Ok(Report::RunsAt(Side::Destination)),
            code => Err(format!(
                "{} doesn't know where it runs (exit code {code}){}",
                self.program,
                command::last_line(&ended)
            )),
        }
    }
}
