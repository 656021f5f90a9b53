//! The closed form of each scheme, for hosts with processors enough of their own.
//!
//! With N ranks on H hosts, r = N/H, k the width of the tree, s a session, f a fork, m a message's overhead, l a latency and b the time of a byte:
//!
//! | scheme | launch | exchange |
//! |---|---|---|
//! | original | H(s + 2l + (r+2)f + 2m) | ask 2Hm; then N max(m, N² id b) |
//! | dr | the same | ask, N² id b; then N(compose + max(m, N id b)) |
//! | bc | the same | addresses; then the ring: N − 1 steps of N ids |
//! | mpd-bc | levels(s + l + f) + w f + r f | addresses up and down the tree; N compose; then the ring |
//! | tree | the same | table up: N endpoint b(1 + 1/k + …); down: w N endpoint b |
//! | hypercube | the same | log₂H (2m + l) + N endpoint b, twice N endpoint b more if H is no power of two |
//! | lazy | the same | none |
//!
//! w is the longest way through the tree, counted in siblings: an agent starts its children, and sends to them, one after the other.
//! The simulation agrees within [`TOLERANCE`] (tests/closed_forms.rs); where two things overlap, the longer one counts.

use super::{Cost, Scheme, Shape};

/// Agreed difference to the simulation, as a part of it.
pub const TOLERANCE: f64 = 0.1;

/// Seconds until the last rank can return from `MPI_Init`.
pub fn seconds(scheme: Scheme, shape: Shape, cost: &Cost) -> f64 {
    let launch = if scheme.is_serial() { serial_launch(shape, cost) } else { tree_launch(shape, cost) };
    launch + exchange(scheme, shape, cost)
}

/// Hosts one after the other, until the launcher knows that the last one has started.
fn serial_launch(shape: Shape, cost: &Cost) -> f64 {
    let net = &cost.net;
    let forks = 2.0 + shape.ranks_per_host as f64;
    let one = cost.session_s + forks * cost.fork_s + 2.0 * net.latency_s + 2.0 * net.message_s + small(cost);
    shape.hosts as f64 * one
}

/// The tree of agents, until the last rank has registered.
fn tree_launch(shape: Shape, cost: &Cost) -> f64 {
    let opening = cost.session_s + cost.net.latency_s + cost.fork_s;
    along_tree(shape, opening, cost.fork_s) + shape.ranks_per_host as f64 * cost.fork_s + cost.init_s
}

fn small(cost: &Cost) -> f64 {
    cost.header_bytes as f64 * cost.net.byte_s
}

/// A message between processes of one host.
fn local(bytes: f64, cost: &Cost) -> f64 {
    2.0 * cost.net.message_s + cost.net.local_latency_s + (bytes + cost.header_bytes as f64) * cost.net.local_byte_s
}

/// A message between hosts.
fn remote(bytes: f64, cost: &Cost) -> f64 {
    2.0 * cost.net.message_s + cost.net.latency_s + (bytes + cost.header_bytes as f64) * cost.net.byte_s
}

fn exchange(scheme: Scheme, shape: Shape, cost: &Cost) -> f64 {
    let n = shape.ranks() as f64;
    let (id, endpoint, address) = (cost.id_bytes as f64, cost.endpoint_bytes as f64, cost.address_bytes as f64);
    match scheme {
        Scheme::Original => gather(shape, n * id, cost) + scatter(shape, n * n * id, 0.0, cost),
        Scheme::Dr => gather(shape, n * id, cost) + scatter(shape, n * id, cost.compose_s, cost),
        Scheme::Bc => {
            let r = shape.ranks_per_host as f64;
            let tell = n * cost.compose_s + shape.hosts as f64 * cost.net.message_s;
            gather(shape, address, cost) + tell + remote(r * 2.0 * address, cost) + ring(shape, cost)
        }
        Scheme::MpdBc => {
            let way = up(shape, address, cost) + n * cost.compose_s + down(shape, n * 2.0 * address, cost);
            way + ring(shape, cost)
        }
        Scheme::Tree => {
            up(shape, endpoint, cost) + down(shape, n * endpoint, cost) + deliver(shape, n * endpoint, cost)
        }
        Scheme::Hypercube => local(endpoint, cost) + doubling(shape, cost) + deliver(shape, n * endpoint, cost),
        Scheme::Lazy => cost.net.message_s + (endpoint + cost.header_bytes as f64) * cost.net.local_byte_s,
    }
}

