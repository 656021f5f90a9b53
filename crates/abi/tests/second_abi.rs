//! A second ABI over the same core and the same interface (`mpi_abi::convert::Abi`): handles are 32-bit integers, statuses begin with
//! the count, and no number is the standard ABI's. What a program of that ABI sees is checked call by call.

use base::{Class, Error, Result};
use mpi::attr::{self, Callbacks, ObjectKind};
use mpi::comm::{self, Comm, attributes};
use mpi::constructors::{self, SplitType};
use mpi::cs::Section;
use mpi::datatype::{self, Combiner, DATATYPES, Datatype, Form, Name, TypeClass};
use mpi::errhandler::{self, Target};
use mpi::group::Comparison;
use mpi::handle::{Handle, Kind};
use mpi::io::{Amode, Whence};
use mpi::op::{self, OPS, Op, Predefined};
use mpi::p2p::{probe, receive, send};
use mpi::request::complete::{self, Holder};
use mpi::status::{Place, Status};
use mpi::thread::Level;
use mpi::{cs, errors, init, owner, rma, topo};
use mpi_abi::convert::{Abi, c_integers, known, number};
use mpi_abi::standard::Standard;
use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

/// The other ABI.
enum Other {}

const COMM_SELF: i32 = 0x4400_0001;
const REQUEST_NULL: i32 = 0x2c00_0000;
const INT: i32 = 0x4c00_0405;
const DOUBLE: i32 = 0x4c00_080b;
/// Set in the handles of what the program makes.
const MADE: u32 = 1 << 31;

impl Abi for Other {
    type Handle = i32;
    const ANY_SOURCE: i32 = -12;
    const ANY_TAG: i32 = -11;
    const PROC_NULL: i32 = -10;
    const ROOT: i32 = -13;
    const UNDEFINED: i32 = -77;
    const IN_PLACE: usize = usize::MAX;
    const BUFFER_AUTOMATIC: usize = usize::MAX - 1;
    const KEYVAL_INVALID: i32 = 0x2400_0000;
    const FIRST_KEYVAL: i32 = 0x2480_0000;
    const ERR_LASTCODE: i32 = 0x2000_0000;
    const DISTRIBUTE_DFLT_DARG: i32 = -49767;
    const CODES: &'static [(i32, Class)] = &[
        (1000, Class::SUCCESS),
        (1006, Class::ERR_RANK),
        (1014, Class::ERR_TRUNCATE),
        (1017, Class::ERR_IN_STATUS),
        (1019, Class::ERR_REQUEST),
        (1048, Class::ERR_KEYVAL),
    ];
    const COMPARISONS: &'static [(i32, Comparison)] =
        &[(70, Comparison::Ident), (71, Comparison::Congruent), (72, Comparison::Similar), (73, Comparison::Unequal)];
    const TOPOLOGIES: &'static [(i32, topo::Kind)] = &[(81, topo::Kind::Cart)];
    const SPLIT_TYPES: &'static [(i32, SplitType)] = &[(91, SplitType::Shared)];
    const LEVELS: &'static [(i32, Level)] =
        &[(10, Level::Single), (11, Level::Funneled), (12, Level::Serialized), (13, Level::Multiple)];
    const COMBINERS: &'static [(i32, Combiner)] = &[(41, Combiner::Named), (42, Combiner::Subarray)];
    const ORDERS: &'static [(i32, i32)] = &[(56, datatype::ORDER_C), (57, datatype::ORDER_FORTRAN)];
    const DISTRIBUTIONS: &'static [(i32, i32)] = &[(121, datatype::DISTRIBUTE_BLOCK)];
    const TYPE_CLASSES: &'static [(i32, TypeClass)] = &[(31, TypeClass::Real)];
    const PREDEFINED_KEYVALS: &'static [(i32, attributes::Predefined)] = &[(0x6440_0005, attributes::Predefined::Io)];
    const ACCESS_MODES: &'static [(i32, Amode)] = &[(2, Amode::RDONLY), (8, Amode::RDWR)];
    const WHENCES: &'static [(i32, Whence)] = &[(600, Whence::Set)];
    const WIN_KEYVALS: &'static [(i32, rma::Attribute)] = &[(0x6600_0001, rma::Attribute::Base)];
    const WIN_FLAVORS: &'static [(i32, rma::Flavor)] = &[(1, rma::Flavor::Create)];
    const WIN_UNIFIED: i32 = 5;
    const LOCK_TYPES: &'static [(i32, bool)] = &[(234, true), (235, false)];
    const ASSERTIONS: &'static [(i32, rma::Mode)] = &[(1, rma::Mode::NoCheck)];
    const NULLS: &'static [(i32, Kind)] = &[
        (0x0400_0000, Kind::Comm),
        (0x0c00_0000, Kind::Datatype),
        (REQUEST_NULL, Kind::Request),
        (0x1400_0000, Kind::Errhandler),
    ];
    const OBJECTS: &'static [(i32, (Kind, Handle))] = &[(COMM_SELF, (Kind::Comm, Handle::COMM_SELF))];
    const TYPES: &'static [(i32, Name)] = &[(INT, Name::MPI_INT), (DOUBLE, Name::MPI_DOUBLE)];
    const OPS: &'static [(i32, Predefined)] = &[(0x5800_0003, Predefined::Sum)];

    fn encode(handle: Handle) -> i32 {
        (handle.0 as u32 | MADE) as i32
    }

    fn decode(handle: i32) -> Option<Handle> {
        (handle < 0).then_some(Handle((handle as u32 & !MADE) as usize))
    }
}

