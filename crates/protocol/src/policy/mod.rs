//! Automatic choices: one controller per file. Each is a pure state machine. Its caller passes in times and counts, and carries out what it
//! decides; see README.md here.

pub mod burst;
pub mod holding;
pub mod non_temporal;
pub mod oversubscription;
pub mod streaming;
pub mod testing;
pub mod waiting;

/// The settings of all controllers, by module.
pub fn settings() -> Vec<(&'static str, &'static [base::config::Meta])> {
    vec![
        ("policy::burst", burst::TABLE),
        ("policy::holding", holding::TABLE),
        ("policy::non_temporal", non_temporal::TABLE),
        ("policy::oversubscription", oversubscription::TABLE),
        ("policy::streaming", streaming::TABLE),
        ("policy::testing", testing::TABLE),
        ("policy::waiting", waiting::TABLE),
    ]
}
