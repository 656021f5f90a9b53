//! Which launcher has started this process: the variables in the environment tell.
//!
//! Order: Hydra's PMI (it may itself have been started by a launcher whose variables are still there), PMIx, other PMI. `FERRULE_PMI` overrules.

use super::launcher::Launcher;
use super::{pmi1, pmi2, pmix};
use base::{Result, fail, log};

/// What kind of launcher the environment names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// None.
    Nobody,
    /// PMI-1 over `PMI_FD` or `PMI_PORT`.
    Pmi1,
    /// PMI-2 over `PMI_FD`.
    Pmi2,
    /// PMIx through its library.
    Pmix,
    /// One that gives its processes nothing to find each other with: its name, and advice.
    Mute(&'static str, &'static str),
}

/// Reads the signs that launchers leave.
pub fn kind(wanted: &str, variable: &dyn Fn(&str) -> Option<String>) -> Kind {
    let has = |name: &str| variable(name).is_some();
    let several = |name: &str| variable(name).and_then(|v| v.trim().parse::<u64>().ok()).is_some_and(|n| n > 1);
    match wanted.trim() {
        "pmi1" => return Kind::Pmi1,
        "pmi2" => return Kind::Pmi2,
        "pmix" => return Kind::Pmix,
        _ => {}
    }
    let pmi = has("PMI_FD") || has("PMI_PORT");
    // Only Hydra says MPI_LOCALNRANKS beside its socket, and only Slurm gives PMI_JOBID.
    if pmi && has("MPI_LOCALNRANKS") {
        Kind::Pmi1
    } else if has("PMIX_NAMESPACE") && has("PMIX_RANK") {
        Kind::Pmix
    } else if has("PMI_FD") && has("PMI_JOBID") && has("SLURM_PROCID") {
        Kind::Pmi2
    } else if pmi {
        Kind::Pmi1
    } else if has("PMI_RANK") && several("PMI_SIZE") {
        Kind::Mute("a PMI launcher without a socket (PMI_FD, PMI_PORT)", "start the program by ferrule's mpiexec")
    } else if several("OMPI_COMM_WORLD_SIZE") {
        Kind::Mute("Open MPI's mpirun, whose PMIx variables are missing", "start the program by ferrule's mpiexec")
    } else if has("SLURM_PROCID") && several("SLURM_STEP_NUM_TASKS") {
        Kind::Mute(
            "srun without an MPI plugin",
            "use srun --mpi=pmi2 or --mpi=pmix, or ferrule's mpiexec in the allocation",
        )
    } else {
        Kind::Nobody
    }
}

/// Connects to the launcher; `None` if there is none.
pub fn connect(wanted: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Box<dyn Launcher>>> {
    Ok(Some(match kind(wanted, variable) {
        Kind::Nobody => return Ok(None),
        Kind::Pmi1 => Box::new(pmi1::Pmi1::connect(variable)?),
        Kind::Pmi2 => Box::new(pmi2::Pmi2::connect(variable)?),
        Kind::Pmix => Box::new(pmix::Pmix::connect()?),
        Kind::Mute(launcher, advice) => {
            log!(
                Error,
                "this process was started by {launcher}, so it can't find its job; {advice}, or set FERRULE_SINGLETON=1 to run it \
                 as a job of one rank"
            );
            fail!(ERR_OTHER, "started by a launcher that offers no process management");
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &'static [(&str, &str)]) -> Kind {
        kind("auto", &move |name| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_string()))
    }

    #[test]
    fn launchers_are_told_apart() {
        assert_eq!(of(&[]), Kind::Nobody);
        assert_eq!(
            of(&[("PMI_FD", "7"), ("MPI_LOCALNRANKS", "2"), ("PMIX_NAMESPACE", "n"), ("PMIX_RANK", "0")]),
            Kind::Pmi1
        );
        assert_eq!(of(&[("PMI_PORT", "h:1"), ("PMI_ID", "0")]), Kind::Pmi1);
        assert_eq!(of(&[("PMI_FD", "7"), ("PMI_JOBID", "1.0"), ("SLURM_PROCID", "0")]), Kind::Pmi2);
        assert_eq!(of(&[("PMIX_NAMESPACE", "n"), ("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")]), Kind::Pmix);
        assert!(matches!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4")]), Kind::Mute(..)));
        assert!(matches!(of(&[("OMPI_COMM_WORLD_SIZE", "4")]), Kind::Mute(..)));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Kind::Nobody);
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Kind::Nobody);
    }
}
