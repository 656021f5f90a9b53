//! The conformance suite of `trait Transport`: what every transport promises, tried without the engine.
//!
//! A transport joins by a [`Rig`], which makes its processes, and one call of [`run`]. Each case gets a new rig. All processes of a rig are in one
//! thread; the cases poll them in turn.

mod deaths;
mod lanes;
mod packets;
mod stage;
mod suspension;
mod verbs;

use base::Peer;
use protocol::transport::Transport;

/// The pair of processes between which most cases send.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Who sends.
    pub from: Peer,
    /// Who receives; for a transport to oneself the same process.
    pub to: Peer,
}

/// What a transport can do, as far as its `Caps` don't say it.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// A process can die while others go on.
    pub dies: bool,
    /// A process can go on at another address.
    pub relocates: bool,
    /// One of several lanes can be lost while others live.
    pub loses_lanes: bool,
}

/// The processes of one job in one thread, and the memory of their programs.
pub trait Rig {
    /// What is tried.
    type T: Transport;

    /// What it can do.
    fn abilities(&self) -> Abilities;
    /// Who sends to whom.
    fn pair(&self) -> Pair;
    /// Number of processes.
    fn size(&self) -> u32;
    /// The transport of a process; `None` if it is dead.
    fn transport(&mut self, at: Peer) -> Option<&mut Self::T>;
    /// A source of these bytes. It lives as long as the rig.
    fn source(&mut self, bytes: &[u8]) -> <Self::T as Transport>::Source;
    /// The program writes something else into a source that it has got back.
    fn reuse(&mut self, source: &<Self::T as Transport>::Source);
    /// Room for so many bytes, all zero. It lives as long as the rig.
    fn sink(&mut self, len: usize) -> <Self::T as Transport>::Sink;
    /// What is in a sink.
    fn bytes(&self, sink: &<Self::T as Transport>::Sink) -> Vec<u8>;
    /// Memory of `len` bytes, all zero, to be registered. It lives as long as the rig.
    fn region(&mut self, len: usize) -> <Self::T as Transport>::Region;
    /// A process dies. What it had sent still arrives.
    fn kill(&mut self, peer: Peer);
    /// One of the lanes between two processes is lost, in both directions.
    fn lose_lane(&mut self, pair: Pair, number: usize);
    /// A process, to which there are no lanes at present, goes on at another address.
    fn relocate(&mut self, peer: Peer);
}

/// One case of the suite.
type Case<R> = fn(&mut stage::Stage<R>);

/// Runs all cases, each on a new rig. A panic names the case.
pub fn run<R: Rig>(mut make: impl FnMut() -> R) {
    let cases: &[(&str, Case<R>)] = &[
        ("packets keep their order", packets::keep_their_order),
        ("Again leaves nothing sent", packets::refused_ones_leave_nothing),
        ("back pressure ends", packets::back_pressure_ends),
        ("sources are free when they are done", packets::sources_are_free_when_done),
        ("payloads go where they belong", packets::payloads_go_where_they_belong),
        ("detached packets outlive polls", packets::detached_ones_outlive_polls),
        ("each of several lanes keeps its order", lanes::each_keeps_its_order),
        ("packets of a lost lane come over another", lanes::packets_of_a_lost_one_come_over_another),
        ("the peer is lost with the last lane", lanes::the_peer_is_lost_with_the_last),
        ("death before connecting", deaths::before_connecting),
        ("death of a connected peer", deaths::of_a_connected_peer),
        ("death in the middle of a message", deaths::in_the_middle_of_a_message),
        ("death with posted sends", deaths::with_posted_sends),
        ("lanes close and open again", suspension::lanes_close_and_open_again),
        ("another address", suspension::at_another_address),
        ("put and get", verbs::put_and_get),
        ("atomics", verbs::atomics),
        ("bad keys", verbs::bad_keys_touch_nothing),
    ];
    for (name, case) in cases {
        let mut stage = stage::Stage::new(make(), name);
        case(&mut stage);
    }
}
