//! Processes of other jobs: how this one can be reached by them, and who they are (decision 0048). What is asked of mpiexec for that.
//!
//! They are reached over TCP. Each pair has a secret of its own connection; the keys of the jobs stay in the jobs.

use super::{Transports, inboxes, refused};
use crate::bootstrap::EndpointAddress;
use crate::locality;
use base::ids::ProcId;
use base::{Peer, Result, fail};
use protocol::control::spawn::{Answer, Request};
use protocol::endpoint::Endpoints;

/// A process of another job, as the groups tell each other.
pub struct Stranger {
    /// Who it is.
    pub id: ProcId,
    /// Where it is.
    pub address: EndpointAddress,
}

/// This process's endpoint address for other jobs. It has sockets from then on, if it had none.
pub fn own_address(endpoints: &mut Endpoints<Transports>) -> Result<EndpointAddress> {
    let transports = endpoints.transport();
    if transports.net.is_none() {
        transports.net = inboxes::net(&transports.job, &transports.processes, &transports.epoll);
    }
    let Some(net) = &transports.net else {
        fail!(ERR_OTHER, "other jobs are reached over TCP, which FERRULE_CHANNELS excludes or which can't listen");
    };
    let rank_id = match transports.finder.own_address() {
        Some(own) => own.rank_id,
        None => u128::from_le_bytes(sys::mem::random().map_err(|e| refused("no random numbers", &e))?),
    };
    Ok(locality::own_address(rank_id, net.addresses().to_vec()))
}

/// A process of another job that may talk to this one; both ends know `secret`.
pub fn admit(endpoints: &mut Endpoints<Transports>, other: Stranger, secret: [u8; 16]) -> Result<Peer> {
    let transports = endpoints.transport();
    let peer = transports.processes.borrow_mut().learn(other.id)?;
    if other.id.job != transports.processes.borrow().own_id().job {
        transports.finder.learn_of_other_job(peer, other.address);
        if let Some(net) = &mut transports.net {
            net.admit(peer, secret);
        }
    }
    Ok(peer)
}

/// Asks something of mpiexec; the number of the request.
pub fn ask_mpiexec(endpoints: &mut Endpoints<Transports>, request: Request) -> Result<u64> {
    endpoints.transport().finder.ask_mpiexec(request)
}

/// The answer to a request if it is there.
pub fn take_answer(endpoints: &mut Endpoints<Transports>, number: u64) -> Result<Option<Answer>> {
    let transports = endpoints.transport();
    transports.poll_control();
    transports.finder.take_answer(number)
}
