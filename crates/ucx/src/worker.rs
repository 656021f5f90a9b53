//! What sends and receives: endpoints to other workers, messages, remote memory, and the descriptor that wakes a sleeper.

use crate::context::{Context, Status};
use crate::message::{Message, Payload};
use crate::operation::{Ended, HEADER_MAX, Operation, Shared, Watch, on_failed, on_message, on_received, on_sent};
use crate::raw::{self, AmHandlerParam, EpParams, OperationCallback, RequestParam, WorkerAttr, WorkerParams};
use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of all active messages of this crate.
const MESSAGE_ID: u32 = 7;
/// How long the end of a worker waits for its endpoints to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// What happens at a worker.
#[derive(Debug)]
pub enum Event {
    /// A message has arrived. UCX keeps no order between messages that it carries by different protocols.
    Message(Message),
    /// An operation that was posted is over.
    Ended(Ended),
    /// The endpoint of this tag is broken. Its operations end, and it has to be closed.
    Failed(u64, Status),
    /// The endpoint of this tag is closed.
    Closed(u64),
}

/// What became of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It has been done.
    Done,
    /// It will be done: [`Event::Ended`] follows.
    Posted,
}

/// Names an endpoint of one worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EndpointId(u32);

/// Names a key of remote memory that belongs to one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteKey {
    endpoint: EndpointId,
    number: u32,
}

/// Names data of a message that the library holds.
#[derive(Debug)]
pub struct Held {
    worker: u64,
    number: u32,
    len: usize,
}

