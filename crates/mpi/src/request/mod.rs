//! Requests (MPI-5.0, 3.7, 3.9, 3.10): everything that Wait and Test accept.

use crate::progress::Active;
use crate::status::Status;
use base::Result;
use std::rc::Rc;

/// A non-blocking or persistent operation that is more than one transfer: a collective.
pub trait Operation: Active {
    /// Starts (again); the operation is inactive.
    fn start(&self) -> Result;
    /// The outcome once `advance` has returned true; `None` before.
    fn outcome(&self) -> Option<Result<Status>>;
}

/// What a request handle stands for (contract for collectives; the p2p kinds are private to `request`).
pub enum Request {
    /// A non-blocking collective, already started and activated.
    Collective(Rc<dyn Operation>),
    /// A persistent collective, not started.
    PersistentCollective(Rc<dyn Operation>),
}
