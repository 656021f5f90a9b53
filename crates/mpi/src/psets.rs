//! Process sets (MPI-5.0, 11.3.2): `mpi://WORLD`, all processes of the job, and `mpi://SELF`.

use crate::job;
use crate::status::UNDEFINED;
use base::{Peer, Result, fail};

/// All processes of the job.
const WORLD: &str = "mpi://WORLD";
const SELF: &str = "mpi://SELF";
const PSETS: [&str; 2] = [WORLD, SELF];

/// `MPI_Session_get_num_psets`.
pub fn count() -> i32 {
    PSETS.len() as i32
}

/// `MPI_Session_get_nth_pset`.
pub fn nth(n: i32) -> Result<&'static str> {
    match usize::try_from(n).ok().and_then(|n| PSETS.get(n)) {
        Some(name) => Ok(name),
        None => fail!(ERR_ARG, "no process set has this number"),
    }
}

/// Number of processes of a set.
pub fn size(name: &[u8]) -> Result<u32> {
    Ok(match lookup(name)? {
        WORLD => job::world_size(),
        _ => 1,
    })
}

/// The processes of a set.
pub fn members(name: &[u8]) -> Result<Vec<Peer>> {
    Ok(match lookup(name)? {
        WORLD => job::world(),
        _ => vec![job::me()],
    })
}

/// For `MPI_Comm_split_type`: who has the same number is in the same set of this name.
pub fn colour(name: &str) -> i32 {
    match lookup(name.as_bytes()) {
        Ok(WORLD) => 0,
        Ok(_) => job::id_of(job::me()).rank.0 as i32,
        Err(_) => UNDEFINED,
    }
}

/// Names of process sets are URIs; their scheme and ours after it don't depend on the case.
fn lookup(name: &[u8]) -> Result<&'static str> {
    match PSETS.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        Some(known) => Ok(known),
        None => fail!(ERR_ARG, "no such process set"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn process_sets_have_numbers_and_names() {
        assert_eq!(nth(0), Ok(WORLD));
        assert_eq!(nth(count()).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(nth(-1).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(lookup(b"MPI://world"), Ok(WORLD));
        assert_eq!(lookup(b"mpi://other").unwrap_err().class, Class::ERR_ARG);
    }
}
