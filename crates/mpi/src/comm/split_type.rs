//! `MPI_Comm_split_type` (MPI-5.0, 7.4.2) and `MPI_Get_hw_resource_info` (9.1.3): splitting by shared resources.
//!
//! Resource types: `mpi_shared_memory` and `hwloc://Machine` (processes that can share memory), `hwloc://NUMANode`,
//! `hwloc://PU`. A process is restricted to a resource if all CPUs that it may use belong to one instance of it.

use super::{Comm, split};
use crate::coll::internal::allgather_bytes;
use crate::info::Info;
use crate::init;
use crate::session;
use crate::status::UNDEFINED;
use base::{Result, ensure};
use std::rc::Rc;

/// `MPI_COMM_TYPE_SHARED`.
pub const COMM_TYPE_SHARED: i32 = 221;
/// `MPI_COMM_TYPE_HW_UNGUIDED`.
pub const COMM_TYPE_HW_UNGUIDED: i32 = 222;
/// `MPI_COMM_TYPE_HW_GUIDED`.
pub const COMM_TYPE_HW_GUIDED: i32 = 223;
/// `MPI_COMM_TYPE_RESOURCE_GUIDED`.
pub const COMM_TYPE_RESOURCE_GUIDED: i32 = 224;

const RESOURCE_KEY: &str = "mpi_hw_resource_type";
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// Resource types from the widest to the narrowest.
const LEVELS: [&str; 3] = ["hwloc://Machine", "hwloc://NUMANode", "hwloc://PU"];

/// This process's instance of each of the [`LEVELS`], or `MPI_UNDEFINED` if it isn't restricted to one.
fn instances() -> [i32; LEVELS.len()] {
    let machine = init::node_of(init::me());
    let Ok(allowed) = sys::affinity::allowed() else { return [machine, UNDEFINED, UNDEFINED] };
    const PER_MACHINE: i32 = 1 << 16;
    let numbered = |local: Option<usize>| match local {
        Some(local) if (local as i32) < PER_MACHINE && machine < i32::MAX / PER_MACHINE => {
            machine * PER_MACHINE + local as i32
        }
        _ => UNDEFINED,
    };
    let mut nodes: Vec<Option<usize>> = allowed.iter().map(sys::affinity::numa_node).collect();
    nodes.dedup();
    let numa = if let [Some(node)] = nodes[..] { Some(node) } else { None };
    let pu = if allowed.count() == 1 { allowed.iter().next() } else { None };
    [machine, numbered(numa), numbered(pu)]
}

/// `MPI_Get_hw_resource_info`: for each resource type whether this process is restricted to one instance.
pub fn hardware_info() -> Info {
    let info = Info::new();
    let put = |name: &str, instance: i32| info.put(name, if instance == UNDEFINED { b"false" } else { b"true" });
    let instances = instances();
    put(SHARED_MEMORY, instances[0]);
    for (name, instance) in LEVELS.iter().zip(instances) {
        put(name, instance);
    }
    info
}

/// `MPI_Comm_split_type`.
pub fn split_type(comm: &Rc<Comm>, kind: i32, key: i32, info: Option<&Info>) -> Result<Option<Rc<Comm>>> {
    const KINDS: [i32; 5] =
        [UNDEFINED, COMM_TYPE_SHARED, COMM_TYPE_HW_UNGUIDED, COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED];
    ensure!(KINDS.contains(&kind), ERR_ARG, "no such split type");
    let text = |name: &str| info.and_then(|info| info.text(name));
    // A process that gives MPI_UNDEFINED can't know what the others ask for, so this step is taken for every kind.
    let level = dividing_level(&gather_unguided(comm, kind == COMM_TYPE_HW_UNGUIDED)?);
    let colour = match kind {
        COMM_TYPE_SHARED => instances()[0],
        COMM_TYPE_HW_UNGUIDED => level.map_or(UNDEFINED, |level| instances()[level]),
        COMM_TYPE_HW_GUIDED => text(RESOURCE_KEY).map_or(UNDEFINED, |name| instance_of(&name)),
        COMM_TYPE_RESOURCE_GUIDED => match (text(RESOURCE_KEY), text("mpi_pset_name")) {
            (Some(name), None) => instance_of(&name),
            (None, Some(pset)) => session::colour_of_pset(&pset),
            _ => UNDEFINED,
        },
        _ => UNDEFINED,
    };
    let new = split::split(comm, colour, key)?;
    if let (COMM_TYPE_HW_UNGUIDED, Some(level), Some(info), Some(_)) = (kind, level, info, &new) {
        info.put(RESOURCE_KEY, LEVELS[level].as_bytes());
    }
    Ok(new)
}

/// The instances of all processes (on this side) that ask for `MPI_COMM_TYPE_HW_UNGUIDED`.
fn gather_unguided(comm: &Rc<Comm>, unguided: bool) -> Result<Vec<[i32; LEVELS.len()]>> {
    let mut mine = vec![u8::from(unguided)];
    mine.extend(instances().iter().flat_map(|i| i.to_le_bytes()));
    let all = allgather_bytes(comm.local.as_ref().unwrap_or(comm), &mine)?;
    let word = |c: &[u8], i: usize| i32::from_le_bytes(std::array::from_fn(|b| c[1 + 4 * i + b]));
    let asking = all.chunks_exact(mine.len()).filter(|c| c[0] != 0);
    Ok(asking.map(|c| std::array::from_fn(|i| word(c, i))).collect())
}

/// The widest level at which the processes are not all together.
fn dividing_level(wishes: &[[i32; LEVELS.len()]]) -> Option<usize> {
    (0..LEVELS.len()).find(|&level| wishes.iter().any(|w| w[level] != wishes[0][level]))
}

/// The instance of the named resource type that this process is restricted to.
fn instance_of(name: &str) -> i32 {
    let level = if name == SHARED_MEMORY { Some(0) } else { LEVELS.iter().position(|level| *level == name) };
    level.map_or(UNDEFINED, |level| instances()[level])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unguided_takes_the_widest_level_that_divides() {
        assert_eq!(dividing_level(&[]), None);
        assert_eq!(dividing_level(&[[0, 1, 2], [0, 1, 2]]), None);
        assert_eq!(dividing_level(&[[0, 1, 2], [0, 1, 3]]), Some(2));
        assert_eq!(dividing_level(&[[0, 1, 2], [1, 7, 9]]), Some(0));
    }
}
