//! What another launcher's process manager must offer to a rank, and values that ranks leave there for each other.

use base::{Result, ensure, fail};

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
    /// Stores a value; all ranks can read it after the next fence.
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
