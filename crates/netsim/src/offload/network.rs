//! Links of nodes: each direction carries one transfer after the other.
//!
//! A transfer takes the sender's link from when that is free, its first byte arrives a latency later, and it takes the receiver's link from when that is free. The switch between them
//! carries everything, and what waits for a receiver doesn't hold up others.

use super::settings::Settings;

/// Picoseconds of a time.
pub fn ps(us: f64) -> u64 {
    (us * 1e6).round() as u64
}

/// Picoseconds for so many bytes.
pub fn transfer_ps(bytes: u32, gb_s: f64) -> u64 {
    (f64::from(bytes) * 1000.0 / gb_s).round() as u64
}

/// When each direction of a node's link is free.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    out_ps: u64,
    in_ps: u64,
    /// From the host's memory to a SmartNIC's.
    staging_ps: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    latency_ps: u64,
    link_gb_s: f64,
    staging_gb_s: f64,
    /// What all links together have carried.
    pub bytes: u64,
    /// How long the busiest node's link was in use.
    out_busy_ps: Vec<u64>,
}

impl Network {
    /// Links at rest.
    pub fn new(settings: &Settings) -> Network {
        let nodes = settings.nodes as usize;
        Network {
            nodes: vec![Node::default(); nodes],
            latency_ps: ps(settings.latency_us),
            link_gb_s: settings.link_gb_s,
            staging_gb_s: settings.workers.as_ref().map_or(1.0, |workers| workers.staging_gb_s),
            bytes: 0,
            out_busy_ps: vec![0; nodes],
        }
    }

    /// One way.
    pub fn latency_ps(&self) -> u64 {
        self.latency_ps
    }

    /// A transfer between two nodes that begins at `now_ps` at the earliest; when its last byte is there. Calls come in the order of `now_ps`.
    pub fn carry(&mut self, now_ps: u64, from: usize, to: usize, bytes: u32) -> u64 {
        let takes_ps = transfer_ps(bytes, self.link_gb_s);
        let leaves_ps = self.nodes[from].out_ps.max(now_ps);
        self.nodes[from].out_ps = leaves_ps + takes_ps;
        self.out_busy_ps[from] += takes_ps;
        self.bytes += u64::from(bytes);
        let comes_ps = self.nodes[to].in_ps.max(leaves_ps + self.latency_ps);
        self.nodes[to].in_ps = comes_ps + takes_ps;
        comes_ps + takes_ps
    }

    /// From the host's memory to the SmartNIC's.
    pub fn stage(&mut self, now_ps: u64, node: usize, bytes: u32) -> u64 {
        let begins_ps = self.nodes[node].staging_ps.max(now_ps);
        self.nodes[node].staging_ps = begins_ps + transfer_ps(bytes, self.staging_gb_s);
        self.nodes[node].staging_ps
    }

    /// From the SmartNIC's memory to its own host's, which takes the way of what arrives.
    pub fn unstage(&mut self, now_ps: u64, node: usize, bytes: u32) -> u64 {
        let begins_ps = self.nodes[node].in_ps.max(now_ps);
        self.nodes[node].in_ps = begins_ps + transfer_ps(bytes, self.staging_gb_s);
        self.nodes[node].in_ps
    }

    /// The time in which the busiest node has sent.
    pub fn busiest_ps(&self) -> u64 {
        self.out_busy_ps.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_one_transfer_after_the_other() {
        // 1000 bytes take 1 µs, and a byte is there after 3 µs.
        let mut network = Network::new(&Settings { nodes: 3, link_gb_s: 1.0, latency_us: 3.0, ..Settings::cluster(1) });
        assert_eq!(network.carry(0, 0, 2, 1000), ps(4.0));
        // The same sender: its link is free after 1 µs.
        assert_eq!(network.carry(0, 0, 1, 1000), ps(5.0));
        // The same receiver, whose link is free after 4 µs.
        assert_eq!(network.carry(0, 1, 2, 2000), ps(6.0));
        assert_eq!((network.bytes, network.busiest_ps()), (4000, ps(2.0)));
    }
}
