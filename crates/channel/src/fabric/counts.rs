//! Counting what is sent (`crate::profile`), and what MPI says about that.

use super::{ChannelFabric, Lane};
use crate::profile::{Call, Profile, Short};
use base::{Peer, log};

impl ChannelFabric {
    /// Begins to count, and tells the node agent where. Without it the job runs all the same.
    pub(super) fn begin_profile(&mut self, peers: u32, detail: bool) {
        let begun = Profile::begin(peers as usize, detail);
        match begun.map_err(|e| e.to_string()).and_then(|(profile, memory)| {
            self.bootstrap.share_profile(memory).map_err(|e| e.origin.to_string())?;
            Ok(profile)
        }) {
            Ok(profile) => self.profile = Some(Box::new(profile)),
            Err(why) => log!(Warn, "what this rank sends is not counted: {why}"),
        }
    }

    /// Tells the lanes how to count from now on.
    fn tell_lanes(&mut self) {
        for peer in (0..self.lanes.len() as u32).map(Peer) {
            self.tell_lane(peer);
        }
    }

    /// Tells the lane to `peer`, if it counts short messages itself, how.
    pub(super) fn tell_lane(&mut self, peer: Peer) {
        if let Lane::Shm(lane) = &mut self.lanes[peer.0 as usize] {
            lane.count_short(self.profile.as_mut().map_or(Short::NotCounted, |profile| profile.short(peer)));
        }
    }

    /// Counts a message that its lane hasn't counted.
    pub(super) fn count(&mut self, peer: Peer, context: u64, bytes: usize) {
        let call = self.call;
        if let Some(profile) = &mut self.profile {
            profile.count(context, call, peer, bytes);
        }
    }

    /// The messages that follow, unless they are the program's own, belong to a collective.
    #[inline]
    pub fn send_for(&mut self, call: Call) {
        self.call = call;
    }

    /// A communicator has got a name.
    pub fn name_context(&mut self, context: u64, name: &str) {
        if let Some(profile) = &mut self.profile {
            profile.name_context(context, name);
        }
    }

    /// `MPI_Pcontrol`.
    pub fn control_profile(&mut self, level: i32) {
        if let Some(profile) = &mut self.profile {
            profile.control(level);
        }
        self.tell_lanes();
    }

    /// From now on nothing is counted: the program has called `MPI_Finalize`.
    pub fn end_profile(&mut self) {
        if let Some(profile) = &mut self.profile {
            profile.end();
        }
        self.tell_lanes();
    }
}
