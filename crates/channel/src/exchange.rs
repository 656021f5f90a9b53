//! The rank's part in an exchange of endpoints (`protocol::control::exchange`), and connecting to everybody at once: all that
//! `MPI_Init` does besides opening this process's own channels.
//!
//! ```text
//! open channels ─ register ─► exchange ─► barrier ─► connect all (if asked for) ─► barrier
//! ```
//! After the exchange nobody asks the agents for endpoint addresses any more, except for the descriptors of ranks under the same kernel. The barrier
//! keeps messages of the program apart from those of the exchange, which travel on the same lanes.

mod in_band;

use crate::bootstrap::{EndpointAddress, Exchanged, JobInfo};
use crate::fabric::ChannelFabric;
use crate::tcp::hello::Ids;
use base::{Peer, Result, counters, ensure};
use protocol::control::exchange::hypercube::Hypercube;
use protocol::control::exchange::original::pick;
use protocol::control::exchange::ring::Ring;
use protocol::control::exchange::{Entry, Exchange, Id, Offer, Scheme};
use protocol::control::rank::Times;
use protocol::control::{decode, encode};
use std::collections::HashMap;
use sys::clock::now_ns;

/// Ids by which the other ranks may call this one; none if the scheme has none.
pub(crate) fn own_ids(job: &JobInfo) -> HashMap<Peer, Id> {
    if !job.startup.scheme().described().ids {
        return HashMap::new();
    }
    let mut bytes = vec![0; size_of::<Id>() * job.size as usize];
    sys::process::random(&mut bytes);
    let (ids, _) = bytes.as_chunks();
    (0..job.size).map(Peer).zip(ids.iter().copied()).filter(|(peer, _)| *peer != job.rank).collect()
}

/// What an endpoint address carries besides in a ring: ids for the two neighbors, who must connect before ids go round.
pub(crate) fn ids_for_neighbors(job: &JobInfo, ids: &HashMap<Peer, Id>) -> Vec<u8> {
    if ids.is_empty() || !job.startup.scheme().described().in_band {
        return Vec::new();
    }
    let (left, right) = Ring::neighbors(job.rank, job.size);
    let known = [left, right].into_iter().filter_map(|peer| Some((peer.0, *ids.get(&peer)?)));
    encode(&known.collect::<Vec<(u32, Id)>>())
}

/// Notes the id for `me` in the endpoint address of a neighbor, if there is one.
pub(crate) fn note_neighbors_id(me: Peer, peer: Peer, address: &EndpointAddress, ids: &mut Ids) {
    let known = decode::<Vec<(u32, Id)>>(&address.extra).unwrap_or_default();
    if let Some((_, id)) = known.into_iter().find(|(rank, _)| *rank == me.0) {
        ids.theirs.entry(peer).or_insert(id);
    }
}

/// Exchanges endpoints as the job says, and tells where the time went.
pub(crate) fn start(fabric: &mut ChannelFabric) -> Result {
    let startup = fabric.job().startup.clone();
    let (began_ns, described_ns) = fabric.bootstrap().joined_ns();
    let opened_ns = now_ns();
    if fabric.job().size > 1 {
        exchange(fabric, startup.scheme(), startup.generation)?;
    }
    fabric.bootstrap().count_as_exchange(false);
    let exchanged_ns = now_ns();
    if startup.scheme() != Scheme::Lazy {
        fabric.flush_all()?;
        fabric.bootstrap().barrier()?;
    }
    let (mut fenced_ns, mut connect_ns) = (now_ns(), opened_ns - described_ns);
    if startup.connect_all {
        fabric.connect_all()?;
        let connected_ns = now_ns();
        fabric.bootstrap().barrier()?;
        connect_ns += connected_ns - fenced_ns;
        // The second barrier counts as part of the first.
        fenced_ns += now_ns() - connected_ns;
    }
    if startup.report {
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
            connections: fabric.open_lanes_count(),
        };
        fabric.bootstrap().tell_times(times)?;
    }
    Ok(())
}

fn exchange(fabric: &mut ChannelFabric, scheme: Scheme, generation: u32) -> Result {
    let (me, size) = (fabric.job().rank, fabric.job().size);
    let ids: Vec<Id> = fabric.own_ids();
    let own = |fabric: &ChannelFabric, ids| {
        let address = fabric.address().cloned();
        ensure!(address.is_some(), ERR_INTERN, "an exchange of endpoints without an endpoint address");
        Ok(address.map(|address| Offer { rank: me, address, ids }))
    };
    let exchange: Box<dyn Exchange> = match scheme {
        Scheme::Lazy => return Ok(()),
        Scheme::Original | Scheme::Dr | Scheme::Tree => {
            let entries = match fabric.bootstrap().exchange(ids)? {
                Exchanged::Table(offers) => pick(me, size, offers)?,
                Exchanged::Entries(entries) => entries,
                Exchanged::AtAgent => Vec::new(),
            };
            return fabric.learn(entries);
        }
        Scheme::Bc | Scheme::MpdBc => match own(fabric, ids)? {
            Some(own) => Box::new(Ring::new(own, size, generation)),
            None => return Ok(()),
        },
        Scheme::Hypercube => match own(fabric, Vec::new())? {
            Some(own) => Box::new(Hypercube::new(own, size, generation)),
            None => return Ok(()),
        },
    };
    let offers = in_band::run(fabric, exchange)?;
    let entries = offers.into_iter().filter(|o| o.rank != me);
    fabric.learn(entries.map(|o| Entry { peer: o.rank, id: o.id_for(me), address: o.address }).collect())
}
