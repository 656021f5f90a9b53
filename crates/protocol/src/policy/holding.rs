//! How long the pieces of a message that nobody has posted a receive for stay where they are.
//!
//! ```text
//!        a piece of an unexpected message
//! open ──────────────────────────────────► held ── its receive is posted ──► open
//!   ▲                                       │
//!   │ the ring is empty                     │ HOLD_POLLS polls find nothing, or the process is about to sleep
//!   └──────────────── spent ◄───────────────┘
//! ```
//! Ranks that take turns on a processor are often one operation ahead of each other. A receiver that took early pieces would copy them
//! twice more, into memory that has to be found for them. So it leaves them in their cells and passes over that sender's ring for a while;
//! what is behind them may be what it waits for, so not for long. The states live in the inbox (`shm::inbox`, one per ring); this is its limit.

base::config! {
    /// Polls that may find nothing while pieces of messages without a receive are left where they are; 0: they are taken at once.
    HOLD_POLLS: u64 = 4, 0..=1000000, "polls";
}
