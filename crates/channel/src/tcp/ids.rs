//! Endpoint ids of an exchange: one per ordered pair of ranks, by which the first may call the second.

use super::hello::Ids;
use crate::bootstrap::{EndpointAddress, JobInfo};
use base::WorldRank;
use protocol::control::exchange::Id;
use protocol::control::exchange::ring::Ring;
use protocol::control::{decode, encode};
use std::collections::HashMap;

/// Ids by which the other ranks may call this one; none if the scheme has none.
pub fn own_ids(job: &JobInfo) -> HashMap<WorldRank, Id> {
    if !job.startup.scheme().described().ids {
        return HashMap::new();
    }
    let mut bytes = vec![0; size_of::<Id>() * job.size as usize];
    sys::process::fill_randomly(&mut bytes);
    let (ids, _) = bytes.as_chunks();
    (0..job.size).map(WorldRank).zip(ids.iter().copied()).filter(|(rank, _)| *rank != job.rank).collect()
}

/// What an endpoint address carries besides in a ring: ids for the two neighbors, who must connect before ids go round.
pub fn ids_for_neighbors(job: &JobInfo, ids: &HashMap<WorldRank, Id>) -> Vec<u8> {
    if ids.is_empty() || !job.startup.scheme().described().in_band {
        return Vec::new();
    }
    let (left, right) = Ring::neighbors(job.rank, job.size);
    let known = [left, right].into_iter().filter_map(|rank| Some((rank.0, *ids.get(&rank)?)));
    encode(&known.collect::<Vec<(u32, Id)>>())
}

/// Notes the id for `me` in the endpoint address of a neighbor, if there is one.
pub fn note_neighbors_id(me: WorldRank, rank: WorldRank, address: &EndpointAddress, ids: &mut Ids) {
    let known = decode::<Vec<(u32, Id)>>(&address.extra).unwrap_or_default();
    if let Some((_, id)) = known.into_iter().find(|(to, _)| *to == me.0) {
        ids.theirs.entry(rank).or_insert(id);
    }
}
