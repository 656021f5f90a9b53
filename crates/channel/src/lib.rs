//! The channels and their coordinator: everything that carries packets between the processes of a job.
//!
//! [`transports::Transports`] implements [`protocol::transport::Transport`]: it has a lane to each peer — [`self_`], [`shm`] with
//! [`single_copy`], [`mod@ucx`], [`tcp`] — which it chooses by proof ([`locality`]) when a peer is first needed.

pub mod bootstrap;
pub mod buffer;
pub mod calibrate;
pub mod exchange;
pub mod finder;
pub mod handshake;
pub mod locality;
pub mod memory;
pub mod offload;
pub mod opened;
pub mod port;
pub mod profile;
pub mod protocols;
pub mod self_;
pub mod shm;
pub mod single_copy;
pub mod tcp;
pub mod transports;
pub mod ucx;
pub mod unexpected;
pub mod wait;
pub mod waiting;
pub mod why;
pub mod workers;

use std::cell::RefCell;
use std::rc::Rc;

/// Opens this process's transports, takes part in the exchange of endpoints that the job wants, and hands out the parts.
pub fn open(bootstrap: bootstrap::Bootstrap) -> base::Result<opened::Opened> {
    let mut opened = opened::Opened::new(Rc::new(RefCell::new(bootstrap)))?;
    exchange::run(&mut opened)?;
    if why::WHY.value() {
        // To see which channels they get.
        let all = opened.endpoints.transport().processes().borrow().own_job();
        all.for_each(|peer| opened.endpoints.connect(peer));
    }
    Ok(opened)
}

/// The settings of all channels, by module.
pub fn settings() -> Vec<(&'static str, &'static [base::config::Meta])> {
    let own = vec![
        ("bootstrap", bootstrap::TABLE),
        ("pmix", bootstrap::pmix::TABLE),
        ("calibrate", calibrate::TABLE),
        ("why", why::TABLE),
        ("locality", locality::TABLE),
        ("shm", shm::TABLE),
        ("single_copy", single_copy::TABLE),
        ("offload", offload::TABLE),
        ("tcp", tcp::TABLE),
        ("classes", tcp::classes::TABLE),
        ("rails", tcp::rails::TABLE),
        ("ucx", ucx::TABLE),
        ("lanes", protocol::lanes::TABLE),
        ("wait", wait::TABLE),
    ];
    own.into_iter().chain(protocol::policy::settings()).collect()
}
