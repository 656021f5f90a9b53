//! Hosts that a batch system has given to this job, for an mpiexec whose user names none.
//!
//! Order: Slurm, LSF, PBS, a Kubernetes MPIJob. What the user says by `-host`, `-hosts`, `-f` or `--launcher fork` goes before all of them.

pub mod hostlist;

use crate::cli::hostfile::{parse_file, parse_list};
use crate::cli::{Host, Options};
use crate::container::Engine;
use crate::settings;

/// Agents are steps of Slurm's job that share its processors with others. The variable would name a socket that doesn't travel.
const SRUN: &str = "srun --quiet --overlap --mpi=none --cpu-bind=none --kill-on-bad-exit=0 --export=ALL,FERRULE_NODE_FD= -N1 -n1 -w {host} {command}";

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The batch system.
    pub system: &'static str,
    /// Its hosts, with the ranks for which it has given room.
    pub hosts: Vec<Host>,
    /// How agents are started there, if not by ssh.
    pub launcher: Option<String>,
}

/// The world outside, for tests.
pub struct Surroundings<'a> {
    /// An environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file.
    pub file: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Takes the hosts of an allocation into `options`, if the user has named none.
pub fn apply(options: &mut Options) -> Result<(), String> {
    let named = options.hosts.is_some() || options.apps.iter().any(|app| app.hosts.is_some());
    let set = [options.launcher.as_deref().unwrap_or(""), settings::LAUNCHER_EXEC.value(), settings::LAUNCHER.value()];
    let launcher = set.into_iter().find(|text| !text.is_empty()).unwrap_or("");
    if named || matches!(launcher, "fork" | "local") || options.container.engine == Some(Engine::Exec) {
        return Ok(());
    }
    let surroundings = Surroundings {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()),
        file: &|path| std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}")),
    };
    if let Some(found) = find(&surroundings)? {
        if options.verbose {
            let slots: u32 = found.hosts.iter().map(|h| h.slots.unwrap_or(1)).sum();
            eprintln!("mpiexec: {} has given this job {} hosts with {slots} slots", found.system, found.hosts.len());
        }
        options.hosts = Some(found.hosts);
        let chosen =
            options.launcher.is_some() || settings::LAUNCHER.read().1 || !settings::LAUNCHER_EXEC.value().is_empty();
        if !chosen {
            options.launcher = found.launcher;
        }
    }
    Ok(())
}

/// The allocation that the environment names.
pub fn find(around: &Surroundings<'_>) -> Result<Option<Allocation>, String> {
    let variable = around.variable;
    let listed = |system, file: &str, name: &str| {
        let hosts =
            (around.file)(file).and_then(|text| parse_file(&text)).map_err(|e| format!("{name}={file}: {e}"))?;
        Ok(Some(Allocation { system, hosts, launcher: None }))
    };
    if variable("SLURM_JOB_ID").or_else(|| variable("SLURM_JOBID")).is_some() {
        return slurm(variable);
    }
    if variable("LSB_JOBID").is_some() {
        if let Some(file) = variable("LSB_DJOB_HOSTFILE") {
            return listed("LSF", &file, "LSB_DJOB_HOSTFILE");
        }
        if let Some(text) = variable("LSB_MCPU_HOSTS") {
            let hosts = pairs(&text).map_err(|e| format!("LSB_MCPU_HOSTS: {e}"))?;
            return Ok(Some(Allocation { system: "LSF", hosts, launcher: None }));
        }
    }
    if let Some(file) = variable("PBS_NODEFILE").filter(|_| variable("PBS_JOBID").is_some()) {
        return listed("PBS", &file, "PBS_NODEFILE");
    }
    if variable("KUBERNETES_SERVICE_HOST").is_some() {
        let names = [
            "HYDRA_HOST_FILE",
            "I_MPI_HYDRA_HOST_FILE",
            "OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile",
        ];
        if let Some((name, file)) = names.iter().find_map(|name| Some((name, variable(name)?))) {
            let mut found = listed("the MPIJob", &file, name)?;
            // The operator's own script in the place of ssh, where it brings one.
            let agents = ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC"];
            if let Some(allocation) = &mut found {
                allocation.launcher = agents.iter().find_map(|name| variable(name)).filter(|agent| agent.contains('/'));
            }
            return Ok(found);
        }
    }
    Ok(None)
}

fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Allocation>, String> {
    let Some(list) = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) else { return Ok(None) };
    let names = hostlist::expand(list.trim()).map_err(|e| format!("Slurm's {e}"))?;
    // Inside of a step the number of tasks may be that of the step, which has fewer nodes.
    let tasks = variable("SLURM_TASKS_PER_NODE").and_then(|text| hostlist::counts(text.trim(), names.len()).ok());
    let slots = match (tasks, variable("SLURM_JOB_CPUS_PER_NODE")) {
        (Some(tasks), _) => tasks,
        (None, Some(text)) => {
            hostlist::counts(text.trim(), names.len()).map_err(|e| format!("SLURM_JOB_CPUS_PER_NODE: {e}"))?
        }
        (None, None) => vec![1; names.len()],
    };
    let hosts = names.into_iter().zip(slots).map(|(name, slots)| Host { name, slots: Some(slots), max_slots: None });
    Ok(Some(Allocation { system: "Slurm", hosts: hosts.collect(), launcher: Some(SRUN.into()) }))
}

/// LSF's `host count host count …`.
fn pairs(text: &str) -> Result<Vec<Host>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !words.len().is_multiple_of(2) {
        return Err("it is not a list of hosts and numbers".into());
    }
    let list: Vec<String> = words.chunks(2).map(|pair| format!("{}:{}", pair[0], pair[1])).collect();
    parse_list(&list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], file: &str) -> Result<Option<String>, String> {
        let variable = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_string());
        let read = |_: &str| if file.is_empty() { Err("no such file".to_string()) } else { Ok(file.to_string()) };
        let found = find(&Surroundings { variable: &variable, file: &read })?;
        let hosts = |a: &Allocation| {
            a.hosts.iter().map(|h| format!("{}:{}", h.name, h.slots.unwrap_or(0))).collect::<Vec<_>>().join(" ")
        };
        Ok(found.map(|a| format!("{} {}{}", a.system, hosts(&a), a.launcher.map_or("", |_| " +"))))
    }

    #[test]
    fn slurm_gives_nodes_and_tasks() {
        let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-2],g3"), ("SLURM_TASKS_PER_NODE", "2(x2),1")];
        assert_eq!(found(&job, "").unwrap().unwrap(), "Slurm n1:2 n2:2 g3:1 +");
        let step = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_NODELIST", "n[1-2]"),
            ("SLURM_TASKS_PER_NODE", "1"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x2)"),
        ];
        assert_eq!(found(&step, "").unwrap().unwrap(), "Slurm n1:4 n2:4 +");
        assert!(found(&[("SLURM_JOB_ID", "7"), ("SLURM_NODELIST", "n[1-")], "").unwrap_err().contains("character"));
        assert_eq!(found(&[("SLURM_JOB_NODELIST", "n[1-2]")], "").unwrap(), None);
    }

    #[test]
    fn files_of_others_are_read() {
        let pbs = [("PBS_JOBID", "7"), ("PBS_NODEFILE", "/x")];
        assert_eq!(found(&pbs, "a\na\nb\n").unwrap().unwrap(), "PBS a:2 b:0");
        assert!(found(&pbs, "").unwrap_err().contains("PBS_NODEFILE=/x"));
        assert_eq!(found(&[("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "a 2 b 4")], "").unwrap().unwrap(), "LSF a:2 b:4");
        assert!(found(&[("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "a 2 b")], "").is_err());
        assert_eq!(
            found(&[("LSB_JOBID", "7"), ("LSB_DJOB_HOSTFILE", "/x")], "a\nb\nb\n").unwrap().unwrap(),
            "LSF a:0 b:2"
        );
        let pod = [
            ("KUBERNETES_SERVICE_HOST", "1"),
            ("OMPI_MCA_orte_default_hostfile", "/x"),
            ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
        ];
        assert_eq!(found(&pod, "w-0 slots=2\nw-1 slots=2\n").unwrap().unwrap(), "the MPIJob w-0:2 w-1:2 +");
        assert_eq!(found(&pod[1..], "w-0\n").unwrap(), None);
        assert_eq!(found(&[], "").unwrap(), None);
    }
}
