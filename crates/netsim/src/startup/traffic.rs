//! What the exchange of each scheme sends between hosts: closed forms that the simulation meets exactly.
//!
//! `original` moves N³ ids, `dr` 2 N² of them. `bc` and `mpd-bc` move N³ as well, but round the ring, where N links carry them at the same
//! time. `tree` and `hypercube` move an endpoint address for each rank to each host, `lazy` nothing.

use super::{Cost, Scheme, Shape};

/// Messages and bytes between hosts, launching included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Messages.
    pub messages: u64,
    /// Bytes, with headers.
    pub bytes: u64,
}

/// All messages between hosts from the launch to the last rank's return; `None` where the number of agents in the subtrees would
/// have to be walked (`tree` and `mpd-bc` with more than one level).
pub fn between_hosts(scheme: Scheme, shape: Shape, cost: &Cost) -> Option<Sent> {
    let (n, h, r) = (shape.ranks() as u64, shape.hosts as u64, shape.ranks_per_host as u64);
    let Cost { id_bytes: id, endpoint_bytes: endpoint, address_bytes: address, header_bytes: header, .. } = *cost;
    let flat = shape.levels() == 1;
    // Each agent says that it has started, is asked, and answers.
    let asked = 3 * h;
    let ring = if h > 1 { (h * (n - 1) + 2 * h, h * (n - 1) * n * id) } else { (0, 0) };
    let (messages, bytes) = match scheme {
        Scheme::Original => (asked + n, n * n * id + n * n * n * id),
        Scheme::Dr => (asked + n, 2 * n * n * id),
        Scheme::Bc => (asked + h + ring.0, n * address + n * 2 * address + ring.1),
        Scheme::MpdBc if flat => (2 * h + ring.0, n * address + h * n * 2 * address + ring.1),
        Scheme::Tree if flat => (2 * h, n * endpoint + h * n * endpoint),
        Scheme::Hypercube => doubling(h, r * endpoint),
        Scheme::Lazy => (0, 0),
        _ => return None,
    };
    Some(Sent { messages, bytes: bytes + messages * header })
}

/// Messages and bytes of recursive doubling between `h` agents that hold `own` bytes each.
fn doubling(h: u64, own: u64) -> (u64, u64) {
    let rounds = u64::from(h.ilog2());
    let power = 1 << rounds;
    let extra = h - power;
    let messages = rounds * power + 2 * extra;
    // In each round the agents of a subcube hold the same: its agents' own data and those of the partners beyond.
    let mut held: Vec<u64> = (0..power).map(|node| own * (1 + u64::from(node < extra))).collect();
    let mut bytes = extra * (own + h * own);
    for round in 0..rounds {
        bytes += held.iter().sum::<u64>();
        held = (0..power as usize).map(|node| held[node] + held[node ^ (1 << round)]).collect();
    }
    (messages, bytes)
}
