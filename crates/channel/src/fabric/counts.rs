//! Counting what is sent (`crate::profile`), and what MPI says about that.

use super::ChannelFabric;
use crate::profile::{Call, Profile, Rows};
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
        self.find_rows();
    }

    fn find_rows(&mut self) {
        self.counting = self.profile.as_ref().map_or(Rows::NONE, |profile| profile.counting());
    }

    /// Counts a message.
    #[inline(always)]
    pub(super) fn count(&mut self, peer: Peer, context: u64, bytes: usize) {
        // SAFETY: the rows are of `self.profile`, which lives as long as the fabric.
        if unsafe { self.counting.count(peer, bytes) } {
            self.count_detail(peer, context, bytes);
        }
    }

    #[cold]
    fn count_detail(&mut self, peer: Peer, context: u64, bytes: usize) {
        let call = self.call;
        if let Some(profile) = &mut self.profile {
            profile.count_scope(context, call, peer, bytes);
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
        self.find_rows();
    }

    /// From now on nothing is counted: the program has called `MPI_Finalize`.
    pub fn end_profile(&mut self) {
        if let Some(profile) = &mut self.profile {
            profile.end();
        }
        self.find_rows();
    }
}
