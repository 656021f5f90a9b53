//! The description of a container that its supervisor reads, as one line on standard input. So `ps` doesn't show values of variables, unless
//! the engine's own command line does.

use super::Engine;
use crate::invite;
use protocol::control::codec::wire;

const PREFIX: &str = "ferrule-container-1 ";

wire! {
    /// One container of the job.
    pub struct Container {
        /// Kind of engine.
        pub engine: Engine,
        /// Words of the engine's command; empty to find docker or podman.
        pub command: Vec<String>,
        /// Name of the container.
        pub name: String,
        /// Image, or directory of a root file system; empty for a container that runs already.
        pub image: String,
        /// The job's number, a label of the container.
        pub job_id: u64,
        /// Name of the job directory, below the host's directory for temporary files.
        pub job_dir: String,
        /// Path of mpiexec inside.
        pub agent: String,
        /// Files and directories to bind at their own path, and whether they may be written.
        pub binds: Vec<(String, bool)>,
        /// Variables of the agent.
        pub env: Vec<(String, String)>,
        /// Network, or empty.
        pub network: String,
        /// More words for the engine.
        pub args: Vec<String>,
        /// Files to copy to the job's own directory inside: from, name there. Empty if nothing is to be copied.
        pub copies: Vec<(String, String)>,
        /// The job's own directory inside, if files are copied.
        pub copy_to: String,
        /// All containers of the job, for finding a directory that they share.
        pub all_names: Vec<String>,
    }
}

impl Container {
    /// The line, with its newline.
    pub fn to_line(&self) -> String {
        invite::line_of(PREFIX, self)
    }

    /// Reads the line.
    pub fn from_line(line: &str) -> Option<Container> {
        invite::read_line(PREFIX, line)
    }
}

#[cfg(test)]
pub(super) fn example(engine: Engine) -> Container {
    Container {
        engine,
        command: vec![engine.command().unwrap_or("docker").into()],
        name: "ferrule-1-0".into(),
        image: if engine == Engine::Exec { String::new() } else { "image".into() },
        job_id: 1,
        job_dir: "ferrule-77".into(),
        agent: "/d/bin/mpiexec".into(),
        binds: vec![("/d".into(), false), ("/w".into(), true)],
        env: vec![("FERRULE_LOG".into(), "info".into())],
        network: String::new(),
        args: vec!["--cpus".into(), "2".into()],
        copies: Vec::new(),
        copy_to: String::new(),
        all_names: vec!["ferrule-1-0".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_survives() {
        for engine in [Engine::Docker, Engine::Podman, Engine::Charliecloud, Engine::Exec] {
            let container = example(engine);
            assert_eq!(Container::from_line(&container.to_line()), Some(container));
        }
        assert_eq!(Container::from_line("ferrule-container-1 09"), None);
        assert_eq!(Container::from_line("ferrule-invite-1 00"), None);
    }
}