/// The other layout of a status.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
struct OtherStatus {
    count_low: i32,
    count_high_and_cancelled: i32,
    source: i32,
    tag: i32,
    error: i32,
}

/// What the program left in its memory before the call.
const RUBBISH: OtherStatus = OtherStatus { count_low: 5, count_high_and_cancelled: 5, source: 5, tag: 5, error: 5 };

impl Place for OtherStatus {
    fn set(&mut self, status: &Status) {
        self.count_low = status.bytes as i32;
        self.count_high_and_cancelled = ((status.bytes >> 32) as i32) << 1 | i32::from(status.cancelled);
        self.source = Other::c_rank(status.source);
        self.tag = Other::c_tag(status.tag);
    }

    fn set_error(&mut self, error: Class) {
        self.error = Other::code(error);
    }
}

/// The program's variable of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
struct OtherRequest(i32);

impl Holder for OtherRequest {
    fn request(&self) -> Option<Handle> {
        (self.0 != REQUEST_NULL).then(|| Other::handle(Kind::Request, self.0))
    }

    fn clear(&mut self) {
        self.0 = REQUEST_NULL;
    }
}

/// What a function of the other ABI returns.
fn code(result: Result) -> i32 {
    Other::code(result.err().map_or(Class::SUCCESS, |error| error.class))
}

const OK: i32 = 1000;

fn comm(cs: &Section, c: i32) -> Rc<Comm> {
    comm::from_handle(cs, Other::handle(Kind::Comm, c)).unwrap()
}

fn datatype(cs: &Section, c: i32) -> Rc<Datatype> {
    match known(Other::TYPES, c) {
        Some(name) => Rc::clone(datatype::predefined(name)),
        None => DATATYPES.get(cs).get(Other::handle(Kind::Datatype, c)).unwrap(),
    }
}

fn irecv(
    cs: &Section,
    buf: &mut [i32],
    count: usize,
    datatype: &Rc<Datatype>,
    source: i32,
    tag: i32,
    on: &Comm,
) -> OtherRequest {
    let (source, tag) = (Other::rank(source), Other::tag(tag));
    let m = receive::Incoming { buf: buf.as_mut_ptr().cast(), count, datatype, source, tag, comm: on };
    // SAFETY: each test waits before it looks at the buffer or drops it.
    OtherRequest(Other::c_handle(Kind::Request, unsafe { receive::irecv(cs, &m) }.unwrap()))
}

fn isend(
    cs: &mut Section,
    buf: &[i32],
    count: usize,
    datatype: &Rc<Datatype>,
    dest: i32,
    tag: i32,
    on: &Comm,
) -> OtherRequest {
    let (dest, tag) = (Other::rank(dest), Other::tag(tag));
    let m = send::Outgoing { buf: buf.as_ptr().cast(), count, datatype, dest, tag, comm: on };
    // SAFETY: as for `irecv`.
    OtherRequest(Other::c_handle(Kind::Request, unsafe { send::isend(cs, send::SendMode::Standard, &m) }.unwrap()))
}

