//! Operations that the library carries out, and the callbacks by which it ends them.
//!
//! An [`Operation`] holds what the library reads until the end: the header, and the data of messages that are copied. The library calls back only
//! while the worker calls it, so callbacks may use the worker's [`Shared`] part, of which nobody has a reference then.

use crate::context::{Status, status_of};
use crate::message::{Message, Payload};
use crate::raw::{self, AmRecvParam, Functions, RawStatus};
use crate::worker::{Event, Held};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};

/// Largest header of a message, in bytes.
pub const HEADER_MAX: usize = 128;
/// Room for data that an operation keeps when it is over.
const KEEP_MAX: usize = 64 * 1024;
/// Operations that are kept for the next ones.
const FREE_MAX: usize = 256;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The number that the caller gave it.
    pub tag: u64,
    /// Whether it was done.
    pub result: Result<(), Status>,
}

/// What callbacks change.
pub(crate) struct Shared {
    pub functions: &'static Functions,
    /// Number of the worker among those of the process.
    pub worker: u64,
    pub events: VecDeque<Event>,
    #[expect(clippy::vec_box, reason = "the library knows their addresses")]
    free: Vec<Box<Operation>>,
    /// Operations that are under way.
    pub posted: usize,
    /// Data of messages that belong to the library, by number.
    pub held: Vec<Option<(*mut c_void, usize)>>,
    pub vacant: Vec<u32>,
}

/// One operation.
pub(crate) struct Operation {
    shared: *mut Shared,
    /// `None`: nobody wants to know when it is over.
    pub tag: Option<u64>,
    /// It closes an endpoint.
    pub closes: bool,
    pub header: [u8; HEADER_MAX],
    pub data: Vec<u8>,
}

/// An endpoint's argument for its error callback.
pub(crate) struct Watch {
    pub shared: *mut Shared,
    pub tag: u64,
}

impl Shared {
    pub fn new(functions: &'static Functions, worker: u64) -> Shared {
        let (events, free, held, vacant) = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
        Shared { functions, worker, events, free, posted: 0, held, vacant }
    }

    /// An operation to fill in.
    pub fn take_operation(&mut self, shared: *mut Shared) -> Box<Operation> {
        self.free.pop().unwrap_or_else(|| {
            Box::new(Operation { shared, tag: None, closes: false, header: [0; HEADER_MAX], data: Vec::new() })
        })
    }

    /// The operation is over.
    pub fn recycle(&mut self, mut operation: Box<Operation>) {
        if self.free.len() < FREE_MAX && operation.data.capacity() <= KEEP_MAX {
            (operation.tag, operation.closes) = (None, false);
            operation.data.clear();
            self.free.push(operation);
        }
    }

    fn hold(&mut self, data: *mut c_void, len: usize) -> Held {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() as u32 - 1
        });
        self.held[number as usize] = Some((data, len));
        Held::new(self.worker, number, len)
    }
}

/// The end of an operation that was posted.
///
/// # Safety
/// `user_data` comes from `Box::into_raw` of the operation, and the library gives it back once.
unsafe fn end(request: *mut c_void, status: c_int, user_data: *mut c_void) {
    // SAFETY: promised by the caller; the worker holds no reference to its shared part while the library runs.
    unsafe {
        let operation = Box::from_raw(user_data.cast::<Operation>());
        let shared = &mut *operation.shared;
        let code = status as RawStatus;
        let result = if code == raw::OK { Ok(()) } else { Err(status_of(shared.functions, code)) };
        if let Some(tag) = operation.tag {
            let ended = Ended { tag, result };
            shared.events.push_back(if operation.closes { Event::Closed(tag) } else { Event::Ended(ended) });
        }
        shared.posted -= 1;
        (shared.functions.request_free)(request);
        shared.recycle(operation);
    }
}

pub(crate) unsafe extern "C" fn on_sent(request: *mut c_void, status: c_int, user_data: *mut c_void) {
    // SAFETY: the library passes what it was given.
    unsafe { end(request, status, user_data) };
}

pub(crate) unsafe extern "C" fn on_received(request: *mut c_void, status: c_int, _: usize, user_data: *mut c_void) {
    // SAFETY: the library passes what it was given.
    unsafe { end(request, status, user_data) };
}

pub(crate) unsafe extern "C" fn on_failed(arg: *mut c_void, _: *mut c_void, status: c_int) {
    // SAFETY: the argument lives until its endpoint is closed; the worker holds no reference to its shared part while the library runs.
    unsafe {
        let watch = &*arg.cast::<Watch>();
        let shared = &mut *watch.shared;
        let status = status_of(shared.functions, status as RawStatus);
        shared.events.push_back(Event::Failed(watch.tag, status));
    }
}

pub(crate) unsafe extern "C" fn on_message(
    arg: *mut c_void,
    header: *const c_void,
    header_len: usize,
    data: *mut c_void,
    len: usize,
    param: *const AmRecvParam,
) -> RawStatus {
    if header_len > HEADER_MAX {
        // Of no use to anybody: it is dropped.
        return raw::OK;
    }
    // SAFETY: the argument is the worker's shared part, to which nobody has a reference while the library runs. Header and data have the
    // lengths that the library says.
    unsafe {
        let shared = &mut *arg.cast::<Shared>();
        let attr = (*param).recv_attr;
        let mut copy = [0; HEADER_MAX];
        if header_len > 0 {
            std::ptr::copy_nonoverlapping(header.cast::<u8>(), copy.as_mut_ptr(), header_len);
        }
        let (payload, status) = if attr & raw::AM_RECV_RENDEZVOUS != 0 {
            (Payload::Offered(shared.hold(data, len)), raw::IN_PROGRESS)
        } else if attr & raw::AM_RECV_DATA != 0 && len > 0 {
            (Payload::Held(shared.hold(data, len)), raw::IN_PROGRESS)
        } else if len == 0 {
            (Payload::none(), raw::OK)
        } else {
            (Payload::Copied(std::slice::from_raw_parts(data.cast::<u8>(), len).into()), raw::OK)
        };
        shared.events.push_back(Event::Message(Message { header: copy, header_len: header_len as u8, payload }));
        status
    }
}