/// The launcher asks all agents; each answers with `bytes` for each rank, as soon as these have registered.
fn gather(shape: Shape, bytes: f64, cost: &Cost) -> f64 {
    let (h, m) = (shape.hosts as f64, cost.net.message_s);
    let each = shape.ranks_per_host as f64 * bytes + cost.header_bytes as f64;
    let registered = (cost.init_s + local(bytes, cost) - cost.net.latency_s - 2.0 * m).max(0.0);
    let last = (h * m + cost.net.latency_s).max(registered) + remote(each, cost);
    // Answers come in behind each other, and wait until the launcher has asked everybody.
    let bytes_in = 2.0 * (m + cost.net.latency_s) + h * each * cost.net.byte_s + m;
    last.max(bytes_in).max(2.0 * h * m)
}

/// The launcher sends `bytes` to each rank, one after the other; the last one goes on through its agent.
fn scatter(shape: Shape, bytes: f64, compose_s: f64, cost: &Cost) -> f64 {
    let each = (bytes + cost.header_bytes as f64) * cost.net.byte_s;
    let spacing = each.max(cost.net.message_s + compose_s);
    shape.ranks() as f64 * spacing + cost.net.latency_s + cost.net.message_s + local(bytes, cost)
}

/// Data of all ranks up the tree: what comes into an agent, and into the launcher at last, comes one after the other.
fn up(shape: Shape, bytes: f64, cost: &Cost) -> f64 {
    let (k, levels) = (shape.tree_width.max(2) as f64, shape.levels());
    let mut part = shape.ranks() as f64 * bytes;
    let mut sum = local(bytes, cost);
    for _ in 0..levels {
        sum += part * cost.net.byte_s + cost.net.latency_s + 2.0 * cost.net.message_s;
        part /= k;
    }
    sum
}

/// The same bytes down the tree to each agent.
fn down(shape: Shape, bytes: f64, cost: &Cost) -> f64 {
    let each = ((bytes + cost.header_bytes as f64) * cost.net.byte_s).max(cost.net.message_s);
    along_tree(shape, cost.net.latency_s + 2.0 * cost.net.message_s, each)
}

/// The time until the last agent is reached, if a level costs `level_s` and passing a sibling, or arriving, `sibling_s`.
fn along_tree(shape: Shape, level_s: f64, sibling_s: f64) -> f64 {
    let time = |(levels, way): (usize, usize)| levels as f64 * level_s + way as f64 * sibling_s;
    longest_ways(shape).into_iter().map(time).fold(0.0, f64::max)
}

/// An agent hands `bytes` to each of its ranks.
fn deliver(shape: Shape, bytes: f64, cost: &Cost) -> f64 {
    let copy = cost.net.message_s + bytes * cost.net.local_byte_s;
    (shape.ranks_per_host as f64 - 1.0) * copy + local(bytes, cost)
}

/// Recursive doubling between agents.
fn doubling(shape: Shape, cost: &Cost) -> f64 {
    let (h, r, endpoint) = (shape.hosts, shape.ranks_per_host as f64, cost.endpoint_bytes as f64);
    if h == 1 {
        return 0.0;
    }
    let power = 1usize << h.ilog2();
    let rounds = f64::from(h.ilog2());
    let n = shape.ranks() as f64;
    let round = cost.net.latency_s + 2.0 * cost.net.message_s + small(cost);
    let mut sum = rounds * round;
    if h == power {
        sum += (n - r) * endpoint * cost.net.byte_s;
    } else {
        // The fullest agents hold two hosts' endpoint addresses when the doubling begins, but never more than all.
        let mut held = 2.0 * r;
        for _ in 0..h.ilog2() {
            sum += held.min(n) * endpoint * cost.net.byte_s;
            held *= 2.0;
        }
        sum += 2.0 * round + (r + n) * endpoint * cost.net.byte_s;
    }
    sum
}