impl Held {
    pub(crate) fn new(worker: u64, number: u32, len: usize) -> Held {
        Held { worker, number, len }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

struct Endpoint {
    raw: *mut c_void,
    keys: Vec<*mut c_void>,
    /// The library has its address until the endpoint is closed.
    watch: Box<Watch>,
}

/// See the head of this file.
pub struct Worker {
    context: Rc<Context>,
    raw: *mut c_void,
    /// From `Box::into_raw`; callbacks use it while the library runs.
    shared: *mut Shared,
    endpoints: Vec<Option<Endpoint>>,
    /// Arguments of endpoints that are being closed: until the worker's end, since the library may name them once more.
    #[expect(clippy::vec_box, reason = "the library knows their addresses")]
    closing: Vec<Box<Watch>>,
    address: Vec<u8>,
    descriptor: RawFd,
}

impl Worker {
    /// A worker over all devices of the context.
    pub fn open(context: &Rc<Context>) -> Result<Worker, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (ucx, functions) = (context.ucx, context.ucx.functions);
        let params = WorkerParams {
            field_mask: raw::WORKER_PARAM_THREAD_MODE,
            thread_mode: raw::THREAD_MODE_SERIALIZED,
            rest: [0; 23],
        };
        let mut worker = null_mut();
        // SAFETY: the context lives; the structure is only read.
        ucx.check(unsafe { (functions.worker_create)(context.raw.as_ptr(), &raw const params, &raw mut worker) })
            .map_err(|e| e.to_string())?;
        let shared = Box::into_raw(Box::new(Shared::new(functions, NUMBER.fetch_add(1, Ordering::Relaxed))));
        let mut worker = Worker {
            context: Rc::clone(context),
            raw: worker,
            shared,
            endpoints: Vec::new(),
            closing: Vec::new(),
            address: Vec::new(),
            descriptor: -1,
        };
        worker.prepare()?;
        Ok(worker)
    }

    fn prepare(&mut self) -> Result<(), String> {
        let text = |status: Status| status.to_string();
        let (ucx, functions) = (self.context.ucx, self.context.ucx.functions);
        let handler = AmHandlerParam {
            field_mask: raw::AM_HANDLER_PARAMS,
            id: MESSAGE_ID,
            flags: raw::AM_WHOLE_MESSAGE,
            callback: on_message,
            arg: self.shared.cast(),
        };
        let (mut address, mut len) = (null_mut::<c_void>(), 0);
        let mut attr = WorkerAttr { field_mask: raw::WORKER_ATTR_MAX_AM_HEADER, ..WorkerAttr::default() };
        // SAFETY: the worker lives, and its shared part longer than it. The address has `len` bytes and is given back once.
        unsafe {
            ucx.check((functions.worker_set_handler)(self.raw, &raw const handler)).map_err(text)?;
            ucx.check((functions.worker_query)(self.raw, &raw mut attr)).map_err(text)?;
            ucx.check((functions.worker_efd)(self.raw, &raw mut self.descriptor)).map_err(text)?;
            ucx.check((functions.worker_address)(self.raw, &raw mut address, &raw mut len)).map_err(text)?;
            self.address = std::slice::from_raw_parts(address.cast::<u8>(), len).to_vec();
            (functions.worker_release_address)(self.raw, address);
        }
        match attr.max_am_header >= HEADER_MAX {
            true => Ok(()),
            false => {
                Err(format!("UCX's transports take headers of {} bytes, {HEADER_MAX} are needed", attr.max_am_header))
            }
        }
    }

    fn shared(&mut self) -> &mut Shared {
        // SAFETY: from `Box::into_raw`; the library, whose callbacks use it too, doesn't run while the reference lives.
        unsafe { &mut *self.shared }
    }

    /// Where other workers reach this one.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// Readable when an armed worker has something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the worker.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    /// Prepares to sleep. False: there is something to do, so a sleeper might not be woken.
    pub fn arm(&mut self) -> bool {
        // SAFETY: the worker lives.
        let code = unsafe { (self.context.ucx.functions.worker_arm)(self.raw) };
        code == raw::OK
    }

    /// Has the library do what there is to do. False if that was nothing.
    pub fn progress(&mut self) -> bool {
        // SAFETY: the worker lives; nobody has a reference to its shared part.
        unsafe { (self.context.ucx.functions.worker_progress)(self.raw) != 0 }
    }

    /// The next event of what the library has done.
    pub fn event(&mut self) -> Option<Event> {
        self.shared().events.pop_front()
    }

    /// Operations that are under way.
    pub fn posted(&mut self) -> usize {
        self.shared().posted
    }

    /// An endpoint to the worker at `address`; `tag` names it in events. Whether the worker is there shows later.
    pub fn connect(&mut self, address: &[u8], tag: u64) -> Result<EndpointId, Status> {
        let mut watch = Box::new(Watch { shared: self.shared, tag });
        let params = EpParams {
            field_mask: raw::EP_PARAMS,
            address: address.as_ptr().cast(),
            err_mode: raw::ERR_HANDLING_PEER,
            err_callback: Some(on_failed),
            err_arg: (&raw mut *watch).cast(),
            rest: [0; 8],
        };
        let mut endpoint = null_mut();
        // SAFETY: the worker lives; the address is read now, the argument lives until the worker's end.
        let code = unsafe { (self.context.ucx.functions.ep_create)(self.raw, &raw const params, &raw mut endpoint) };
        self.context.ucx.check(code)?;
        let entry = Some(Endpoint { raw: endpoint, keys: Vec::new(), watch });
        let place = self.endpoints.iter().position(Option::is_none);
        match place {
            Some(place) => self.endpoints[place] = entry,
            None => self.endpoints.push(entry),
        }
        Ok(EndpointId(place.unwrap_or(self.endpoints.len() - 1) as u32))
    }

    fn endpoint(&self, id: EndpointId) -> &Endpoint {
        self.endpoints.get(id.0 as usize).and_then(Option::as_ref).expect("the endpoint is open")
    }

    /// Closes an endpoint without waiting for the peer: operations under way end with an error. [`Event::Closed`] follows.
    pub fn close(&mut self, id: EndpointId) {
        let Some(endpoint) = self.endpoints.get_mut(id.0 as usize).and_then(Option::take) else { return };
        let functions = self.context.ucx.functions;
        for key in endpoint.keys {
            // SAFETY: unpacked for this endpoint, and destroyed once.
            unsafe { (functions.key_destroy)(key) };
        }
        let tag = endpoint.watch.tag;
        let operation = self.operation(Some(tag), true);
        let param = self.param(&operation, raw::CLOSE_FORCE);
        // SAFETY: the endpoint is open and not used any more.
        let answer = unsafe { (functions.ep_close)(endpoint.raw, &raw const param) };
        self.closing.push(endpoint.watch);
        if self.started(operation, answer) != Ok(Progress::Posted) {
            self.shared().events.push_back(Event::Closed(tag));
        }
    }

    fn operation(&mut self, tag: Option<u64>, closes: bool) -> Box<Operation> {
        let shared = self.shared;
        let mut operation = self.shared().take_operation(shared);
        (operation.tag, operation.closes) = (tag, closes);
        operation
    }

    fn param(&self, operation: &Operation, flags: u32) -> RequestParam {
        RequestParam {
            op_attr_mask: raw::OP_ATTRS | raw::OP_ATTR_MEMORY_TYPE,
            flags,
            request: null_mut(),
            callback: OperationCallback { send: on_sent },
            datatype: 0,
            user_data: (&raw const *operation).cast_mut().cast(),
            reply_buffer: null_mut(),
            memory_type: 0,
            rest: [0; 5],
        }
    }

    /// What the library has made of an operation.
    fn started(&mut self, operation: Box<Operation>, answer: *mut c_void) -> Result<Progress, Status> {
        let number = answer.addr() as isize;
        if (raw::ERR_LAST..=0).contains(&number) {
            self.shared().recycle(operation);
            return self.context.ucx.check(number as i8).map(|()| Progress::Done);
        }
        // Its end gives it back.
        let _ = Box::into_raw(operation);
        self.shared().posted += 1;
        Ok(Progress::Posted)
    }

    /// Sends a message whose header has at most [`HEADER_MAX`] bytes and whose data `fill` writes into an empty buffer, which is the worker's. It needs nothing of the caller afterwards.
    pub fn send(&mut self, to: EndpointId, header: &[u8], fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Status> {
        let mut operation = self.operation(None, false);
        operation.header[..header.len()].copy_from_slice(header);
        fill(&mut operation.data);
        let param = self.param(&operation, raw::AM_SEND_EAGER);
        let data = (operation.data.as_ptr().cast(), operation.data.len());
        // SAFETY: header and data belong to the operation, which lives until its end.
        let answer = unsafe { self.send_raw(to, (operation.header.as_ptr(), header.len()), data, &param) };
        self.started(operation, answer).map(drop)
    }

    /// Sends a message with the `len` bytes at `data`; `offers`: the receiver gets them when it asks ([`Payload::Offered`]). `Posted` ends with
    /// `tag`.
    ///
    /// # Safety
    /// The data stay readable and unchanged until the operation is over, or the worker.
    pub unsafe fn send_from(
        &mut self,
        to: EndpointId,
        header: &[u8],
        (data, len): (*const u8, usize),
        offers: bool,
        tag: u64,
    ) -> Result<Progress, Status> {
        let mut operation = self.operation(Some(tag), false);
        operation.header[..header.len()].copy_from_slice(header);
        let param = self.param(&operation, if offers { raw::AM_SEND_RENDEZVOUS } else { raw::AM_SEND_EAGER });
        // SAFETY: the header belongs to the operation, which lives until its end; the data are promised by the caller.
        let answer =
            unsafe { self.send_raw(to, (operation.header.as_ptr(), header.len()), (data.cast(), len), &param) };
        self.started(operation, answer)
    }

    /// # Safety
    /// Header and data live until the operation is over.
    unsafe fn send_raw(
        &self,
        to: EndpointId,
        (header, header_len): (*const u8, usize),
        (data, len): (*const c_void, usize),
        param: &RequestParam,
    ) -> *mut c_void {
        let functions = self.context.ucx.functions;
        // SAFETY: the endpoint is open; the rest is promised by the caller.
        unsafe { (functions.am_send)(self.endpoint(to).raw, MESSAGE_ID, header.cast(), header_len, data, len, param) }
    }

    /// The data of a message, if they are here.
    pub fn bytes<'a>(&'a self, payload: &'a Payload) -> Option<&'a [u8]> {
        match payload {
            Payload::Copied(bytes) => Some(bytes),
            Payload::Held(held) => {
                let (data, len) = self.held(held);
                // SAFETY: the library keeps the data until they are released, which takes the payload.
                Some(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) })
            }
            Payload::Offered(_) => None,
        }
    }