fn messages(cs: &mut Section, c: i32) {
    let on = comm(cs, c);
    let pair = datatype::contiguous(Form::Int, 2, &datatype(cs, INT)).unwrap();
    pair.commit();
    let pair_handle = Other::c_handle(Kind::Datatype, DATATYPES.get(cs).enter(pair));
    assert!(pair_handle < 0, "what the program makes has the bit of this ABI");
    let pair = datatype(cs, pair_handle);

    let (out, mut inc) = ([1, 2, 3, 4], [0; 4]);
    let mut requests =
        [irecv(cs, &mut inc, 2, &pair, Other::ANY_SOURCE, Other::ANY_TAG, &on), isend(cs, &out, 2, &pair, 0, 9, &on)];
    let mut status = RUBBISH;
    assert_eq!(code(complete::wait(cs, &mut requests[0], &mut status)), OK);
    assert_eq!((inc, requests[0]), (out, OtherRequest(REQUEST_NULL)));
    let received = OtherStatus { count_low: 16, count_high_and_cancelled: 0, source: 0, tag: 9, error: 5 };
    assert_eq!(status, received, "the error field stays");
    // A null request has the empty status.
    assert_eq!(code(complete::wait(cs, &mut requests[0], &mut status)), OK);
    let empty = OtherStatus { source: -12, tag: -11, error: OK, count_low: 0, count_high_and_cancelled: 0 };
    assert_eq!(status, empty);

    // Too long a message, and one that fits.
    let (mut short, mut long) = ([0; 1], [0; 4]);
    let (int, mut statuses) = (datatype(cs, INT), [RUBBISH; 3]);
    let mut all = [irecv(cs, &mut long, 4, &int, 0, 1, &on), irecv(cs, &mut short, 1, &int, 0, 2, &on), requests[1]];
    let mut sends = [isend(cs, &out, 4, &int, 0, 1, &on), isend(cs, &out, 4, &int, 0, 2, &on)];
    assert_eq!(code(complete::waitall(cs, &mut all, Some(&mut statuses))), 1017);
    assert_eq!(statuses.map(|s| s.error), [OK, 1014, OK]);
    assert_eq!((statuses[0].count_low, statuses[0].tag), (16, 1));
    assert_eq!(code(complete::waitall::<OtherStatus>(cs, &mut sends, None)), OK);
    assert_eq!([all.to_vec(), sends.to_vec()].concat(), vec![OtherRequest(REQUEST_NULL); 5]);
    // A cancelled receive.
    let mut cancelled = irecv(cs, &mut long, 4, &int, 0, 3, &on);
    mpi::request::cancel(cs, cancelled.request().unwrap()).unwrap();
    complete::wait(cs, &mut cancelled, &mut status).unwrap();
    assert_eq!(status.count_high_and_cancelled, 1);
    // A handle that this ABI doesn't have, and one of the standard ABI.
    for stale in [0x180, 0, requests[0].0 + 1, i32::MAX] {
        assert_eq!(code(complete::wait(cs, &mut OtherRequest(stale), &mut status)), 1019, "{stale:#x}");
    }

    let mut none = RUBBISH;
    none.set(&probe::iprobe(cs, Other::rank(Other::PROC_NULL), Other::tag(Other::ANY_TAG), &on).unwrap().unwrap());
    assert_eq!((none.source, none.tag), (-10, -11));
}

