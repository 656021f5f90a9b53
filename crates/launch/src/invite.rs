//! The invitation of a new agent, as one line on its standard input: never on the command line, which every user can read.

use base::hex;
use protocol::control::codec::wire;
use protocol::control::handshake::Key;
use protocol::control::{Wire, decode, encode};
use std::net::SocketAddr;

const PREFIX: &str = "ferrule-invite-1 ";

wire! {
    /// How to reach the parent and what to say there.
    pub struct Invite {
        /// The agent's node index.
        pub node: u32,
        /// Where the parent listens.
        pub parents: Vec<SocketAddr>,
        /// Secret of the agents.
        pub key: Key,
        /// The parent's nonce, for a connection over stdio.
        pub nonce: [u8; 16],
        /// Seconds to try.
        pub timeout_s: u32,
    }
}

impl Invite {
    /// The line, with its newline.
    pub fn to_line(&self) -> String {
        line_of(PREFIX, self)
    }

    /// Reads the line.
    pub fn from_line(line: &str) -> Option<Invite> {
        read_line(PREFIX, line)
    }
}

/// A value as one line of text.
pub fn line_of<T: Wire>(prefix: &str, value: &T) -> String {
    format!("{prefix}{}\n", hex::encode(&encode(value)))
}

/// The inverse of [`line_of`].
pub fn read_line<T: Wire>(prefix: &str, line: &str) -> Option<T> {
    decode(&hex::decode(line.trim_end().strip_prefix(prefix)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_survives() {
        let invite = Invite {
            node: 3,
            parents: vec!["10.1.2.3:4".parse().unwrap()],
            key: Key([5; 16]),
            nonce: [6; 16],
            timeout_s: 30,
        };
        assert_eq!(Invite::from_line(&invite.to_line()), Some(invite));
        assert_eq!(Invite::from_line("ferrule-invite-1 zz"), None);
        assert_eq!(Invite::from_line("hello"), None);
    }
}
