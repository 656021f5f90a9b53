//! The receiving side: all messages are posted as soon as it is started and knows the sender's partitions.

use super::parts::Parts;
use super::{Arguments, SETUP_BYTES};
use crate::cs::Section;
use crate::datatype::{self, Datatype};
use crate::engine;
use crate::handle::Handle;
use crate::job;
use crate::losses;
use crate::p2p::transfer::{self, Transfer, start_recv_bytes};
use crate::progress::{self, Active};
use crate::request::{self, Operation, Partitions};
use crate::status::Status;
use base::ids::Plane;
use base::{Class, ContextId, Error, Result};
use channel::buffer::{Layout, RecvBuf};
use protocol::engine::OpId;
use protocol::matching::Pattern;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::rc::{Rc, Weak};

/// What a sender has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sender {
    context: ContextId,
    partitions: usize,
    /// Bytes of each.
    bytes: usize,
}

const MALFORMED: Error = Error::new(Class::ERR_OTHER, "a partitioned send has said of itself what can't be");

impl Sender {
    /// Checks a setup message; `proposer` is the number of its sender.
    fn read(text: &[u8; SETUP_BYTES], proposer: u32) -> Result<Sender> {
        let word = |i: usize| u64::from_le_bytes(text[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        let context = ContextId(word(0));
        let (partitions, bytes) = (usize::try_from(word(1)), usize::try_from(word(2)));
        let (Ok(partitions), Ok(bytes)) = (partitions, bytes) else { return Err(MALFORMED) };
        let fits = partitions.checked_mul(bytes).is_some_and(|all| isize::try_from(all).is_ok());
        let own = ContextId::of_plane(context.0) == context && (context.0 >> 32) as u32 == proposer;
        if !fits || !own || i32::try_from(partitions).is_err() {
            return Err(MALFORMED);
        }
        Ok(Sender { context, partitions, bytes })
    }

    /// The messages with the bytes from `from` to `to`.
    fn parts_of(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        if from == to || self.bytes == 0 {
            return 0..self.partitions;
        }
        (from / self.bytes).min(self.partitions)..to.div_ceil(self.bytes).min(self.partitions)
    }
}

/// Bytes of the receiver's items from `offset` on, in the order of their type.
#[derive(Debug)]
struct Slice {
    datatype: Rc<Datatype>,
    count: usize,
    offset: usize,
}

// SAFETY: `datatype::pack` and `unpack` touch only the items that the caller of `receive_init` vouches for.
unsafe impl Layout for Slice {
    unsafe fn pack(&self, base: *const u8, from: usize, to: *mut u8, len: usize) {
        // SAFETY: handed on from the caller.
        unsafe { datatype::pack(&self.datatype, base, self.count, self.offset + from, to, len) }
    }

    unsafe fn unpack(&self, base: *mut u8, at: usize, from: *const u8, len: usize) {
        // SAFETY: handed on from the caller.
        unsafe { datatype::unpack(&self.datatype, base, self.count, self.offset + at, from, len) }
    }
}

/// Whether the sender is known.
#[derive(Clone, Copy)]
enum Setup {
    Awaited(Transfer),
    Known(Sender),
    Failed(Error),
    /// `PROC_NULL`.
    Nobody,
}

struct Receiving {
    arguments: Arguments,
    setup: Cell<Setup>,
    text: Box<UnsafeCell<[u8; SETUP_BYTES]>>,
    /// Started, and its messages are not posted yet.
    waits: Cell<bool>,
    freed: Cell<bool>,
    parts: RefCell<Parts>,
    /// Itself, to go on when the setup comes while the program does something else.
    this: Weak<Receiving>,
}

impl Receiving {
    /// Looks whether the setup has come; `None` if not.
    fn sender(&self, cs: &Section) -> Option<Result<Sender>> {
        if let Setup::Awaited(transfer) = self.setup.get() {
            let space = &self.arguments.space;
            let proposer = job::proposer(space.context, space.peer(self.arguments.rank)).0;
            self.setup.set(match transfer::test(cs, transfer)? {
                // SAFETY: the transfer is complete, so nobody writes the text.
                Ok(status) if status.bytes == SETUP_BYTES as u64 => unsafe {
                    Sender::read(&*self.text.get(), proposer).map_or_else(Setup::Failed, Setup::Known)
                },
                Ok(_) => Setup::Failed(MALFORMED),
                Err(error) => Setup::Failed(error),
            });
        }
        match self.setup.get() {
            Setup::Awaited(_) => None,
            Setup::Known(sender) => Some(Ok(sender)),
            Setup::Failed(error) => Some(Err(error)),
            Setup::Nobody => Some(Ok(Sender { context: ContextId(0), partitions: 0, bytes: 0 })),
        }
    }

    /// Posts what has been started. False while the setup hasn't come.
    fn post(&self, cs: &Section) -> bool {
        if !self.waits.get() {
            return true;
        }
        let mut parts = self.parts.borrow_mut();
        match self.sender(cs) {
            None => return false,
            Some(Err(error)) => parts.fail(error),
            Some(Ok(sender)) => {
                parts.begin(sender.partitions);
                for part in 0..sender.partitions {
                    parts.start(part, self.post_one(cs, &sender, part));
                }
            }
        }
        self.waits.set(false);
        true
    }

    /// Posts the receive of one message. What goes beyond the buffer is cut off, which is an error of the operation.
    fn post_one(&self, cs: &Section, sender: &Sender, part: usize) -> Transfer {
        let Arguments { buf, partitions, count, rank, ref datatype, ref space, .. } = self.arguments;
        let offset = (part * sender.bytes).min(self.arguments.bytes());
        let len = sender.bytes.min(self.arguments.bytes() - offset);
        let count = partitions * count;
        let sink = if datatype.is_contiguous() || len == 0 {
            // SAFETY: the program promised that the items are writable while the request is active.
            unsafe { RecvBuf::contiguous(buf.wrapping_add(offset), len) }
        } else {
            let slice = Rc::new(Slice { datatype: Rc::clone(datatype), count, offset });
            // SAFETY: as above; the slice lies within the items.
            unsafe { RecvBuf::spread(buf, len, slice) }
        };
        let context = sender.context.plane(Plane::PointToPoint);
        let pattern = Pattern { context, source: Some(rank as u32), tag: Some(part as i32) };
        let peer = space.peer(rank);
        Transfer::Pending(engine::with(cs, |engine| engine.post_recv(pattern, Some(peer), sink)))
    }

    fn status(&self, bytes: u64) -> Status {
        match self.setup.get() {
            Setup::Nobody => Status::PROC_NULL,
            _ => Status::received(self.arguments.rank, self.arguments.tag, bytes),
        }
    }
}

impl Active for Receiving {
    /// Until the messages are posted; if the program has freed the request, until they have come.
    fn advance(&self, cs: &mut Section) -> bool {
        let known = self.sender(cs).is_some();
        known && self.post(cs) && (!self.freed.get() || self.parts.borrow_mut().outcome(cs).is_some())
    }
}

impl Operation for Receiving {
    fn start(&self, cs: &mut Section) -> Result {
        self.parts.borrow_mut().begin(0);
        self.waits.set(true);
        if !self.post(cs)
            && let Some(this) = self.this.upgrade()
        {
            progress::activate(cs, this);
        }
        Ok(())
    }

    fn outcome(&self, cs: &Section) -> Option<Result<Status>> {
        if !self.post(cs) {
            return None;
        }
        self.parts.borrow_mut().outcome(cs).map(|ended| ended.map(|bytes| self.status(bytes)))
    }

    fn message(&self, _cs: &Section) -> Option<OpId> {
        match self.setup.get() {
            Setup::Awaited(transfer) => transfer.op(),
            _ => self.parts.borrow().under_way(),
        }
    }

    fn let_go(self: Rc<Self>, cs: &mut Section) {
        self.freed.set(true);
        progress::activate(cs, self);
    }

    fn partitions(&self) -> Option<&dyn Partitions> {
        Some(self)
    }
}

impl Partitions for Receiving {
    #[expect(clippy::misnamed_getters, reason = "of partitions; the arguments' count is that of elements in each")]
    fn count(&self) -> usize {
        self.arguments.partitions
    }

    fn is_send(&self) -> bool {
        false
    }

    fn ready(&self, _cs: &Section, _partition: usize) -> Result {
        unreachable!("only sends are told")
    }

    fn arrived(&self, cs: &Section, partition: usize) -> Result<bool> {
        if !self.post(cs) {
            return Ok(false);
        }
        let bytes = self.arguments.partition_bytes();
        let sender = self.sender(cs).expect("it is posted")?;
        let mut parts = self.parts.borrow_mut();
        Ok(sender.parts_of(partition * bytes, (partition + 1) * bytes).all(|part| parts.is_done(cs, part)))
    }
}

/// `MPI_Precv_init`.
///
/// # Safety
/// The items must be writable, and nobody else's, whenever the request is active.
pub unsafe fn receive_init(cs: &mut Section, arguments: Arguments) -> Result<Handle> {
    losses::ensure_valid(cs, arguments.space.context.0)?;
    let text = Box::new(UnsafeCell::new([0; SETUP_BYTES]));
    let setup = if arguments.is_null() {
        Setup::Nobody
    } else {
        let (peer, place) = (arguments.space.peer(arguments.rank), text.get().cast::<u8>());
        let context = arguments.space.context.plane(Plane::Partitioned);
        // SAFETY: the operation keeps the text until the message has come.
        let posted =
            unsafe { start_recv_bytes(cs, peer, context, arguments.rank as u32, arguments.tag, place, SETUP_BYTES) };
        Setup::Awaited(posted?)
    };
    let owner = Rc::clone(&arguments.space.owner);
    let (setup, parts) = (Cell::new(setup), RefCell::default());
    let (waits, freed) = (Cell::new(false), Cell::new(false));
    let operation =
        Rc::new_cyclic(|this| Receiving { arguments, setup, text, waits, freed, parts, this: this.clone() });
    Ok(request::enter_persistent_collective(cs, operation, &owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: [u64; 3]) -> [u8; SETUP_BYTES] {
        let mut text = [0; SETUP_BYTES];
        for (place, word) in text.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        text
    }

    #[test]
    fn what_cannot_be_a_setup_is_refused() {
        let context = ContextId(7 << 32 | 8 << 3);
        let good = Sender { context, partitions: 3, bytes: 100 };
        assert_eq!(Sender::read(&text([context.0, 3, 100]), 7), Ok(good));
        for words in [
            [context.0 | 1, 3, 100],
            [context.0, 1 << 31, 1],
            [context.0, 3, u64::MAX],
            [context.0, 2, 1 << 62],
            [8 << 32, 3, 100],
        ] {
            assert_eq!(Sender::read(&text(words), 7), Err(MALFORMED));
        }
    }

    #[test]
    fn a_partition_needs_the_messages_that_overlap_it() {
        let sender = Sender { context: ContextId(0), partitions: 4, bytes: 6 };
        let all: Vec<_> = (0..3).map(|i| sender.parts_of(8 * i, 8 * (i + 1))).collect();
        assert_eq!(all, [0..2, 1..3, 2..4]);
        // Nothing will come there, and there is nothing.
        assert_eq!((sender.parts_of(24, 32), sender.parts_of(8, 8)), (4..4, 0..4));
    }
}
