//! Collectives that the library itself needs, to create communicators: on intra-communicators, apart from the program's.

use super::blocks::Blocks;
use super::plan::{Plan, run};
use super::span::{BYTES, Span};
use super::team::{Team, Via};
use super::wire::Numbering;
use super::{allgather, allreduce, barrier, bcast, builder::Builder};
use crate::comm::Comm;
use crate::cs::Section;
use crate::datatype;
use crate::op::{self, Predefined};
use base::ids::Plane;
use base::{Class, Error, Result};
use std::rc::Rc;

const PLANE: Plane = Plane::Management;
/// Tag of the last barrier; sequence numbers aren't negative.
const LAST: i32 = -1;

fn bytes(ptr: *mut u8, count: usize) -> Span {
    Span { ptr, count, shape: BYTES }
}

/// Waits for all processes.
pub fn barrier(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    run(cs, Plan::new(cs, comm, PLANE, barrier::build)?)
}

/// The barrier of `MPI_Finalize`. After failures processes may have entered different numbers of collectives, so it goes by no number: what
/// is left of a collective that failed is never taken for it.
pub fn last_barrier(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    run(cs, Plan::numbered(cs, comm, Numbering::Fixed(Plane::Collective, LAST), barrier::build)?)
}

/// Everybody gets the root's `data`, of a length that all know.
pub fn bcast_bytes(cs: &mut Section, comm: &Rc<Comm>, root: i32, data: &mut [u8]) -> Result {
    let data = bytes(data.as_mut_ptr(), data.len());
    run(
        cs,
        Plan::new(cs, comm, PLANE, |b, view| {
            bcast::local(b, view, root as usize, data);
            Ok(())
        })?,
    )
}

fn gather_all(b: &mut Builder, team: &Team<'_>, mine: Span, all: Span) {
    let blocks = Blocks::Even { base: all, count: mine.count };
    b.copy(mine, blocks.get(team.rank));
    if team.size <= 16 {
        allgather::exchange::build(b, team, blocks);
    } else {
        allgather::bruck::build(b, team, blocks);
    }
}

/// A plan that gives everybody the `len` bytes of all: for a creation that doesn't block.
///
/// # Safety
/// `mine` holds `len` bytes and `all` room for `len` from each process until the plan has run.
pub unsafe fn plan_allgather_bytes(
    cs: &Section,
    comm: &Rc<Comm>,
    mine: *const u8,
    all: *mut u8,
    len: usize,
) -> Result<Plan> {
    Plan::new(cs, comm, PLANE, |b, view| {
        gather_all(b, &view.team(), bytes(mine.cast_mut(), len), bytes(all, len * view.size));
        Ok(())
    })
}

/// The bytes of all processes one after the other; all give the same number.
pub fn allgather_bytes(cs: &mut Section, comm: &Rc<Comm>, mine: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0; mine.len() * comm.size() as usize];
    // SAFETY: both vectors live until `run` returns.
    run(cs, unsafe { plan_allgather_bytes(cs, comm, mine.as_ptr(), all.as_mut_ptr(), mine.len())? })?;
    Ok(all)
}

/// The bytes of each process, which may be of different numbers.
pub fn allgatherv_bytes(cs: &mut Section, comm: &Rc<Comm>, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let lens = allgather_bytes(cs, comm, &(mine.len() as u64).to_le_bytes())?;
    let lens = lens.chunks_exact(8).map(|c| u64::from_le_bytes(std::array::from_fn(|i| c[i])) as usize);
    let mut all: Vec<Vec<u8>> = lens.map(|len| vec![0; len]).collect();
    all[comm.rank as usize].copy_from_slice(mine);
    let spans: Vec<Span> = all.iter_mut().map(|v| bytes(v.as_mut_ptr(), v.len())).collect();
    run(
        cs,
        Plan::new(cs, comm, PLANE, |b, view| {
            allgather::exchange::build(b, &view.team(), Blocks::Spans(&spans));
            Ok(())
        })?,
    )?;
    Ok(all)
}

/// As [`allgather_bytes`] among these ranks of the communicator only, one of which is this process. `tag` tells concurrent
/// calls apart (the tag of `MPI_Comm_create_group`).
pub fn allgather_bytes_among(
    cs: &mut Section,
    comm: &Rc<Comm>,
    ranks: &[i32],
    tag: i32,
    mine: &[u8],
) -> Result<Vec<u8>> {
    let members: Vec<u32> = ranks.iter().map(|&r| r as u32).collect();
    let here = ranks.iter().position(|&r| r == comm.rank);
    let here = here.ok_or(Error::new(Class::ERR_GROUP, "this process is not in the group"))?;
    let mut all = vec![0; mine.len() * ranks.len()];
    let (own, into) = (bytes(mine.as_ptr().cast_mut(), mine.len()), bytes(all.as_mut_ptr(), all.len()));
    // Sequence numbers aren't negative, so these tags are nobody else's.
    run(
        cs,
        Plan::numbered(cs, comm, Numbering::Fixed(PLANE, !tag), |b, _| {
            gather_all(b, &Team::subset(&members, here, Via::Comm), own, into);
            Ok(())
        })?,
    )?;
    Ok(all)
}

/// A plan that combines `count` integers of each process in place: for a creation that doesn't block.
///
/// # Safety
/// `values` points at `count` integers until the plan has run.
pub unsafe fn plan_allreduce_i64(
    cs: &Section,
    comm: &Rc<Comm>,
    values: *mut i64,
    count: usize,
    op: Predefined,
) -> Result<Plan> {
    let datatype = datatype::predefined(datatype::Name::MPI_INT64_T);
    let op = op::predefined(op);
    Plan::new(cs, comm, PLANE, |b, view| {
        b.set_reduction(op, datatype);
        let span = Span { ptr: values.cast(), count, shape: b.shape(datatype) };
        if view.size > 1 {
            allreduce::recursive_doubling::build(b, &view.team(), span, span);
        }
        Ok(())
    })
}

/// Combines integers of all processes in place.
pub fn allreduce_i64(cs: &mut Section, comm: &Rc<Comm>, values: &mut [i64], op: Predefined) -> Result {
    // SAFETY: the slice lives until `run` returns.
    run(cs, unsafe { plan_allreduce_i64(cs, comm, values.as_mut_ptr(), values.len(), op)? })
}
