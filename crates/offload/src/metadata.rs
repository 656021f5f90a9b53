//! What a rank says of an operation, checked: its schedule, and whether the operation fits the memory that the rank shares.

use base::{Class, Error, Result};
use mpi::coll::portable::{Channel, Identity, Portable};
use shm::offload::Request;

/// The longest schedule, in bytes.
pub const SCHEDULE_MAX: u64 = 16 << 20;

const INVALID: Error = Error::new(Class::ERR_INTERN, "a rank has posted an operation that is none");

/// The length of the schedule that a rank has posted.
pub fn schedule_len(request: &Request) -> Result<usize> {
    if (1..=SCHEDULE_MAX).contains(&request.len) { Ok(request.len as usize) } else { Err(INVALID) }
}

/// A schedule from the bytes of another process: private ones, of which nothing is trusted. All that its steps touch lies in the regions that it lists.
pub fn schedule(bytes: &[u8], endpoints_max: usize) -> Result<Portable> {
    let portable = Portable::decode(bytes)?;
    let fits = portable.runs_anywhere() && portable.endpoint_count() <= endpoints_max;
    if fits { Ok(portable) } else { Err(INVALID) }
}

/// Whose operation it is: the agent has told the process, the rank only its messages' context and tag.
pub fn identity(process: u64, request: &Request) -> Result<Identity> {
    let mut identity = Identity { process, round: request.round, ..Identity::default() };
    for (channel, (context, tag)) in identity.channels.iter_mut().zip(request.channels) {
        *channel = Channel { context, tag: u32::try_from(tag).map_err(|_| INVALID)? as i32 };
    }
    Ok(identity)
}
