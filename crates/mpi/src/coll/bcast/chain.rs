//! Pipelined chain: the message goes from process to process in segments.
//!
//! Source: Pjesivac-Grbovic and others, "Performance analysis of MPI collective operations", 2007. Cost: (n - 2 + m/s)(α + sβ) for segments of s bytes: the
//! bandwidth of one link for long messages.

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::schedule::Ticket;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Runs everywhere.
pub const NEEDS: Needs = Needs::ANY;

/// Segments that are received ahead.
const WINDOW: usize = 4;

/// Adds the steps of this process. Items that aren't contiguous are packed first.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, data: Span, segment_bytes: usize) {
    let bytes = b.packed(data);
    let me = team.relative(root);
    let last = me + 1 == team.size;
    let next = team.absolute(me + 1, root);
    if me == 0 {
        b.copy(data, bytes);
    }
    let segments = bytes.count.div_ceil(segment_bytes);
    let segment = |i: usize| {
        let from = i * segment_bytes;
        bytes.slice(from, segment_bytes.min(bytes.count - from))
    };
    let mut posted = [Ticket::NONE; WINDOW];
    if me > 0 {
        let previous = team.absolute(me - 1, root);
        for (i, ticket) in posted.iter_mut().enumerate().take(segments) {
            *ticket = b.recv(team, previous, segment(i));
        }
        for i in 0..segments {
            b.wait_for(posted[i % WINDOW]);
            if i + WINDOW < segments {
                posted[i % WINDOW] = b.recv(team, previous, segment(i + WINDOW));
            }
            if !last {
                b.send(team, next, segment(i));
            }
        }
    } else if !last {
        for i in 0..segments {
            b.send(team, next, segment(i));
        }
    }
    b.fence();
    if me > 0 {
        b.copy(bytes, data);
    }
}
