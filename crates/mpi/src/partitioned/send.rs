//! The sending side: a message for each partition as soon as it is ready.

use super::parts::Parts;
use super::{Arguments, SETUP_BYTES};
use crate::comm::agree;
use crate::cs::Section;
use crate::handle::Handle;
use crate::job;
use crate::losses;
use crate::p2p::space::Space;
use crate::p2p::transfer::{self, Transfer, start_send, start_send_bytes};
use crate::progress::{self, Active};
use crate::request::{self, Operation, Partitions};
use crate::sleepers;
use crate::status::Status;
use base::ids::Plane;
use base::{ContextId, Error, Result, ensure};
use protocol::engine::{Mode, OpId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

struct Sending {
    arguments: Arguments,
    /// Where the data travel.
    data: Space,
    /// The setup, until it has left.
    setup: Cell<Option<Transfer>>,
    /// What it says.
    _text: Box<[u8; SETUP_BYTES]>,
    /// Its loss, which ends every activation.
    broken: Cell<Option<Error>>,
    parts: RefCell<Parts>,
}

impl Sending {
    /// Whether the setup has left.
    fn has_introduced(&self, cs: &Section) -> bool {
        let Some(setup) = self.setup.get() else { return true };
        match transfer::test(cs, setup) {
            None => return false,
            Some(Ok(_)) => {}
            Some(Err(error)) => self.broken.set(Some(error)),
        }
        self.setup.set(None);
        true
    }
}

impl Active for Sending {
    /// Only asked when the program has freed the request: what is not ready will never be.
    fn advance(&self, cs: &mut Section) -> bool {
        self.has_introduced(cs) && self.parts.borrow_mut().outcome(cs).is_some()
    }
}

impl Operation for Sending {
    fn start(&self, _cs: &mut Section) -> Result {
        self.parts.borrow_mut().begin(self.arguments.partitions);
        Ok(())
    }

    fn outcome(&self, cs: &Section) -> Option<Result<Status>> {
        if !self.has_introduced(cs) {
            return None;
        }
        if let Some(error) = self.broken.get() {
            return Some(Err(error));
        }
        let mut parts = self.parts.borrow_mut();
        if !parts.all_started() {
            return None;
        }
        parts.outcome(cs).map(|ended| ended.map(|_| Status::EMPTY))
    }

    fn message(&self, _cs: &Section) -> Option<OpId> {
        let parts = self.parts.borrow();
        if !parts.all_started() {
            return None;
        }
        self.setup.get().and_then(Transfer::op).or_else(|| parts.under_way())
    }

    fn let_go(self: Rc<Self>, cs: &mut Section) {
        progress::activate(cs, self);
    }

    fn partitions(&self) -> Option<&dyn Partitions> {
        Some(self)
    }
}

impl Partitions for Sending {
    #[expect(clippy::misnamed_getters, reason = "of partitions; the arguments' count is that of elements in each")]
    fn count(&self) -> usize {
        self.arguments.partitions
    }

    fn is_send(&self) -> bool {
        true
    }

    fn ready(&self, cs: &Section, partition: usize) -> Result {
        ensure!(!self.parts.borrow().has_started(partition), ERR_ARG, "the partition is ready already");
        let Arguments { buf, count, rank, ref datatype, .. } = self.arguments;
        let from = buf.wrapping_offset(partition as isize * count as isize * datatype.extent());
        // SAFETY: the program promised that the partition is readable until the request is complete.
        let started = unsafe {
            let (mode, plane, tag) = (Mode::Standard, Plane::PointToPoint, partition as i32);
            start_send(cs, &self.data, plane, mode, from, count, datatype, rank, tag)
        };
        let mut parts = self.parts.borrow_mut();
        match started {
            Ok(transfer) => parts.start(partition, transfer),
            Err(error) => {
                // The others may be awaited all the same.
                parts.start(partition, Transfer::Sent);
                parts.fail(error);
            }
        }
        sleepers::happened(cs);
        Ok(())
    }

    fn arrived(&self, _cs: &Section, _partition: usize) -> Result<bool> {
        unreachable!("only receives are asked")
    }
}

/// `MPI_Psend_init`.
///
/// # Safety
/// The items must be readable whenever the request is active.
pub unsafe fn send_init(cs: &mut Section, arguments: Arguments) -> Result<Handle> {
    let (mut text, mut setup, mut data) = (Box::new([0; SETUP_BYTES]), None, arguments.space.clone());
    losses::ensure_valid(cs, arguments.space.context.0)?;
    if !arguments.is_null() {
        let [counter] = agree::take_counters(cs).ok_or(agree::NO_CONTEXT)?;
        data.context = ContextId::new(job::proposer(arguments.space.context, job::me()), counter);
        let words = [data.context.0, arguments.partitions as u64, arguments.partition_bytes() as u64];
        for (place, word) in text.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let Space { context, rank, .. } = arguments.space;
        let (peer, context) = (arguments.space.peer(arguments.rank), context.plane(Plane::Partitioned));
        // SAFETY: the operation keeps the text until it has left.
        let started =
            unsafe { start_send_bytes(cs, peer, context, rank as u32, arguments.tag, text.as_ptr(), SETUP_BYTES) };
        setup = Some(started?);
    }
    let owner = Rc::clone(&arguments.space.owner);
    let (setup, broken) = (Cell::new(setup), Cell::new(None));
    let operation = Rc::new(Sending { arguments, data, setup, _text: text, broken, parts: RefCell::default() });
    Ok(request::enter_persistent_collective(cs, operation, &owner))
}
