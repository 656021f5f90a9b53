//! Ranks in containers: each container is a node of the job, whose agent an engine's command line starts inside.
//!
//! ```text
//! mpiexec ─(ssh)─► supervisor ──► docker run -i … │container│ ──► reaper ──► agent ──► ranks
//!                    │  the invitation, and the link if the network leads nowhere, pass through the supervisor's stdio
//!                    └─ after the end, whatever ended it: removes the container, the job directory, the copied files
//! ```
//! The supervisor runs outside, on the container's host, in a session of its own. When mpiexec is gone, the pipe of its standard output
//! breaks, so nothing outlives a job whose mpiexec got SIGKILL. A container ends by itself when its agent's link closes.
//!
//! A [`Container`] says what one node needs (`head::containers` makes them of the options), `argv` turns it into an engine's words (pure), `supervisor` is the process,
//! `advice` for command lines that start containers themselves, `jobdir` the directory that all containers of a host share, `calls` asks the engine for something.

pub mod advice;
pub mod argv;
pub(crate) mod calls;
pub(crate) mod jobdir;
mod spec;
pub mod supervisor;

use base::fail;
use protocol::control::{Wire, codec};
pub use spec::Container;

/// Who starts the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Engine {
    /// `docker run`.
    Docker = 0,
    /// `podman run`.
    Podman = 1,
    /// `ch-run`.
    Charliecloud = 2,
    /// `docker exec` or `podman exec` in containers that run already.
    Exec = 3,
}

impl Engine {
    /// Reads `--container`.
    pub fn from_name(name: &str) -> Result<Engine, String> {
        match name {
            "docker" => Ok(Engine::Docker),
            "podman" => Ok(Engine::Podman),
            "charliecloud" | "ch-run" => Ok(Engine::Charliecloud),
            "exec" => Ok(Engine::Exec),
            _ => Err(format!("--container knows docker, podman, charliecloud and exec, not '{name}'")),
        }
    }

    /// The command that is run unless `--container-engine` says otherwise.
    pub fn command(self) -> Option<&'static str> {
        match self {
            Engine::Docker => Some("docker"),
            Engine::Podman => Some("podman"),
            Engine::Charliecloud => Some("ch-run"),
            Engine::Exec => None,
        }
    }
}

impl Wire for Engine {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn take(input: &mut codec::Reader<'_>) -> base::Result<Engine> {
        let all = [Engine::Docker, Engine::Podman, Engine::Charliecloud, Engine::Exec];
        let Some(engine) = all.get(usize::from(u8::take(input)?)) else { fail!(ERR_OTHER, "unknown container engine") };
        Ok(*engine)
    }
}

/// Removes the job directory of this host, should a container supervisor have been killed before it could.
pub fn sweep(engine: Engine, job_dir: &str) {
    if let Ok(dir) = jobdir::JobDir::join(engine, job_dir) {
        dir.leave();
    }
}

/// What the command line says about containers.
#[derive(Clone, Debug, Default)]
pub struct ContainerOptions {
    /// `--container`.
    pub engine: Option<Engine>,
    /// Image, or directory of a root file system.
    pub image: Option<String>,
    /// Containers that run already.
    pub names: Vec<String>,
    /// Words of the engine's command.
    pub command: Vec<String>,
    /// Ranks in each container; all ranks of a host if not said.
    pub ranks_each: Option<u32>,
    /// Network, by the engine's name for it.
    pub network: Option<String>,
    /// Words for the engine's `run` or `exec`.
    pub args: Vec<String>,
    /// Working directory inside.
    pub directory: Option<String>,
    /// Copy what is missing into containers that run already.
    pub copy: bool,
}

impl ContainerOptions {
    /// What contradicts itself, as a sentence for the user.
    pub fn check(&self) -> Result<(), String> {
        let Some(engine) = self.engine else {
            let any = self.image.is_some()
                || !self.names.is_empty()
                || !self.command.is_empty()
                || self.ranks_each.is_some()
                || self.network.is_some()
                || !self.args.is_empty()
                || self.directory.is_some()
                || self.copy;
            return if any {
                Err("options --container-… need --container docker|podman|charliecloud|exec".into())
            } else {
                Ok(())
            };
        };
        let exec = engine == Engine::Exec;
        match (exec, &self.image, self.names.is_empty()) {
            (false, None, _) => return Err("--container needs --container-image".into()),
            (true, Some(_), _) => {
                return Err("--container exec takes containers that run (--container-name), no image".into());
            }
            (true, None, true) => return Err("--container exec needs --container-name".into()),
            (false, _, false) => {
                return Err("--container-name is for --container exec; new containers are named by mpiexec".into());
            }
            _ => {}
        }
        if self.copy && !exec {
            return Err(
                "--container-copy is for --container exec; new containers see Ferrule's files as they are".into()
            );
        }
        if self.network.is_some() && matches!(engine, Engine::Exec | Engine::Charliecloud) {
            return Err("--container-network is for docker and podman".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_told() {
        let docker =
            || ContainerOptions { engine: Some(Engine::Docker), image: Some("i".into()), ..Default::default() };
        let exec = || ContainerOptions { engine: Some(Engine::Exec), names: vec!["a".into()], ..Default::default() };
        assert_eq!(ContainerOptions::default().check(), Ok(()));
        assert_eq!(docker().check(), Ok(()));
        assert_eq!(exec().check(), Ok(()));
        let wrong = [
            (ContainerOptions { image: Some("i".into()), ..Default::default() }, "need --container "),
            (ContainerOptions { image: None, ..docker() }, "--container-image"),
            (ContainerOptions { names: vec!["a".into()], ..docker() }, "is for --container exec"),
            (ContainerOptions { copy: true, ..docker() }, "--container-copy"),
            (ContainerOptions { names: vec![], ..exec() }, "--container-name"),
            (ContainerOptions { image: Some("i".into()), ..exec() }, "no image"),
            (ContainerOptions { network: Some("n".into()), ..exec() }, "--container-network"),
        ];
        for (options, words) in wrong {
            let why = options.check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