/// Ranks learn their neighbours, connect, and N ids of each rank go round.
fn ring(shape: Shape, cost: &Cost) -> f64 {
    let (n, h, r) = (shape.ranks() as f64, shape.hosts as f64, shape.ranks_per_host as f64);
    let net = &cost.net;
    let begin = (r - 1.0) * net.message_s + local(2.0 * cost.address_bytes as f64, cost);
    if shape.ranks() == 1 {
        return begin;
    }
    let block = n * cost.id_bytes as f64 + cost.header_bytes as f64;
    let far = if shape.hosts > 1 { h } else { 0.0 };
    let near = n - far;
    let hello = if far > 0.0 { 2.0 * remote(0.0, cost) } else { 2.0 * local(0.0, cost) };
    let far_edge = 2.0 * net.message_s + net.latency_s + block * net.byte_s;
    let near_edge = 2.0 * net.message_s + net.local_latency_s + block * net.local_byte_s;
    // One block's way past all ranks, or what one edge has to carry.
    let way = (far * far_edge + near * near_edge) * (n - 1.0) / n;
    let busy = 2.0 * net.message_s + if near > 0.0 { block * net.local_byte_s } else { 0.0 };
    let carry = (n - 1.0) * busy.max(if far > 0.0 { block * net.byte_s } else { 0.0 }) + far_edge.min(near_edge);
    begin + hello + way.max(carry)
}

/// Levels and length of the longest way from the launcher to an agent, where passing a sibling costs one and so does arriving: in the deepest
/// level, and in the one above, which is full.
fn longest_ways(shape: Shape) -> [(usize, usize); 2] {
    let k = shape.tree_width.max(2);
    let (mut before, mut level, mut full) = (0, k, 0);
    while before + level < shape.hosts {
        before += level;
        level *= k;
        full += 1;
    }
    // `last` agents stand in the deepest level, below `full` full ones; an agent's way is the sum of its digits plus one each.
    let last = shape.hosts - before;
    let digits = full + 1;
    [(full, full * k), (digits, digit_sum_below(last, k, digits) + digits)]
}

/// The largest sum of the digits to base `k` of a number below `bound` (at most `k` to the power of `digits`).
fn digit_sum_below(bound: usize, k: usize, digits: usize) -> usize {
    let top = bound - 1;
    let digit = |i: usize| top / k.pow(i as u32) % k;
    let sum = |from: usize| (from..digits).map(digit).sum::<usize>();
    (0..digits).filter(|&i| digit(i) > 0).map(|i| sum(i) - 1 + i * (k - 1)).max().unwrap_or(0).max(sum(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::tree::{ROOT, children, parent};

    #[test]
    fn the_longest_way_is_that_of_the_tree() {
        for k in [2, 3, 16] {
            for hosts in 1..300 {
                let shape = Shape { hosts, ranks_per_host: 1, tree_width: k };
                let position = |node: u32| node - children(parent(node, k as u32), k as u32, hosts as u32).start + 1;
                let way = |mut node: u32| {
                    let mut sum = 0;
                    while node != ROOT {
                        sum += position(node);
                        node = parent(node, k as u32);
                    }
                    sum
                };
                let expected = (0..hosts as u32).map(way).max().unwrap();
                let found = longest_ways(shape).map(|(_, way)| way).into_iter().max();
                assert_eq!(found, Some(expected as usize), "{shape:?}");
            }
        }
    }
}