thread_local! {
    /// What the program's callbacks have seen.
    static SEEN: RefCell<Vec<(&'static str, i32, i32)>> = const { RefCell::new(Vec::new()) };
}

fn seen() -> Vec<(&'static str, i32, i32)> {
    SEEN.with(RefCell::take)
}

extern "C" fn copy_attribute(comm: i32, keyval: i32, value: *mut c_void, out: &mut *mut c_void) -> i32 {
    SEEN.with_borrow_mut(|seen| seen.push(("copy", comm, keyval)));
    *out = value.wrapping_byte_add(1);
    OK
}

/// Refuses to delete 6, with a code that nobody knows.
extern "C" fn delete_attribute(comm: i32, keyval: i32, value: *mut c_void) -> i32 {
    SEEN.with_borrow_mut(|seen| seen.push(("delete", comm, keyval)));
    if value.addr() == 6 { 4711 } else { OK }
}

/// Behind the core's callbacks, as the other ABI has them.
struct AttributeFunctions;

fn check(code: i32) -> Result {
    if code == OK { Ok(()) } else { Err(Error::new(Other::class(code), "the callback failed")) }
}

fn c_comm(holder: attr::Holder<'_>) -> i32 {
    let attr::Holder::Comm(handle) = holder else { panic!("{holder:?} is no communicator") };
    Other::c_handle(Kind::Comm, handle)
}

impl Callbacks for AttributeFunctions {
    fn copy(
        &self,
        _cs: &mut Section,
        object: attr::Holder<'_>,
        keyval: u32,
        value: *mut c_void,
    ) -> Result<Option<*mut c_void>> {
        let mut copy = std::ptr::null_mut();
        check(copy_attribute(c_comm(object), Other::c_keyval(keyval), value, &mut copy))?;
        Ok(Some(copy))
    }

    fn delete(&self, _cs: &mut Section, object: attr::Holder<'_>, keyval: u32, value: *mut c_void) -> Result {
        check(delete_attribute(c_comm(object), Other::c_keyval(keyval), value))
    }
}

/// Duplicates the communicator with an attribute; the copy's handle.
fn attributes_and_duplicates(cs: &mut Section, c: i32) -> i32 {
    let value = |n: usize| std::ptr::without_provenance_mut::<c_void>(n);
    let keyval = Other::c_keyval(attr::create_keyval(cs, ObjectKind::Comm, Box::new(AttributeFunctions)));
    assert!(keyval >= Other::FIRST_KEYVAL);
    attr::set(cs, &*comm(cs, c), Other::keyval(keyval), value(5)).unwrap();
    let copy = constructors::dup(cs, &comm(cs, c)).unwrap();
    let dup = Other::c_handle(Kind::Comm, copy.handle());
    assert!(dup < 0);
    assert_eq!(seen(), [("copy", c, keyval)]);
    assert_eq!(number(Other::COMPARISONS, copy.compare(&comm(cs, c))), Some(71));
    assert_eq!(attr::get(cs, &*copy, Other::keyval(keyval)).unwrap(), Some(value(6)));
    assert_eq!(code(attr::delete(cs, &*copy, Other::keyval(keyval))), 4711, "the callback's code comes back as it was");
    assert_eq!(seen(), [("delete", dup, keyval)]);
    attr::set(cs, &*copy, Other::keyval(keyval), value(7)).unwrap_err();
    attr::delete(cs, &*comm(cs, c), Other::keyval(keyval)).unwrap();
    assert_eq!(seen(), [("delete", dup, keyval), ("delete", c, keyval)]);
    assert_eq!(code(attr::get(cs, &*copy, Other::keyval(Other::KEYVAL_INVALID)).map(drop)), 1048);
    let io = known(Other::PREDEFINED_KEYVALS, 0x6440_0005).and_then(|it| attributes::predefined(cs, it));
    let Some(attributes::Value::Rank(io)) = io else { panic!("a rank") };
    assert_eq!(Other::c_rank(io), Other::ANY_SOURCE);
    dup
}

/// A reduction function of the other ABI behind the core's.
struct Reduction;

impl op::Function for Reduction {
    unsafe fn combine(
        &self,
        _cs: &mut Section,
        input: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) {
        let handle = datatype.named().and_then(|name| number(Other::TYPES, name)).unwrap();
        SEEN.with_borrow_mut(|seen| seen.push(("reduce", handle, count as i32)));
        for i in 0..count {
            // SAFETY: the test passes that many ints.
            unsafe { *inout.cast::<i32>().add(i) -= *input.cast::<i32>().add(i) };
        }
    }
}

fn operations(cs: &mut Section) {
    let made = Other::c_handle(Kind::Op, OPS.get(cs).enter(Op::user(Box::new(Reduction), false)));
    let sum = op::predefined(known(Other::OPS, 0x5800_0003).unwrap());
    let (int, a, mut b) = (datatype(cs, INT), [1, 2, 3], [10, 20, 30]);
    for op in [OPS.get(cs).get(Other::handle(Kind::Op, made)).unwrap(), Rc::clone(sum)] {
        // SAFETY: arrays of three ints.
        unsafe { op.apply(cs, a.as_ptr().cast(), b.as_mut_ptr().cast(), 3, &int) };
    }
    assert_eq!(b, [10, 20, 30]);
    assert_eq!(seen(), [("reduce", INT, 3)]);
    OPS.get(cs).release(Other::handle(Kind::Op, made)).unwrap();
}

fn error_codes(cs: &mut Section, c: i32) {
    let on_error = |_: &mut Section, handle, class| {
        let (handle, code) = (Other::c_handle(Kind::Comm, handle), Other::code(class));
        SEEN.with_borrow_mut(|seen| seen.push(("error", handle, code)));
        class
    };
    let handler = Other::c_handle(Kind::Errhandler, errhandler::create(cs, Target::Comm, Box::new(on_error)));
    let on = comm(cs, c);
    on.owner.set_errhandler(cs, Other::handle(Kind::Errhandler, handler)).unwrap();
    owner::call_errhandler(cs, &on.owner, Other::class(1006)).unwrap();
    let added = Other::code(errors::add_class(cs).unwrap());
    assert_eq!(added, 0x2000_0001);
    owner::call_errhandler(cs, &on.owner, Other::class(added)).unwrap();
    assert_eq!(seen(), [("error", c, 1006), ("error", c, added)]);
    for unknown in [0, 6, 999, -3, 4711] {
        assert_eq!(Other::code(Other::class(unknown)), unknown);
        assert!(errors::class_of(cs, Other::class(unknown)).is_err(), "{unknown}");
    }
    assert_eq!(Other::code(errors::class_of(cs, Other::class(1014)).unwrap()), 1014);
}

fn constants(cs: &Section) {
    let order = known(Other::ORDERS, 57).unwrap();
    let part = datatype::subarray(Form::Int, &[4], &[2], &[1], order, &datatype(cs, DOUBLE)).unwrap();
    let combiner = part.envelope().combiner;
    assert_eq!(number(Other::COMBINERS, combiner), Some(42));
    assert_eq!(c_integers::<Other>(combiner, &part.contents().integers), [1, 4, 2, 1, 57]);
    assert_eq!(Other::rank(-1), i32::MIN, "the standard ABI's MPI_ANY_SOURCE is none here");
    assert_eq!(Other::c_address(Other::address(Other::IN_PLACE)), Other::IN_PLACE);
    assert!(mpi::coll::is_in_place(std::ptr::without_provenance(Other::address(Other::IN_PLACE))));
    // The lists of both ABIs have nothing in common.
    let differ = |a: &[i32], b: &[i32]| assert!(a.iter().all(|n| !b.contains(n)), "{a:?} {b:?}");
    let numbers = |list: &[(i32, Class)]| list.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    differ(&numbers(Other::CODES)[..1], &numbers(Standard::CODES));
    differ(&Other::LEVELS.iter().map(|(n, _)| *n).collect::<Vec<_>>(), &[0, 1024, 2048, 4096]);
    const { assert!(!Other::SAME_RANKS && Standard::SAME_RANKS && !Other::SAME_ADDRESSES && Standard::SAME_ADDRESSES) };
}

#[test]
fn a_program_of_another_abi_runs_on_the_same_core() {
    // SAFETY: the first to enter.
    let mut inside = unsafe { cs::enter() };
    let cs = inside.section();
    let level = init::init_world(cs, Other::level(11)).unwrap();
    assert_eq!(number(Other::LEVELS, level), Some(11));
    constants(cs);
    let dup = attributes_and_duplicates(cs, COMM_SELF);
    messages(cs, COMM_SELF);
    messages(cs, dup);
    operations(cs);
    error_codes(cs, dup);
    assert_eq!(comm::from_handle(cs, Other::handle(Kind::Comm, 0x102)).err().unwrap().class, Class::ERR_COMM);
    init::finalize(cs).unwrap();
}
