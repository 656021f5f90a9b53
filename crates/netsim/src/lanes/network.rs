//! Hosts, switches, links and routes.
//!
//! A link is two *channels*, one in each direction. A channel is the output port at its begin and the input buffer at its end. Routes are
//! forwarding tables: for each switch and destination the channel that a packet leaves on, as InfiniBand's linear forwarding tables.

/// A host or a switch, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Node {
    /// It has one channel to its switch and one from there.
    Host(u32),
    /// It forwards.
    Switch(u32),
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Whose output port it is.
    pub from: Node,
    /// Whose input buffer.
    pub to: Node,
}

/// No channel.
const NONE: u32 = u32::MAX;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Network {
    hosts: usize,
    switches: usize,
    channels: Vec<Channel>,
    /// Switch times hosts plus destination.
    next: Vec<u32>,
    /// The channel of each host to its switch.
    uplinks: Vec<u32>,
}

impl Network {
    /// Nodes without links.
    pub fn new(hosts: usize, switches: usize) -> Network {
        Network {
            hosts,
            switches,
            channels: Vec::new(),
            next: vec![NONE; hosts * switches],
            uplinks: vec![NONE; hosts],
        }
    }

    /// Adds a link; returns its channels, from `a` to `b` first.
    pub fn link(&mut self, a: Node, b: Node) -> (u32, u32) {
        let first = self.channels.len() as u32;
        self.channels.push(Channel { from: a, to: b });
        self.channels.push(Channel { from: b, to: a });
        for (node, channel) in [(a, first), (b, first + 1)] {
            if let Node::Host(host) = node {
                self.uplinks[host as usize] = channel;
            }
        }
        (first, first + 1)
    }

    /// Packets for a host leave the switch on this channel.
    pub fn route(&mut self, switch: u32, host: u32, channel: u32) {
        self.next[switch as usize * self.hosts + host as usize] = channel;
    }

    /// Hosts.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Both directions of all links.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The channel that a host sends on. `None`: the host has no link.
    pub fn uplink(&self, host: u32) -> Option<u32> {
        self.uplinks.get(host as usize).copied().filter(|channel| *channel != NONE)
    }

    /// Where a switch sends packets for this host. `None`: nowhere.
    #[inline]
    pub fn next(&self, switch: u32, host: u32) -> Option<u32> {
        let channel = self.next[switch as usize * self.hosts + host as usize];
        (channel != NONE).then_some(channel)
    }

    /// The channels of a packet's way. `Err`: at this node it ends, or it has gone in a circle.
    pub fn path(&self, from: u32, to: u32) -> Result<Vec<u32>, Node> {
        if to as usize >= self.hosts {
            return Err(Node::Host(to));
        }
        let mut path = vec![self.uplink(from).ok_or(Node::Host(from))?];
        loop {
            let node = self.channels[path[path.len() - 1] as usize].to;
            match node {
                Node::Host(host) if host == to => return Ok(path),
                Node::Host(_) => return Err(node),
                Node::Switch(switch) => {
                    path.push(self.next(switch, to).filter(|_| path.len() <= self.switches).ok_or(node)?);
                }
            }
        }
    }

    /// One switch with all hosts.
    pub fn single_switch(hosts: usize) -> Network {
        Network::fat_tree(&[hosts], &[1])
    }

    /// An extended generalised fat tree XGFT(h; m1..mh; w1..wh) (Öhring, Ibel, Das, Kumar, IPPS 1995): a node of level *i* has `down[i-1]` children, and one of level
    /// *i*-1 has `up[i-1]` parents. Level 0 are the hosts. Routes go up and then down; the parent on the way up is the destination's number modulo their
    /// number (D-mod-K), so packets for one host meet on the way up and not on the way down.
    ///
    /// `down` and `up` have the same length, all numbers are at least 1, and `up[0]` is 1, since a host has one link.
    pub fn fat_tree(down: &[usize], up: &[usize]) -> Network {
        Tree::new(down, up).build()
    }
}

/// The arithmetic of a fat tree. A node of a level is a pair: which group of hosts it is above, and which of the nodes above that group it is.
struct Tree<'a> {
    down: &'a [usize],
    up: &'a [usize],
    /// For each level: hosts below a node, and nodes above the same hosts.
    below: Vec<usize>,
    beside: Vec<usize>,
    /// Number of the first switch of each level.
    first: Vec<usize>,
}

