//! The rank's part in an exchange of endpoints (`protocol::control::exchange`), and connecting to everybody at once: all that
//! `MPI_Init` does besides opening this process's own channels.
//!
//! ```text
//! open channels ─ register ─► exchange ─► barrier ─► connect all (if asked for) ─► barrier
//! ```
//! After the exchange nobody asks the agents for endpoint addresses any more, except for the descriptors of ranks under the same kernel. The barrier
//! keeps messages of the program apart from those of the exchange, which travel on the same lanes.

mod in_band;
pub mod startup;

use crate::bootstrap::Exchanged;
use crate::opened::Opened;
use base::{Result, counters, ensure};
use protocol::control::exchange::hypercube::Hypercube;
use protocol::control::exchange::original::pick;
use protocol::control::exchange::ring::Ring;
use protocol::control::exchange::{Entry, Exchange, Id, Offer, Scheme};
use protocol::control::rank::Times;
use startup::Startup;
use sys::clock::now_ns;

/// Exchanges endpoints as the job says, and tells where the time went.
pub fn run(opened: &mut Opened) -> Result {
    let startup = &mut Startup::of(opened);
    let bootstrap = startup.bootstrap.clone();
    let orders = startup.job().startup.clone();
    let (began_ns, described_ns) = bootstrap.borrow().joined_ns();
    let opened_ns = now_ns();
    if startup.job().size > 1 {
        exchange(startup, orders.scheme(), orders.generation)?;
    }
    bootstrap.borrow_mut().count_as_exchange(false);
    let exchanged_ns = now_ns();
    if orders.scheme() != Scheme::Lazy {
        startup.flush_all()?;
        bootstrap.borrow_mut().barrier()?;
    }
    let (mut fenced_ns, mut connect_ns) = (now_ns(), opened_ns - described_ns);
    if orders.connect_all {
        startup.connect_all()?;
        let connected_ns = now_ns();
        bootstrap.borrow_mut().barrier()?;
        connect_ns += connected_ns - fenced_ns;
        // The second barrier counts as part of the first.
        fenced_ns += now_ns() - connected_ns;
    }
    if orders.report {
        let times = Times {
            began_ns,
            locality_ns: described_ns - began_ns,
            connect_ns,
            exchange_ns: exchanged_ns - opened_ns,
            fence_ns: fenced_ns - exchanged_ns,
            sent_messages: counters::EXCHANGE_MESSAGES_SENT.value(),
            sent_bytes: counters::EXCHANGE_BYTES_SENT.value(),
            received_messages: counters::EXCHANGE_MESSAGES_RECEIVED.value(),
            received_bytes: counters::EXCHANGE_BYTES_RECEIVED.value(),
            agent_messages: counters::BOOTSTRAP_MESSAGES.value(),
            connections: startup.open_lanes_count(),
        };
        bootstrap.borrow_mut().tell_times(times)?;
    }
    Ok(())
}

fn exchange(startup: &mut Startup<'_>, scheme: Scheme, generation: u32) -> Result {
    let job = startup.job();
    let (me, size) = (job.rank, job.size);
    let ids: Vec<Id> = startup.own_ids();
    let own = |startup: &mut Startup<'_>, ids| {
        let address = startup.endpoints.transport().finder().own_address().cloned();
        ensure!(address.is_some(), ERR_INTERN, "an exchange of endpoints without an endpoint address");
        Ok(address.map(|address| Offer { rank: me, address, ids }))
    };
    let exchange: Box<dyn Exchange> = match scheme {
        Scheme::Lazy => return Ok(()),
        Scheme::Original | Scheme::Dr | Scheme::Tree => {
            let exchanged = startup.bootstrap.borrow_mut().exchange(ids)?;
            let entries = match exchanged {
                Exchanged::Table(offers) => pick(me, size, offers)?,
                Exchanged::Entries(entries) => entries,
                Exchanged::AtAgent => Vec::new(),
            };
            return startup.learn(entries);
        }
        Scheme::Bc | Scheme::MpdBc => match own(startup, ids)? {
            Some(own) => Box::new(Ring::new(own, size, generation)),
            None => return Ok(()),
        },
        Scheme::Hypercube => match own(startup, Vec::new())? {
            Some(own) => Box::new(Hypercube::new(own, size, generation)),
            None => return Ok(()),
        },
    };
    let offers = in_band::run(startup, exchange)?;
    let entries = offers.into_iter().filter(|o| o.rank != me);
    startup.learn(entries.map(|o| Entry { peer: o.rank, id: o.id_for(me), address: o.address }).collect())
}