    fn held(&self, held: &Held) -> (*mut c_void, usize) {
        // SAFETY: as for `shared`.
        let shared = unsafe { &*self.shared };
        assert_eq!(held.worker, shared.worker, "the message of another worker");
        shared.held[held.number as usize].expect("it is held until it is given back")
    }

    /// Gives the data of a message back; what was offered is refused.
    pub fn release(&mut self, payload: Payload) {
        if let Payload::Held(held) | Payload::Offered(held) = payload {
            let (data, _) = self.held(&held);
            self.vacate(&held);
            // SAFETY: the worker lives; the data are released once.
            unsafe { (self.context.ucx.functions.am_release)(self.raw, data) };
        }
    }

    fn vacate(&mut self, held: &Held) {
        let shared = self.shared();
        shared.held[held.number as usize] = None;
        shared.vacant.push(held.number);
    }

    /// Gets offered data, all of them, to `place`. `Posted` ends with `tag`.
    ///
    /// # Safety
    /// `place` stays writable for the length of the payload until the operation is over, or the worker.
    pub unsafe fn receive(&mut self, payload: Payload, place: *mut u8, tag: u64) -> Result<Progress, Status> {
        let Payload::Offered(held) = payload else { panic!("data that are not offered") };
        let (descriptor, len) = self.held(&held);
        self.vacate(&held);
        let operation = self.operation(Some(tag), false);
        let mut param = self.param(&operation, 0);
        param.callback = OperationCallback { receive: on_received };
        let functions = self.context.ucx.functions;
        // SAFETY: the descriptor is used once; the place is promised by the caller.
        let answer = unsafe { (functions.am_receive)(self.raw, descriptor, place.cast(), len, &raw const param) };
        self.started(operation, answer)
    }

