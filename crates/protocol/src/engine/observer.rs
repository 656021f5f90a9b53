//! What happens to messages, for whoever wants to know: they are counted by protocol, and the last ones are kept.
//!
//! Nobody wants to know it in most processes, and then the short paths have no trace of this: who observes lets no message take them
//! ([`Engine::progress_observed`], and the lanes of `channel`), and on the long ones there is one look.

use super::{Content, Engine};
use crate::matching::{Envelope, Found};
use crate::transport::Transport;
use base::Peer;
use base::counters::{Counter, traffic};
use std::collections::VecDeque;

/// Most happenings that are kept until somebody takes them.
pub const KEPT_MAX: usize = 1 << 14;

/// What has happened to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Its first packet has left.
    Sent,
    /// It has come, and no receive was posted for it.
    Unexpected,
    /// It has met its receive.
    Matched,
    /// The receiver has chosen how to get its data.
    Fetched,
}

/// How a message travels, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// In one packet.
    Eager,
    /// In several packets that nobody has asked for.
    Fragments,
    /// Its data stay with the sender until the receiver has chosen.
    Rendezvous,
    /// The receiver copies the data itself.
    Pulled,
    /// The sender was asked for the data.
    Streamed,
}

impl How {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            How::Eager => "eager",
            How::Fragments => "fragments",
            How::Rendezvous => "rendezvous",
            How::Pulled => "pulled",
            How::Streamed => "streamed",
        }
    }

    pub(super) fn of<B>(content: &Content<B>) -> How {
        match content {
            Content::Bytes(_) | Content::SyncBytes(_) => How::Eager,
            Content::Arriving(_) => How::Fragments,
            Content::Offered(_) | Content::Withdrawn => How::Rendezvous,
        }
    }
}

/// Something that has happened to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happening {
    /// What.
    pub what: What,
    /// How it travels.
    pub how: How,
    /// The process at the other end.
    pub peer: Peer,
    /// What the message is known by; its source is the sender's rank.
    pub envelope: Envelope,
    /// Its bytes.
    pub bytes: u64,
    /// When, by the clock of the transport.
    pub time_ns: u64,
}

/// Who wants to know it.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// Happenings are kept, not only counted.
    keeps: bool,
    kept: VecDeque<Happening>,
    /// Happenings for which there was no room.
    dropped: u64,
}

/// The counters of messages and of their bytes.
fn counters(what: What, how: How) -> Option<[&'static Counter; 2]> {
    Some(match (what, how) {
        (What::Sent, How::Eager) => [&traffic::SENT_EAGER, &traffic::SENT_EAGER_BYTES],
        (What::Sent, How::Fragments) => [&traffic::SENT_FRAGMENTS, &traffic::SENT_FRAGMENTS_BYTES],
        (What::Sent, _) => [&traffic::SENT_RENDEZVOUS, &traffic::SENT_RENDEZVOUS_BYTES],
        (What::Matched, How::Eager) => [&traffic::RECEIVED_EAGER, &traffic::RECEIVED_EAGER_BYTES],
        (What::Matched, How::Fragments) => [&traffic::RECEIVED_FRAGMENTS, &traffic::RECEIVED_FRAGMENTS_BYTES],
        (What::Fetched, How::Streamed) => [&traffic::RECEIVED_STREAMED, &traffic::RECEIVED_STREAMED_BYTES],
        (What::Fetched, _) => [&traffic::RECEIVED_PULLED, &traffic::RECEIVED_PULLED_BYTES],
        (What::Matched, _) | (What::Unexpected, _) => return None,
    })
}

impl<T: Transport> Engine<T> {
    /// From now on happenings are counted, and also kept if `keep`; or nobody wants to know them any more. Whoever observes uses
    /// [`Engine::progress_observed`] and no short path, and takes what is kept.
    pub fn observe(&mut self, on: bool, keep: bool) {
        if !on {
            self.observer = None;
            return;
        }
        let observer = self.observer.get_or_insert_default();
        observer.keeps = keep;
        if !keep {
            observer.kept = VecDeque::new();
        }
    }

    /// What has been kept since the last time, and how much had no room.
    pub fn take_happenings(&mut self) -> (VecDeque<Happening>, u64) {
        let Some(observer) = &mut self.observer else { return (VecDeque::new(), 0) };
        (std::mem::take(&mut observer.kept), std::mem::take(&mut observer.dropped))
    }

    /// Whether [`Engine::take_happenings`] has anything to tell.
    pub fn has_happenings(&self) -> bool {
        self.observer.as_ref().is_some_and(|observer| !observer.kept.is_empty() || observer.dropped > 0)
    }

    /// As [`Engine::progress`]; if somebody observes, every message takes the way that is observed.
    pub fn progress_observed(&mut self) -> bool {
        if self.observer.is_none() {
            return self.progress();
        }
        let moved = self.handle_arrival();
        moved | (self.has_backlog() && self.flush())
    }

    /// Something has happened to a message.
    #[inline]
    pub(super) fn note(&mut self, what: What, how: How, peer: Peer, found: &Found) {
        if self.observer.is_some() {
            self.note_observed(what, how, peer, found);
        }
    }

    #[cold]
    fn note_observed(&mut self, what: What, how: How, peer: Peer, found: &Found) {
        let time_ns = self.endpoints.transport().now_ns();
        let Some(observer) = &mut self.observer else { return };
        if let Some([messages, bytes]) = counters(what, how) {
            messages.add(1);
            bytes.add(found.length);
        }
        if observer.keeps && observer.kept.len() < KEPT_MAX {
            let (envelope, bytes) = (found.envelope, found.length);
            observer.kept.push_back(Happening { what, how, peer, envelope, bytes, time_ns });
        } else if observer.keeps {
            observer.dropped += 1;
        }
    }
}
