//! The channels and their coordinator: everything that carries packets between the processes of a job.
//!
//! [`fabric::ChannelFabric`] implements [`protocol::fabric::Fabric`]: it has a lane to each peer — [`self_`], [`shm`] with
//! [`single_copy`], [`tcp`] — which it chooses by proof ([`locality`]) when a peer is first needed.

pub mod bootstrap;
pub mod buffer;
pub mod calibrate;
mod exchange;
pub mod fabric;
mod kept;
pub mod locality;
pub mod profile;
pub mod protocols;
pub mod self_;
pub mod shared_cpu;
pub mod shm;
pub mod single_copy;
pub mod tcp;
pub mod wait;
pub mod why;

/// The settings of all channels, by module.
pub fn settings() -> Vec<(&'static str, &'static [base::config::Meta])> {
    vec![
        ("bootstrap", bootstrap::TABLE),
        ("pmix", bootstrap::pmix::TABLE),
        ("calibrate", calibrate::TABLE),
        ("fabric", fabric::TABLE),
        ("locality", locality::TABLE),
        ("shm", shm::TABLE),
        ("single_copy", single_copy::TABLE),
        ("tcp", tcp::TABLE),
        ("wait", wait::TABLE),
    ]
}
