//! Processes of other jobs: how this one can be reached by them, and who they are (decision 0048).
//!
//! They are reached over TCP. Each pair has a secret of its own connection; the keys of the jobs stay in the jobs.

use super::{Transports, inboxes, refused};
use crate::bootstrap::EndpointAddress;
use crate::locality;
use base::ids::ProcId;
use base::{Peer, Result, fail};

/// A process of another job, as the groups tell each other.
pub struct Stranger {
    /// Who it is.
    pub id: ProcId,
    /// Where it is.
    pub address: EndpointAddress,
}

impl Transports {
    /// This process's endpoint address for other jobs. It has sockets from then on, if it had none.
    pub fn address_for_jobs(&mut self) -> Result<EndpointAddress> {
        if self.net.is_none() {
            self.net = inboxes::net(&self.job, &self.processes, &self.epoll);
        }
        let Some(net) = &self.net else {
            fail!(ERR_OTHER, "other jobs are reached over TCP, which FERRULE_CHANNELS excludes or which can't listen");
        };
        let rank_id = match self.finder.own_address() {
            Some(own) => own.rank_id,
            None => u128::from_le_bytes(sys::mem::random().map_err(|e| refused("no random numbers", &e))?),
        };
        Ok(locality::own_address(rank_id, net.addresses().to_vec()))
    }

    /// A process of another job that may talk to this one; both ends know `secret`.
    pub fn admit(&mut self, other: Stranger, secret: [u8; 16]) -> Result<Peer> {
        let peer = self.processes.borrow_mut().learn(other.id)?;
        if other.id.job != self.processes.borrow().own_id().job {
            self.finder.learn_of_other_job(peer, other.address);
            if let Some(net) = &mut self.net {
                net.admit(peer, secret);
            }
        }
        Ok(peer)
    }

    /// Looks whether the node agent says anything.
    pub fn look_at_agent(&mut self) {
        self.poll_control();
    }
}
