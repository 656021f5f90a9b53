//! Event counters: one table from which the log, `ferrule info --counters` and tests read.
//!
//! Counters are plain relaxed loads and stores, never read-modify-write instructions: each process's counters are only
//! advanced under its critical section.

use std::sync::atomic::{AtomicU64, Ordering};

/// One named event count.
pub struct Counter {
    /// Name, `module_event`.
    pub name: &'static str,
    /// What one event is.
    pub doc: &'static str,
    value: AtomicU64,
}

impl Counter {
    const fn new(name: &'static str, doc: &'static str) -> Counter {
        Counter { name, doc, value: AtomicU64::new(0) }
    }

    /// Adds `n` events.
    #[inline]
    pub fn add(&self, n: u64) {
        self.value.store(self.value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The number of events so far.
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($all:literal; $($name:ident, $doc:literal;)*) => {
        $(#[doc = $doc] pub static $name: Counter = Counter::new(stringify!($name), $doc);)*
        #[doc = $all]
        pub static ALL: &[&Counter] = &[$(&$name),*];
    };
}

pub mod traffic {
    //! Messages of this process and their bytes, by protocol. They are counted only while somebody observes them, because the short paths don't count.

    use super::Counter;

    counters! {
        "All of them.";
        SENT_EAGER, "messages sent in one packet";
        SENT_EAGER_BYTES, "bytes of those";
        SENT_FRAGMENTS, "messages sent in several packets without being asked for them";
        SENT_FRAGMENTS_BYTES, "bytes of those";
        SENT_RENDEZVOUS, "messages offered to their receivers, who pull the data or ask for them";
        SENT_RENDEZVOUS_BYTES, "bytes of those";
        RECEIVED_EAGER, "messages received that came in one packet";
        RECEIVED_EAGER_BYTES, "bytes of those";
        RECEIVED_FRAGMENTS, "messages received that came in several packets";
        RECEIVED_FRAGMENTS_BYTES, "bytes of those";
        RECEIVED_PULLED, "messages received by single copy from the sender's memory, empty ones, too";
        RECEIVED_PULLED_BYTES, "bytes of those";
        RECEIVED_STREAMED, "messages whose data were asked for; some are pulled after all, and count as pulled, too";
        RECEIVED_STREAMED_BYTES, "bytes of those";
    }
}

counters! {
    "Every counter of this process that always counts.";
    SLEEPS, "times this process slept in the kernel while it waited";
    SHORT_SLEEPS, "times this process slept for a moment because it shared its processor with somebody";
    BELLS, "times this process woke a sleeping peer";
    UNEXPECTED, "messages that arrived before their receive";
    RENDEZVOUS_PULLED, "large messages received by single copy";
    RENDEZVOUS_STREAMED, "large messages received through a ring or a socket";
    STALE_PIECES, "packets dropped because their message had been pulled meanwhile";
    PACKETS_REPEATED, "packets dropped because they had come over another lane before";
    SINGLE_COPY_DEMOTED, "pairs for which single copy was given up at run time";
    PACKETS_REJECTED, "packets dropped because they were malformed or foreign";
    INBOXES_PLACED, "inboxes whose pages the kernel takes from their owner's NUMA node";
    RINGS_POPULATED, "rings whose pages their owner allocated itself, for want of a say in where the kernel takes them";
    SEGMENTS_LENT, "times this process lent senders more memory, because much was streamed to it";
    CONNECTIONS, "network connections opened";
    RECONNECTIONS, "those of them that took the place of a broken one";
    RECORDS_REJECTED, "records of network connections that somebody had changed, left out, repeated or moved";
    BOOTSTRAP_MESSAGES, "messages exchanged with the node agent";
    EXCHANGE_MESSAGES_SENT, "messages sent in the exchange of endpoints at the start";
    EXCHANGE_BYTES_SENT, "bytes of those";
    EXCHANGE_MESSAGES_RECEIVED, "messages received in the exchange of endpoints at the start";
    EXCHANGE_BYTES_RECEIVED, "bytes of those";
    PUTS, "MPI_Put and MPI_Rput to other processes and to this one";
    PUT_BYTES, "bytes of those";
    GETS, "MPI_Get and MPI_Rget";
    GET_BYTES, "bytes of those";
    ACCUMULATES, "accumulates, fetches with an operation, compare-and-swaps";
    ACCUMULATE_BYTES, "bytes of those at the target";
    FILE_READS, "reads of files by MPI's functions, collective ones by each process";
    FILE_READ_BYTES, "bytes that they have brought into buffers of the program";
    FILE_WRITES, "writes of files by MPI's functions, collective ones by each process";
    FILE_WRITE_BYTES, "bytes that they have written from buffers of the program";
}
