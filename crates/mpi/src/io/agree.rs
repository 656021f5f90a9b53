//! What the processes of a file tell each other besides data.

use crate::coll::internal::{allgather_bytes, allreduce_i64, bcast_bytes};
use crate::comm::Comm;
use crate::cs::Section;
use crate::op::Predefined;
use base::{Class, Error, Result, ensure};
use std::rc::Rc;

/// Lifts every error code above 0.
const LIFT: i64 = 1 << 32;

/// The processes agree whether a step has succeeded on all of them. A process that has not failed gets the greatest class of the others.
/// Returns when all have entered.
pub fn agree<T>(cs: &mut Section, comm: &Rc<Comm>, mine: Result<T>) -> Result<T> {
    let mut worst = [mine.as_ref().err().map_or(0, |error| i64::from(error.class.0) + LIFT)];
    if comm.size() > 1 {
        allreduce_i64(cs, comm, &mut worst, Predefined::Max)?;
    }
    let others = Error::new(Class((worst[0] - LIFT) as i32), "another process of the file has failed");
    mine.and_then(|value| if worst[0] == 0 { Ok(value) } else { Err(others) })
}

/// `ERR_NOT_SAME` if the processes have given different numbers.
pub fn ensure_same(cs: &mut Section, comm: &Rc<Comm>, number: i64) -> Result {
    let all = allgather_bytes(cs, comm, &number.to_le_bytes())?;
    let same = all.chunks_exact(8).all(|other| other == number.to_le_bytes());
    ensure!(same, ERR_NOT_SAME, "the processes have given different arguments");
    Ok(())
}

/// A number of rank 0 for all.
pub fn share(cs: &mut Section, comm: &Rc<Comm>, number: i64) -> Result<i64> {
    let mut bytes = number.to_le_bytes();
    bcast_bytes(cs, comm, 0, &mut bytes)?;
    Ok(i64::from_le_bytes(bytes))
}

/// Bytes of rank 0 for all.
pub fn share_bytes(cs: &mut Section, comm: &Rc<Comm>, bytes: &[u8]) -> Result<Vec<u8>> {
    let len = share(cs, comm, bytes.len() as i64)?;
    let mut all = bytes.to_vec();
    all.resize(len as usize, 0);
    bcast_bytes(cs, comm, 0, &mut all)?;
    Ok(all)
}
