//! The front's part in finding agents under one kernel: collects hints, arranges calls, forms groups (`protocol::control::near`).
//!
//! Phases: hints ─ of all agents that aren't lost ─► sockets ─► calls ─► over. A phase without anything to do is skipped. An agent that
//! is lost counts as one that has answered.

use protocol::control::near::{self, Call, Hints};
use protocol::control::tree::{ALL, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most reasons that are told to one agent.
const REASONS_MAX: usize = 256;

/// What one agent has to do.
#[derive(Default)]
struct Task {
    calls: Vec<Call>,
    listen: BTreeSet<Vec<u8>>,
    callers: Vec<u32>,
}

#[derive(PartialEq)]
enum Phase {
    Hints,
    Sockets,
    Calls,
    Over,
}

/// How far the agents have come.
pub struct Meeting {
    phase: Phase,
    hints: Vec<Option<Hints>>,
    /// Agents whose answer the phase waits for.
    awaited: BTreeSet<u32>,
    met: BTreeSet<(u32, u32)>,
    reasons: BTreeMap<(u32, u32), String>,
    /// Agents that have somebody to call.
    calling: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    /// When the last hints came.
    since: Option<Instant>,
}

/// A message and the node that gets it, or `ALL`.
pub type Order = (u32, Message);

impl Meeting {
    /// Of `nodes` agents; 0 if they don't look for each other.
    pub fn new(nodes: usize) -> Meeting {
        Meeting {
            phase: if nodes == 0 { Phase::Over } else { Phase::Hints },
            hints: vec![None; nodes],
            awaited: (0..nodes as u32).collect(),
            met: BTreeSet::new(),
            reasons: BTreeMap::new(),
            calling: BTreeSet::new(),
            gone: BTreeSet::new(),
            since: None,
        }
    }

    fn hints(&self, node: u32) -> Option<&Hints> {
        self.hints.get(node as usize)?.as_ref().filter(|_| !self.gone.contains(&node))
    }

    /// Finds out who may meet whom.
    fn plan(&mut self) -> BTreeMap<u32, Task> {
        let mut tasks: BTreeMap<u32, Task> = BTreeMap::new();
        let nodes = self.hints.len() as u32;
        for a in 0..nodes {
            for b in a + 1..nodes {
                let (Some(from), Some(to)) = (self.hints(a), self.hints(b)) else { continue };
                let route = match near::route(from, to) {
                    Ok(route) => route,
                    Err(why) => {
                        if near::looks_near(from, to) {
                            self.reasons.insert((a, b), why);
                        }
                        continue;
                    }
                };
                let name = if route.abstract_socket { to.name.clone() } else { Vec::new() };
                let path = |at: usize, hints: &Hints| socket_in(&hints.directories[at].path, &to.name);
                let (ours, theirs) = match route.directory {
                    Some((i, j)) => (path(i, from), Some(path(j, to))),
                    None => (Vec::new(), None),
                };
                tasks.entry(a).or_default().calls.push(Call { node: b, name, path: ours });
                let task = tasks.entry(b).or_default();
                task.callers.push(a);
                task.listen.extend(theirs);
            }
        }
        tasks
    }

    /// By node: the lowest one of its group, and the processors of the group. Empty if all are alone.
    fn result(&self) -> (Vec<u32>, Vec<u32>) {
        if self.met.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let kernel_of = near::groups(self.hints.len() as u32, &self.met);
        let mut members: BTreeMap<u32, Vec<&Hints>> = BTreeMap::new();
        for (node, leader) in kernel_of.iter().enumerate() {
            members.entry(*leader).or_default().extend(self.hints(node as u32));
        }
        let cpus: BTreeMap<u32, u32> =
            members.iter().map(|(leader, group)| (*leader, near::processors(group))).collect();
        let cpus = kernel_of.iter().map(|leader| cpus[leader]).collect();
        (kernel_of, cpus)
    }

    /// Reasons for each agent why others that may be near are not in its group.
    fn apart(&self, kernel_of: &[u32]) -> BTreeMap<u32, Vec<(u32, String)>> {
        let mut out: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
        let mut tell = |to: u32, of: u32, why: &str| {
            let list = out.entry(to).or_default();
            if list.len() < REASONS_MAX {
                list.push((of, why.to_string()));
            }
        };
        let together = |a: u32, b: u32| kernel_of.get(a as usize).is_some_and(|k| Some(k) == kernel_of.get(b as usize));
        for ((a, b), why) in self.reasons.iter().filter(|((a, b), _)| !together(*a, *b)) {
            tell(*a, *b, why);
            tell(*b, *a, why);
        }
        for (a, b) in self.met.iter().filter(|(a, b)| !together(*a, *b)) {
            let why = "it is near, but not to every node of this one's group";
            tell(*a, *b, why);
            tell(*b, *a, why);
        }
        out
    }
}

/// Where the agent with sockets called `name` listens in a directory.
fn socket_in(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let file = [b".", name].concat();
    Path::new(std::ffi::OsStr::from_bytes(directory))
        .join(std::ffi::OsStr::from_bytes(&file))
        .as_os_str()
        .as_bytes()
        .to_vec()
}

impl Meeting {
    /// An agent has told where it is.
    pub fn on_hints(&mut self, node: u32, hints: Hints) -> Vec<Order> {
        match self.hints.get_mut(node as usize) {
            Some(place) if self.phase == Phase::Hints => *place = Some(hints),
            _ => return Vec::new(),
        }
        self.on_answer(node, Phase::Hints)
    }

    /// An agent's sockets are open.
    pub fn on_listening(&mut self, node: u32) -> Vec<Order> {
        self.on_answer(node, Phase::Sockets)
    }

    /// An agent's calls are decided.
    pub fn on_met(&mut self, node: u32, proved: &[u32], refused: Vec<(u32, String)>) -> Vec<Order> {
        let nodes = self.hints.len() as u32;
        let pair = |other: u32| (node.min(other), node.max(other));
        if self.phase == Phase::Calls && node < nodes {
            let lives = |n: &&u32| **n < nodes && **n != node && !self.gone.contains(n);
            self.met.extend(proved.iter().filter(lives).map(|n| pair(*n)));
            self.reasons.extend(refused.into_iter().map(|(other, why)| (pair(other), why)));
        }
        self.on_answer(node, Phase::Calls)
    }

    /// Agents are lost: nobody waits for them, or meets them.
    pub fn on_gone(&mut self, nodes: &[u32]) -> Vec<Order> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        self.gone.extend(nodes);
        self.met.retain(|(a, b)| !nodes.contains(a) && !nodes.contains(b));
        self.awaited.retain(|node| !nodes.contains(node));
        self.advance()
    }

    /// Time since the last hints.
    pub fn elapsed(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn on_answer(&mut self, node: u32, phase: Phase) -> Vec<Order> {
        if self.phase == phase && self.awaited.remove(&node) { self.advance() } else { Vec::new() }
    }

    /// From phase to phase, as long as nobody has to be waited for.
    fn advance(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        while self.awaited.is_empty() && self.phase != Phase::Over {
            self.phase = match self.phase {
                Phase::Hints => self.open_sockets(&mut orders),
                Phase::Sockets => self.make_calls(&mut orders),
                Phase::Calls | Phase::Over => self.conclude(&mut orders),
            };
            let gone = &self.gone;
            self.awaited.retain(|node| !gone.contains(node));
        }
        orders
    }

    fn open_sockets(&mut self, orders: &mut Vec<Order>) -> Phase {
        self.since = Some(Instant::now());
        for (node, task) in self.plan() {
            if !task.calls.is_empty() {
                self.calling.insert(node);
            }
            self.awaited.insert(node);
            let listen = task.listen.into_iter().collect();
            orders.push((node, Message::Meet { calls: task.calls, listen, callers: task.callers }));
        }
        Phase::Sockets
    }

    fn make_calls(&mut self, orders: &mut Vec<Order>) -> Phase {
        self.awaited.clone_from(&self.calling);
        orders.extend(self.calling.iter().map(|node| (*node, Message::Dial {})));
        Phase::Calls
    }

    fn conclude(&mut self, orders: &mut Vec<Order>) -> Phase {
        let (kernel_of, cpus) = self.result();
        orders.extend(self.apart(&kernel_of).into_iter().map(|(node, reasons)| (node, Message::Apart { reasons })));
        orders.push((ALL, Message::Kernels { kernel_of, cpus }));
        Phase::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::near::{Directory, Mode};

    fn hints(network: u64, inode: u64) -> Hints {
        Hints {
            mode: Mode::Auto as u8,
            boot_id: Some("b".into()),
            network: Some(network),
            name: format!("n{network}").into_bytes(),
            directories: vec![Directory { device: 1, inode, path: b"/d".to_vec() }],
            uid: 0,
            cpus: vec![0],
            quota_milli: None,
            quota_group: 0,
        }
    }

    fn kernels(orders: &[Order]) -> Option<&[u32]> {
        orders.iter().find_map(|(_, m)| {
            if let Message::Kernels { kernel_of, .. } = m { Some(kernel_of.as_slice()) } else { None }
        })
    }

    #[test]
    fn without_candidates_the_hints_are_enough() {
        let mut meeting = Meeting::new(2);
        assert!(meeting.on_hints(1, hints(1, 1)).is_empty());
        let orders = meeting.on_hints(0, hints(2, 2));
        assert_eq!(kernels(&orders), Some([].as_slice()));
        // They may be on one host, so both learn why they are apart.
        assert_eq!(orders.iter().filter(|o| matches!(o.1, Message::Apart { .. })).count(), 2);
    }

    #[test]
    fn candidates_open_sockets_then_call_then_form_groups() {
        let mut meeting = Meeting::new(3);
        meeting.on_hints(0, hints(1, 7));
        meeting.on_hints(1, hints(2, 7));
        let orders = meeting.on_hints(2, hints(3, 8));
        assert_eq!(orders.len(), 2);
        let Message::Meet { listen, callers, .. } = &orders[1].1 else { panic!() };
        assert_eq!((orders[1].0, listen, callers), (1, &vec![b"/d/.n2".to_vec()], &vec![0]));
        assert!(meeting.on_listening(1).is_empty());
        assert_eq!(meeting.on_listening(0), [(0, Message::Dial {})]);
        assert_eq!(kernels(&meeting.on_met(0, &[1], Vec::new())), Some([0, 0, 2].as_slice()));
        assert!(meeting.on_met(0, &[2], Vec::new()).is_empty(), "too late");
    }

    #[test]
    fn nobody_waits_for_the_lost() {
        for lost in 0..3 {
            for after in 0..3 {
                let mut meeting = Meeting::new(3);
                let mut last = Vec::new();
                for step in 0..4 {
                    if step == after {
                        last.extend(meeting.on_gone(&[lost]));
                    }
                    for node in (0..3).filter(|n| step < after || *n != lost) {
                        last.extend(match step {
                            0 => meeting.on_hints(node, hints(1, 7)),
                            1 => meeting.on_listening(node),
                            _ => meeting.on_met(node, &(node + 1..3).collect::<Vec<_>>(), Vec::new()),
                        });
                    }
                }
                let kernel_of = kernels(&last).unwrap();
                let others: Vec<usize> = (0..3).filter(|n| *n != lost as usize).collect();
                assert_eq!(kernel_of[others[0]], kernel_of[others[1]], "{lost} lost before step {after}");
            }
        }
    }
}
