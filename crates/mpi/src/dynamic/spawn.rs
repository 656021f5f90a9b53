//! `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple` (MPI-5.0, 11.8): mpiexec starts another job, which connects to a port of this one.

use super::connect;
use super::ports::Callee;
use super::soft;
use super::{ask, take_answer};
use crate::comm::Comm;
use crate::cs::Section;
use crate::info::Info;
use base::{Class, Error, Result, ensure, log};
use protocol::control::spawn::{Command, RANKS_MAX, Request};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// One program, as the root names it.
pub struct Program {
    /// Its name and arguments.
    pub argv: Vec<Vec<u8>>,
    /// Most processes.
    pub count: i32,
    /// Hints.
    pub info: Option<Rc<Info>>,
}

/// Starts a job of these programs and connects with it. Only the root's `programs` matter. The number of processes that run.
pub fn spawn(cs: &mut Section, programs: Result<Vec<Program>>, root: i32, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    connect::meet(cs, comm, root, |cs, told, members| {
        let commands = programs?.iter().map(command).collect::<Result<Vec<Command>>>()?;
        let total: u64 = commands.iter().map(|command| u64::from(command.count)).sum();
        ensure!(total > 0, ERR_SPAWN, "no process is to be started");
        ensure!(total <= u64::from(RANKS_MAX), ERR_SPAWN, "these are too many processes");
        let callee = Callee::open()?;
        let directory = std::env::current_dir().map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        let number = ask(cs, Request::Spawn { commands, port: callee.name().into(), directory })?;
        let met = callee.meet(cs, told, members, |cs| match take_answer(cs, number)? {
            None => Ok(()),
            Some(answer) => {
                log!(Warn, "cannot spawn: {}", String::from_utf8_lossy(&answer.text));
                let class = if answer.class == 0 { Class::ERR_SPAWN } else { Class(answer.class) };
                Err(Error::new(class, "the processes could not be started"))
            }
        })?;
        ask(cs, Request::Connected { number })?;
        Ok(met)
    })
}

fn command(program: &Program) -> Result<Command> {
    let name = program.argv.first().map_or(0, Vec::len);
    ensure!(name > 0, ERR_SPAWN, "a program that is to be started has no name");
    ensure!(program.count >= 0, ERR_ARG, "the number of processes is negative");
    let value = |key: &str| program.info.as_ref().and_then(|info| info.get(key.as_bytes()).ok().flatten());
    let text = |key: &str| match value(key).map(String::from_utf8) {
        Some(Ok(text)) => Ok(text),
        Some(Err(_)) => Err(Error::new(Class::ERR_INFO_VALUE, "the value of an info key is not UTF-8")),
        None => Ok(String::new()),
    };
    let count = match text("soft")? {
        soft if soft.is_empty() => program.count,
        soft => soft::largest(&soft, program.count)?,
    };
    Ok(Command {
        argv: program.argv.clone(),
        count: count as u32,
        directory: value("wdir").unwrap_or_default(),
        path: value("path").unwrap_or_default(),
        hosts: text("host")?,
        host_file: text("file")?,
    })
}
