//! `MPI_Comm_split_type` (MPI-5.0, 7.4.2) and `MPI_Get_hw_resource_info` (9.1.3): splitting by shared resources.
//!
//! Resource types: `mpi_shared_memory` and `hwloc://Machine` (processes that can share memory), `hwloc://Package`,
//! `hwloc://NUMANode`, `hwloc://Core`, `hwloc://PU`. A process is restricted to a resource if all CPUs that it may use belong to one instance of it.

use super::split::split;
use crate::coll::internal::allgather_bytes;
use crate::comm::{self, Comm};
use crate::cs::Section;
use crate::info::Info;
use crate::job;
use crate::psets;
use crate::status::UNDEFINED;
use base::{Result, ensure, log};
use std::rc::Rc;
use sys::topology::{Thread, Topology};

/// How to split (`MPI_COMM_TYPE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SplitType {
    Shared,
    HwUnguided,
    HwGuided,
    ResourceGuided,
}

const RESOURCE_KEY: &str = "mpi_hw_resource_type";
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// Resource types from the widest to the narrowest.
const LEVELS: [&str; 5] = ["hwloc://Machine", "hwloc://Package", "hwloc://NUMANode", "hwloc://Core", "hwloc://PU"];

/// This process's instance of each of the [`LEVELS`], or `MPI_UNDEFINED` if it isn't restricted to one.
fn instances() -> [i32; LEVELS.len()] {
    let machine = job::node_of(job::me()).unwrap_or(UNDEFINED);
    let threads = match Topology::current() {
        Ok(topology) => topology.own_threads(),
        Err(why) => {
            log!(Error, "{why}");
            Vec::new()
        }
    };
    let [package, numa, core, pu] = places(&threads).map(|local| numbered(machine, local));
    [machine, package, numa, core, pu]
}

/// The package, NUMA node, core and processor that all `threads` belong to, by numbers that are unique in their machine.
fn places(threads: &[Thread]) -> [Option<usize>; LEVELS.len() - 1] {
    const CORES_OF_A_PACKAGE: usize = 1 << 12;
    let common = |place: &dyn Fn(&Thread) -> Option<usize>| {
        let first = place(threads.first()?)?;
        threads.iter().all(|t| place(t) == Some(first)).then_some(first)
    };
    let core = |t: &Thread| {
        (t.core < CORES_OF_A_PACKAGE).then(|| t.package.checked_mul(CORES_OF_A_PACKAGE)?.checked_add(t.core))
    };
    [common(&|t| Some(t.package)), common(&|t| t.numa), common(&|t| core(t).flatten()), common(&|t| Some(t.cpu))]
}

/// A number for the `local` instance of a machine that is unique in the job.
fn numbered(machine: i32, local: Option<usize>) -> i32 {
    const PER_MACHINE: i32 = 1 << 16;
    match local {
        Some(local) if local < PER_MACHINE as usize && (0..i32::MAX / PER_MACHINE).contains(&machine) => {
            machine * PER_MACHINE + local as i32
        }
        _ => UNDEFINED,
    }
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

/// `MPI_Comm_split_type`; no kind is `MPI_UNDEFINED`.
pub fn split_type(
    cs: &mut Section,
    comm: &Rc<Comm>,
    kind: Option<SplitType>,
    key: i32,
    info: Option<&Info>,
) -> Result<Option<Rc<Comm>>> {
    // Instances are numbered in a job.
    let is_of_one_job = comm.groups().into_iter().flatten().all(|group| job::contains_all(group.peers()));
    ensure!(is_of_one_job, ERR_COMM, "MPI_Comm_split_type of processes of several jobs is not implemented");
    let text = |name: &str| info.and_then(|info| info.text(name));
    // A process that gives MPI_UNDEFINED can't know what the others ask for, so this step is taken for every kind.
    let level = dividing_level(&gather_unguided(cs, comm, kind == Some(SplitType::HwUnguided))?);
    let colour = match kind {
        Some(SplitType::Shared) => instances()[0],
        Some(SplitType::HwUnguided) => level.map_or(UNDEFINED, |level| instances()[level]),
        Some(SplitType::HwGuided) => text(RESOURCE_KEY).map_or(UNDEFINED, |name| instance_of(&name)),
        Some(SplitType::ResourceGuided) => match (text(RESOURCE_KEY), text("mpi_pset_name")) {
            (Some(name), None) => instance_of(&name),
            (None, Some(pset)) => psets::colour(&pset),
            _ => UNDEFINED,
        },
        None => UNDEFINED,
    };
    let new = split(cs, comm, colour, key)?;
    if let (Some(new), Some(info)) = (&new, info) {
        comm::set_info(cs, new, info);
    }
    if let (Some(SplitType::HwUnguided), Some(level), Some(info), Some(_)) = (kind, level, info, &new) {
        info.put(RESOURCE_KEY, LEVELS[level].as_bytes());
    }
    Ok(new)
}

/// The instances of all processes (on this side) that ask for `MPI_COMM_TYPE_HW_UNGUIDED`.
fn gather_unguided(cs: &mut Section, comm: &Rc<Comm>, unguided: bool) -> Result<Vec<[i32; LEVELS.len()]>> {
    let mut mine = vec![u8::from(unguided)];
    mine.extend(instances().iter().flat_map(|i| i.to_le_bytes()));
    let all = allgather_bytes(cs, comm.local.as_ref().unwrap_or(comm), &mine)?;
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
        assert_eq!(dividing_level(&[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]), None);
        assert_eq!(dividing_level(&[[0, 1, 2, 3, 4], [0, 1, 3, 3, 4]]), Some(2));
        assert_eq!(dividing_level(&[[0, 1, 2, 3, 4], [1, 7, 9, 3, 4]]), Some(0));
    }

    #[test]
    fn a_process_is_in_what_all_its_processors_share() {
        let machine =
            sys::topology::hwloc::parse(include_str!("../../../sys/src/topology/testdata/two-sockets.xml")).unwrap();
        let on = |list: &str| {
            let cpus = sys::affinity::CpuSet::from_list(list).unwrap();
            places(&machine.threads().iter().filter(|t| cpus.contains(t.cpu)).copied().collect::<Vec<_>>())
        };
        assert_eq!(on("0-31"), [None; 4]);
        assert_eq!(on("8-15,24-31"), [Some(1), None, None, None]);
        assert_eq!(on("4-7,20-23"), [Some(0), Some(1), None, None]);
        assert_eq!(on("5,21"), [Some(0), Some(1), Some(5), None]);
        assert_eq!(on("31").map(|p| p.is_some()), [true; 4]);
        assert_ne!(on("8,24")[2], on("0,16")[2]);
        assert_eq!(on(""), [None; 4]);
        assert_eq!(
            (numbered(2, Some(3)), numbered(2, Some(1 << 16)), numbered(2, None)),
            (2 << 16 | 3, UNDEFINED, UNDEFINED)
        );
    }
}