    /// Makes a peer's packed key usable; it ends with the endpoint.
    pub fn unpack(&mut self, of: EndpointId, packed: &[u8]) -> Result<RemoteKey, Status> {
        let mut key = null_mut();
        let functions = self.context.ucx.functions;
        // SAFETY: the endpoint is open. The library trusts the bytes, which a member of the job has sent.
        let code = unsafe { (functions.key_unpack)(self.endpoint(of).raw, packed.as_ptr().cast(), &raw mut key) };
        self.context.ucx.check(code)?;
        let keys = &mut self.endpoints[of.0 as usize].as_mut().expect("it is open").keys;
        keys.push(key);
        Ok(RemoteKey { endpoint: of, number: keys.len() as u32 - 1 })
    }

    /// Writes `len` bytes at `data` to `address` of the peer. `Posted` ends with `tag`; the peer may see them after [`Worker::flush`].
    ///
    /// # Safety
    /// The data stay readable and unchanged until the operation is over, or the worker.
    pub unsafe fn put(
        &mut self,
        key: RemoteKey,
        (data, len): (*const u8, usize),
        address: u64,
        tag: u64,
    ) -> Result<Progress, Status> {
        let operation = self.operation(Some(tag), false);
        let param = self.param(&operation, 0);
        let (endpoint, raw) = self.key(key);
        let functions = self.context.ucx.functions;
        // SAFETY: endpoint and key are open; the data are promised by the caller.
        let answer = unsafe { (functions.put)(endpoint, data.cast(), len, address, raw, &raw const param) };
        self.started(operation, answer)
    }

    /// Reads `len` bytes at `address` of the peer to `place`. `Posted` ends with `tag`.
    ///
    /// # Safety
    /// The place stays writable until the operation is over, or the worker.
    pub unsafe fn get(
        &mut self,
        key: RemoteKey,
        (place, len): (*mut u8, usize),
        address: u64,
        tag: u64,
    ) -> Result<Progress, Status> {
        let operation = self.operation(Some(tag), false);
        let param = self.param(&operation, 0);
        let (endpoint, raw) = self.key(key);
        let functions = self.context.ucx.functions;
        // SAFETY: endpoint and key are open; the place is promised by the caller.
        let answer = unsafe { (functions.get)(endpoint, place.cast(), len, address, raw, &raw const param) };
        self.started(operation, answer)
    }

    fn key(&self, key: RemoteKey) -> (*mut c_void, *mut c_void) {
        let endpoint = self.endpoint(key.endpoint);
        (endpoint.raw, endpoint.keys[key.number as usize])
    }

    /// Everything that was sent and written over the endpoint is done at the peer when this is over. `Posted` ends with `tag`.
    pub fn flush(&mut self, endpoint: EndpointId, tag: u64) -> Result<Progress, Status> {
        let operation = self.operation(Some(tag), false);
        let param = self.param(&operation, 0);
        let functions = self.context.ucx.functions;
        // SAFETY: the endpoint is open.
        let answer = unsafe { (functions.ep_flush)(self.endpoint(endpoint).raw, &raw const param) };
        self.started(operation, answer)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for id in 0..self.endpoints.len() as u32 {
            self.close(EndpointId(id));
        }
        let end = Instant::now() + CLOSE_LIMIT;
        while self.posted() > 0 && Instant::now() < end {
            self.progress();
        }
        let functions = self.context.ucx.functions;
        let held: Vec<_> = self.shared().held.drain(..).flatten().collect();
        for (data, _) in held {
            // SAFETY: the worker lives; the data are released once.
            unsafe { (functions.am_release)(self.raw, data) };
        }
        // SAFETY: destroyed once; nothing calls the library for it afterwards, so nobody uses the shared part any more.
        unsafe {
            (functions.worker_destroy)(self.raw);
            drop(Box::from_raw(self.shared));
        }
    }
}

const _: () = {
    // Bytes of UCX 1.13's structures; later ones are larger, and read only what the masks name.
    assert!(size_of::<WorkerParams>() == 200 && size_of::<EpParams>() == 104 && size_of::<AmHandlerParam>() == 32);
    assert!(size_of::<RequestParam>() == 96 && size_of::<WorkerAttr>() == 80);
};
