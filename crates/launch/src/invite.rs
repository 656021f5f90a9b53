//! The invitation of a new agent, as one line on its standard input: never on the command line, which every user can read.

use protocol::control::handshake::Key;
use protocol::control::{Wire, codec, decode, encode};
use std::net::SocketAddr;

const PREFIX: &str = "ferrule-invite-1 ";

/// How to reach the parent and what to say there.
#[derive(Clone, Debug, PartialEq)]
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

impl Wire for Invite {
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.parents.put(out);
        self.key.0.put(out);
        self.nonce.put(out);
        self.timeout_s.put(out);
    }
    fn take(input: &mut codec::Reader<'_>) -> base::Result<Invite> {
        Ok(Invite {
            node: u32::take(input)?,
            parents: Vec::take(input)?,
            key: Key(<[u8; 16]>::take(input)?),
            nonce: <[u8; 16]>::take(input)?,
            timeout_s: u32::take(input)?,
        })
    }
}

impl Invite {
    /// The line, with its newline.
    pub fn to_line(&self) -> String {
        let hex: String = encode(self).iter().map(|b| format!("{b:02x}")).collect();
        format!("{PREFIX}{hex}\n")
    }

    /// Reads the line.
    pub fn from_line(line: &str) -> Option<Invite> {
        let hex = line.trim_end().strip_prefix(PREFIX)?;
        let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
        let bytes: Vec<u8> = digits?.chunks(2).map(|pair| pair.iter().fold(0, |acc, d| acc << 4 | d)).collect();
        decode(&bytes).ok()
    }
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
