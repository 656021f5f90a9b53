//! Agents that the ranks of another launcher start: this process launches none of them; one invitation lets them all call.

use super::{Children, Origin, State};
use crate::dial;
use crate::invite::Invite;
use protocol::control::tree::Launcher;

impl Children {
    /// Waits for the agents of `nodes` (numbers and hosts); each calls with what is returned, its own number in place of 0.
    pub fn expect(&mut self, nodes: &[(u32, String)], launcher: &Launcher) -> Result<Invite, String> {
        let (listener, parents) = dial::listen(launcher)?;
        self.listener = Some((listener, parents.clone()));
        for (node, host) in nodes {
            self.add(*node, host, 0, Origin::Adopted, State::awaited(u64::from(launcher.timeout_s) + 2));
        }
        Ok(Invite { node: 0, parents, key: self.key, nonce: [0; 16], timeout_s: launcher.timeout_s })
    }
}
