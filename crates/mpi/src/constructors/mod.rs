//! Constructors and the collective destructor of communicators (MPI-5.0, 7.4.2, 7.4.3, 7.6).
//!
//! They stand above [`crate::coll`], as the members tell each other about the new communicator by collectives; those that only need
//! a context id ([`crate::comm::agree`]) block or not.

mod create;
mod duplicate;
mod inter;
mod split;
mod split_type;

use crate::cs::Section;
pub(crate) use create::from_members;
pub use create::{create, create_from_group, create_group};
pub(crate) use duplicate::for_library;
pub use duplicate::{dup, dup_with_info, idup, idup_with_info};
pub(crate) use inter::share;
pub use inter::{intercomm_create, intercomm_create_from_groups, intercomm_merge};
pub use split::split;
pub use split_type::SplitType;
pub use split_type::{hardware_info, split_type};

use crate::coll::internal::barrier;
use crate::comm::exchange::exchange;
use crate::comm::{self, Comm};
use crate::handle::Handle;
use crate::losses::Participants;
use crate::{engine, progress};
use base::{Result, ensure};
use std::rc::Rc;

/// `MPI_Comm_disconnect`: as [`comm::free`], after every member has called it, so that what was sent has left.
pub fn disconnect(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    let handle = comm.handle();
    ensure!(
        handle != Handle::COMM_WORLD && handle != Handle::COMM_SELF,
        ERR_COMM,
        "a predefined communicator can't be freed"
    );
    progress::wait_until(cs, |cs| engine::with(cs, |engine| !engine.has_unsent()));
    synchronize(cs, comm)?;
    comm::free(cs, comm)
}

/// Returns when every member of the communicator, on both sides, has called it.
fn synchronize(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    let (Some(local), Some(remote)) = (&comm.local, &comm.remote) else { return barrier(cs, comm) };
    let channel = duplicate::collective_channel(comm);
    barrier(cs, local)?;
    let met = match comm.rank {
        0 => exchange(cs, channel, remote.peer(0), &[], &Participants::of(comm.groups())).map(drop),
        _ => Ok(()),
    };
    barrier(cs, local).and(met)
}
