//! Active messages, remote memory and wake-up over libucp of UCX, which is loaded when it is needed; nothing is linked with it.
//!
//! [`Ucx`] is the loaded library, [`Context`] its devices under one set of settings, [`Worker`] what sends and receives. Names and meanings of
//! constants and structures are those of UCX's public header `ucp/api/ucp.h`; a test compares them with an installed one.
//!
//! A worker belongs to one thread at a time. It calls nobody back: what happens is kept as [`Event`]s.

mod context;
mod message;
mod operation;
mod raw;
mod worker;

pub use context::{Context, Mapping, Status, Ucx, Version};
pub use message::{Message, Payload};
pub use operation::{Ended, HEADER_MAX};
pub use worker::{EndpointId, Event, Progress, RemoteKey, Worker};
