//! Launchers of others that this library starts under: what each must offer, and which one the environment names.
//!
//! Order: Hydra's PMI (it may itself have been started by a launcher whose variables are still there), PMIx, other PMI. `FERRULE_PMI` overrules.

use super::{pmi1, pmi2, pmix};
use base::{Result, ensure, fail, log};

/// Where a launcher has put this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// `MPI_APPNUM`, if the launcher says.
    pub app_num: Option<u32>,
    /// `MPI_UNIVERSE_SIZE`, 0 if the launcher doesn't say.
    pub universe_size: u32,
    /// Lowest rank on this node.
    pub leader: u32,
}

/// A launcher's process manager, as far as a rank needs it to find its job.
pub trait Launcher: Send {
    /// Its name for messages.
    fn name(&self) -> &'static str;
    /// Where this process is.
    fn place(&self) -> &Place;
    /// For each rank the lowest rank on its node; asked by rank 0 only.
    fn leaders(&mut self) -> Result<Vec<u32>>;
    /// Longest value of [`Launcher::put`].
    fn value_max(&self) -> usize;
    /// Stores a value for all ranks, who can read it after the next fence.
    fn put(&mut self, key: &str, value: &str) -> Result;
    /// Waits until all ranks have called this.
    fn fence(&mut self) -> Result;
    /// What rank `from` has stored before the last fence.
    fn get(&mut self, from: u32, key: &str) -> Result<String>;
    /// Ends the job with `code`. May return before that has happened.
    fn abort(&mut self, code: i32, text: &str);
    /// Whether its user then sees that code.
    fn keeps_code(&self) -> bool {
        true
    }
    /// Whether it closes all outputs as soon as a rank aborts, so that what others say of it is lost.
    fn closes_outputs(&self) -> bool {
        false
    }
    /// Leaves: from now on the process may exit.
    fn finalize(&mut self) -> Result;
}

/// Stores a value of any length.
pub fn put_long(launcher: &mut dyn Launcher, key: &str, value: &str) -> Result {
    let piece = launcher.value_max().max(16);
    let pieces: Vec<&str> = (0..value.len()).step_by(piece).map(|at| &value[at..value.len().min(at + piece)]).collect();
    launcher.put(key, &pieces.len().to_string())?;
    for (number, piece) in pieces.iter().enumerate() {
        launcher.put(&format!("{key}.{number}"), piece)?;
    }
    Ok(())
}

/// Reads what [`put_long`] has stored.
pub fn get_long(launcher: &mut dyn Launcher, from: u32, key: &str) -> Result<String> {
    let Ok(count) = launcher.get(from, key)?.parse::<u32>() else {
        fail!(ERR_OTHER, "the launcher's key-value space holds something else than was stored");
    };
    (0..count).map(|number| launcher.get(from, &format!("{key}.{number}"))).collect()
}

/// Under this key the first rank of a node puts the ranks there.
fn peers_key(leader: u32) -> String {
    format!("ferrule-peers-{leader}")
}

/// The ranks of a list.
pub fn ranks_of(list: &str) -> impl Iterator<Item = u32> {
    list.split(',').filter_map(|p| p.trim().parse().ok())
}

/// The first rank of a node tells which ranks are there, before the first fence.
pub fn put_peers(launcher: &mut dyn Launcher, peers: &str) -> Result {
    let Place { rank, leader, .. } = *launcher.place();
    if rank == leader { put_long(launcher, &peers_key(leader), peers) } else { Ok(()) }
}

/// For each rank the lowest rank on its node, as [`put_peers`] has told. The lowest rank that belongs to no node yet leads one.
pub fn leaders_by_peers(launcher: &mut dyn Launcher) -> Result<Vec<u32>> {
    let mut leaders: Vec<Option<u32>> = vec![None; launcher.place().size as usize];
    while let Some(first) = leaders.iter().position(Option::is_none) {
        let leader = first as u32;
        for peer in ranks_of(&get_long(launcher, leader, &peers_key(leader))?) {
            match leaders.get_mut(peer as usize) {
                Some(unknown) if unknown.is_none() => *unknown = Some(leader),
                _ => fail!(ERR_OTHER, "the launcher puts a rank on two nodes, or one that does not exist"),
            }
        }
        ensure!(leaders[first].is_some(), ERR_OTHER, "the launcher's nodes do not hold all ranks");
    }
    Ok(leaders.into_iter().flatten().collect())
}

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
