//! Hostile input for everything in Ferrule that reads bytes of others.
//!
//! Each module is one target: `run(data)` turns arbitrary bytes into a story, plays it, and panics when the code under test
//! breaks a promise. The libFuzzer programs in `fuzz_targets/` and the replay in `tests/replay.rs` both call [`TARGETS`].

pub mod command_line;
pub mod control;
pub mod datatype_sizes;
pub mod datatypes;
pub mod engine;
pub mod exchange;
pub mod host_lists;
pub mod input;
pub mod offload;
pub mod packet_table;
pub mod pmi;
pub mod qmp;
pub mod rank_files;
pub mod region;
pub mod schedule;
pub mod sealed;
pub mod settings;
pub mod shm_hub;
pub mod shm_inbox;
pub mod shm_ring;
pub mod slurm_lists;
pub mod tcp_conn;
pub mod tcp_hello;
pub mod tcp_record;
pub mod topology;
pub mod ucx_hello;
pub mod views;
pub mod virtual_machines;
pub mod worker_messages;

/// A target: its name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("command_line", command_line::run),
    ("control", control::run),
    ("datatype_sizes", datatype_sizes::run),
    ("datatypes", datatypes::run),
    ("engine", engine::run),
    ("exchange", exchange::run),
    ("host_lists", host_lists::run),
    ("offload", offload::run),
    ("packet_table", packet_table::run),
    ("pmi", pmi::run),
    ("qmp", qmp::run),
    ("rank_files", rank_files::run),
    ("region", region::run),
    ("schedule", schedule::run),
    ("sealed", sealed::run),
    ("settings", settings::run),
    ("shm_hub", shm_hub::run),
    ("shm_inbox", shm_inbox::run),
    ("shm_ring", shm_ring::run),
    ("slurm_lists", slurm_lists::run),
    ("tcp_conn", tcp_conn::run),
    ("tcp_hello", tcp_hello::run),
    ("tcp_record", tcp_record::run),
    ("topology", topology::run),
    ("ucx_hello", ucx_hello::run),
    ("views", views::run),
    ("virtual_machines", virtual_machines::run),
    ("worker_messages", worker_messages::run),
];
