//! Where an inbox's pages come from and when: the owner's NUMA node, as senders connect; segments that are lent while much streams in.

use super::Inbox;
use crate::layout::*;
use base::counters::{INBOXES_PLACED, RINGS_POPULATED, SEGMENTS_LENT};
use base::log;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use sys::mem::Mapping;

/// How pages come to the owner's NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placement {
    /// There is only one node.
    Any,
    /// By a policy of the memory, which holds whichever process touches a page first.
    Policy,
    /// The owner touches what a new sender may use, as far as that hasn't been there before. Docker denies policies.
    Touch,
}

impl Placement {
    /// The best one for the memory of a process at home on `node`.
    pub(super) fn of(mapping: &Mapping, node: Option<usize>) -> Placement {
        let Some(node) = node else { return Placement::Any };
        match mapping.prefer_node(node) {
            Ok(()) => {
                INBOXES_PLACED.add(1);
                Placement::Policy
            }
            Err(e) => {
                log!(Debug, "no NUMA policy for the inbox (mbind: {e}): rings are touched when their sender connects");
                Placement::Touch
            }
        }
    }
}

impl Inbox {
    /// Allocates the pages of a sender's ring here, and with the first one's those of the cells.
    pub(super) fn touch(&mut self, sender: usize) {
        let geometry = self.geometry;
        if self.rings.is_empty() && geometry.cells.cells > 0 {
            self.populate(geometry.cell_states_at()..geometry.cell_at(geometry.cells.cells));
        }
        self.populate(geometry.ring_at(sender)..geometry.ring_at(sender) + geometry.ring_bytes);
        if self.placement == Placement::Touch {
            RINGS_POPULATED.add(1);
        }
    }

    /// Allocates pages here, if the kernel lets us.
    fn populate(&mut self, range: Range<usize>) {
        if let Err(e) = self.mapping.populate(range) {
            log!(Debug, "rings can't be touched in advance (madvise: {e})");
            self.placement = Placement::Any;
        }
    }

    /// Lends the first `open` segments, and never fewer than before: at most `share` to each sender. Their pages come at once, and to
    /// the owner's node.
    #[cold]
    pub fn lend(&mut self, open: usize, share: usize) {
        let (before, open) = (self.segments.open(), open.min(self.segments.count()));
        // SAFETY: page 0 of our mapping.
        unsafe { word(self.mapping.as_ptr(), AT_SEGMENT_SHARE) }.store(share as u64, Relaxed);
        if open > before {
            self.populate(self.geometry.segment_at(before)..self.geometry.segment_at(open));
            self.segments.set_open(open);
            SEGMENTS_LENT.add(1);
        }
    }

    /// Lends none any more, and gives their memory back as far as no sender holds them.
    #[cold]
    pub(super) fn close_segments(&mut self) {
        let open = self.segments.open();
        self.segments.set_open(0);
        self.segments.take_closed(OWNER, 0..open, |run| remove_segments(&self.mapping, self.geometry, run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Polled;
    use crate::outbox::Outbox;
    use std::os::unix::fs::MetadataExt;

    /// An inbox and the pages it has before and after its second sender has connected.
    fn pages(placement: impl Fn(&Mapping) -> Placement) -> (Inbox, u64, u64) {
        const RING: usize = 1 << 16;
        let identity = Identity { nonce: 7, probe_address: 0, probe_value: 0 };
        let mut inbox = Inbox::create(4, RING, CellCounts::fixed(8), &identity).unwrap();
        inbox.placement = placement(&inbox.mapping);
        let file = std::fs::File::from(inbox.fd.try_clone().unwrap());
        let pages = || file.metadata().unwrap().blocks() * 512 / PAGE as u64;
        let mut outbox = Outbox::open(inbox.fd(), 2, 7).unwrap();
        let room = outbox.reserve(8).unwrap().unwrap();
        _ = outbox.publish(room, &[0; HEADER_WORDS]);
        let before = pages();
        assert!(matches!(inbox.poll(), Some(Polled::Record(_))));
        let after = pages();
        (inbox, before, after)
    }

    #[test]
    fn the_owner_touches_what_a_sender_will_use() {
        let populated = RINGS_POPULATED.value();
        let (inbox, before, after) = pages(|_| Placement::Touch);
        if inbox.placement == Placement::Touch {
            // The ring but for the page that its sender has touched; the cells and their states.
            assert!(after >= before + 15 + 16, "{before} {after}");
            assert_eq!(RINGS_POPULATED.value(), populated + 1);
        }
    }

    #[test]
    fn a_policy_allocates_nothing() {
        for node in [None, Some(0)] {
            let (inbox, before, after) = pages(|mapping| match Placement::of(mapping, node) {
                Placement::Touch => Placement::Any,
                placement => placement,
            });
            assert_eq!(before, after, "{:?}", inbox.placement);
        }
    }
}