impl<'a> Tree<'a> {
    fn new(down: &'a [usize], up: &'a [usize]) -> Tree<'a> {
        assert!(
            down.len() == up.len() && up.first() == Some(&1),
            "a fat tree has a number of parents for each level, 1 for hosts"
        );
        let products = |factors: &[usize]| {
            let mut all = vec![1];
            factors.iter().for_each(|factor| all.push(all[all.len() - 1] * factor));
            all
        };
        let (below, beside) = (products(down), products(up));
        let hosts = below[down.len()];
        let mut first = vec![0, 0];
        (1..=down.len()).for_each(|level| first.push(first[level] + hosts / below[level] * beside[level]));
        Tree { down, up, below, beside, first }
    }

    fn hosts(&self) -> usize {
        self.below[self.down.len()]
    }

    fn node(&self, level: usize, group: usize, which: usize) -> Node {
        let number = group * self.beside[level] + which;
        if level == 0 { Node::Host(number as u32) } else { Node::Switch((self.first[level] + number) as u32) }
    }

    fn build(&self) -> Network {
        let levels = self.down.len();
        let mut network = Network::new(self.hosts(), self.first[levels + 1]);
        // Channels of a node of `level` to its parents, and from there: by level, group, which and parent.
        let mut links = vec![Vec::new(); levels];
        for (level, made) in links.iter_mut().enumerate() {
            for group in 0..self.hosts() / self.below[level] {
                for which in 0..self.beside[level] {
                    for parent in 0..self.up[level] {
                        let above = self.node(level + 1, group / self.down[level], which + parent * self.beside[level]);
                        made.push(network.link(self.node(level, group, which), above));
                    }
                }
            }
        }
        let link = |level: usize, group: usize, which: usize, parent: usize| {
            links[level][(group * self.beside[level] + which) * self.up[level] + parent]
        };
        for level in 1..=levels {
            for group in 0..self.hosts() / self.below[level] {
                for which in 0..self.beside[level] {
                    let Node::Switch(switch) = self.node(level, group, which) else { continue };
                    for host in 0..self.hosts() {
                        let channel = if host / self.below[level] == group {
                            let (child, parent) = (which % self.beside[level - 1], which / self.beside[level - 1]);
                            link(level - 1, host / self.below[level - 1], child, parent).1
                        } else {
                            link(level, group, which, host / self.beside[level] % self.up[level]).0
                        };
                        network.route(switch, host as u32, channel);
                    }
                }
            }
        }
        network
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_two_levels_has_leaves_and_spines() {
        // 3 leaves with 2 hosts each, 2 spines.
        let network = Network::fat_tree(&[2, 3], &[1, 2]);
        assert_eq!((network.hosts(), network.switches, network.channels().len()), (6, 5, 2 * (6 + 3 * 2)));
        let nodes = |from, to| -> Vec<Node> {
            network.path(from, to).unwrap().iter().map(|c| network.channels()[*c as usize].to).collect()
        };
        assert_eq!(nodes(0, 1), [Node::Switch(0), Node::Host(1)]);
        assert_eq!(nodes(0, 2), [Node::Switch(0), Node::Switch(3), Node::Switch(1), Node::Host(2)]);
        assert_eq!(nodes(0, 5), [Node::Switch(0), Node::Switch(4), Node::Switch(2), Node::Host(5)]);
    }

    #[test]
    fn every_pair_has_a_way_of_up_and_down() {
        for (down, up) in [
            (vec![5], vec![1]),
            (vec![4, 4], vec![1, 2]),
            (vec![2, 3, 2], vec![1, 2, 3]),
            (vec![3, 2, 2], vec![1, 1, 2]),
        ] {
            let network = Network::fat_tree(&down, &up);
            for from in 0..network.hosts() as u32 {
                for to in (0..network.hosts() as u32).filter(|to| *to != from) {
                    let path = network.path(from, to).unwrap();
                    assert!(
                        path.len() <= 2 * down.len() && path.len().is_multiple_of(2),
                        "{down:?} {up:?} {from} to {to}: {path:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_way_that_ends_or_turns_in_a_circle_is_told() {
        let mut network = Network::new(2, 2);
        network.link(Node::Host(0), Node::Switch(0));
        network.link(Node::Host(1), Node::Switch(1));
        assert_eq!(network.path(0, 1), Err(Node::Switch(0)));
        let (there, back) = network.link(Node::Switch(0), Node::Switch(1));
        network.route(0, 1, there);
        network.route(1, 1, back);
        assert!(network.path(0, 1).is_err());
    }
}
