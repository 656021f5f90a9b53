//! The numbers, addresses and handles of the ABI that MPICH, Intel MPI and MVAPICH share since MPICH 3.1 (`libmpi.so.12`).
//!
//! Handles are `int`, but files, which are pointers. Bits 26 to 29 of a predefined handle say its kind, those of a datatype also its size. The
//! program never looks into the handle of an object that it made: it only mustn't be one of these.

pub mod data;
pub mod extensions;
pub mod fortran;
pub mod removed;
pub mod status;

use crate::convert::Abi;
use crate::tool::Numbers;
use base::Class;
use mpi::comm::attributes::Predefined as Attribute;
use mpi::constructors::SplitType;
use mpi::datatype::{
    Combiner, DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_NONE, Name, ORDER_C, ORDER_FORTRAN, TypeClass,
};
use mpi::group::Comparison;
use mpi::handle::{Handle, Kind};
use mpi::io::{Amode, Whence};
use mpi::op::Predefined;
use mpi::rma;
use mpi::thread::Level;
use mpi::topo;

/// The ABI of MPICH.
pub enum Mpich {}

/// The ABI that this library exports.
pub type Chosen = Mpich;

/// It has no version of the standard ABI.
pub const ABI_VERSION: (i32, i32) = (-1, -1);
/// What a function returns that has succeeded.
pub const SUCCESS: i32 = 0;
/// What `MPI_Get_library_version` says of the ABI.
pub const ABI_NAME: &str = "MPICH ABI (libmpi.so.12)";
/// `MPI_REQUEST_NULL`
pub const REQUEST_NULL: i32 = 0x2c00_0000;
/// `MPI_COMM_WORLD`
pub const COMM_WORLD: i32 = 0x4400_0000;
/// `MPI_COMM_SELF`
pub const COMM_SELF: i32 = 0x4400_0001;
/// `MPI_LB`, which `MPI_Type_struct` takes for a lower bound.
pub const LB: i32 = 0x4c00_0010;
/// `MPI_UB`
pub const UB: i32 = 0x4c00_0011;
/// `MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE`
pub const STATUS_IGNORE: usize = 1;
/// `MPI_DISPLACEMENT_CURRENT`
pub const DISPLACEMENT_CURRENT: i64 = -54_278_278;
/// `MPI_BSEND_OVERHEAD`
pub const BSEND_OVERHEAD: usize = 96;
/// `MPI_MAX_PROCESSOR_NAME`
pub const MAX_PROCESSOR_NAME: usize = 128;
/// `MPI_MAX_INFO_KEY`
pub const MAX_INFO_KEY: usize = 255;

/// Set in the handles of objects that the program has made.
const MADE: u32 = 1 << 31;
/// Flipped in them: else the first datatypes would have the handles of the pair types.
const APART: u32 = 3 << 28;
/// The handles of pair types that aren't contiguous.
const PAIRS: u32 = 0x8c00_0000;
const PAIR_COUNT: u32 = 5;

/// The handle of the pair type with this number.
const fn pair(number: u32) -> i32 {
    (PAIRS + number) as i32
}

const fn is_pair(handle: i32) -> bool {
    (handle as u32).wrapping_sub(PAIRS) < PAIR_COUNT
}

/// Room for the predefined datatypes by [`type_index`].
pub const TYPE_INDICES: usize = 0x100;
/// Room for the predefined operations by [`op_index`].
pub const OP_INDICES: usize = 0x10;

/// A predefined datatype's number; those of pair types follow the others'.
const fn type_number(handle: i32) -> usize {
    (handle as u32 & 0x7f) as usize | if handle < 0 { 0x80 } else { 0 }
}

/// The predefined datatypes by their number: the size is part of the handle, so that the number alone doesn't make one.
const TYPES_BY_NUMBER: [i32; TYPE_INDICES] = {
    let mut all = [0; TYPE_INDICES];
    let mut i = 0;
    while i < Mpich::TYPES.len() {
        let handle = Mpich::TYPES[i].0;
        all[type_number(handle)] = handle;
        i += 1;
    }
    all
};

/// Where a predefined datatype stands in a table; no smaller than [`TYPE_INDICES`] for any other value.
#[inline(always)]
pub const fn type_index(handle: i32) -> usize {
    let number = type_number(handle);
    if TYPES_BY_NUMBER[number] == handle { number } else { TYPE_INDICES }
}

/// Where a predefined operation stands in a table; no smaller than [`OP_INDICES`] for any other value.
#[inline(always)]
pub const fn op_index(handle: i32) -> usize {
    handle.wrapping_sub(0x5800_0000) as u32 as usize
}

/// Whether no object that the program has made can have this handle.
#[inline(always)]
pub const fn is_predefined(handle: i32) -> bool {
    handle >= 0 || is_pair(handle)
}

/// `MPI_File` as the program holds it: a pointer, which nobody follows.
pub type RawFile = usize;

/// The program's handle of a file.
#[inline(always)]
pub const fn raw_file(handle: i32) -> RawFile {
    handle as u32 as usize
}

/// The reverse of [`raw_file`]; a pointer that can't be a handle is no predefined one either.
#[inline(always)]
pub const fn file_handle(file: RawFile) -> i32 {
    if file >> 32 == 0 { file as u32 as i32 } else { COMM_WORLD }
}

/// The constants of the tool interface.
pub const TOOL: Numbers = Numbers {
    user_detail: 222,
    tuner_detail: 225,
    no_object: 9700,
    comm: 9701,
    all_equal: 60444,
    level: 241,
    counter: 246,
    ordered: 0,
    safety: [0, 1, 2, 3],
};

impl Abi for Mpich {
    type Handle = i32;

    const ANY_SOURCE: i32 = -2;
    const ANY_TAG: i32 = -1;
    const PROC_NULL: i32 = -1;
    const ROOT: i32 = -3;
    const UNDEFINED: i32 = -32766;
    const IN_PLACE: usize = usize::MAX;
    const BUFFER_AUTOMATIC: usize = usize::MAX - 1;
    const KEYVAL_INVALID: i32 = 0x2400_0000;
    const FIRST_KEYVAL: i32 = 0x7000_0000;
    const ERR_LASTCODE: i32 = 0x3fff_ffff;
    const DISTRIBUTE_DFLT_DARG: i32 = -49767;
    const COMPARISONS: &'static [(i32, Comparison)] =
        &[(0, Comparison::Ident), (1, Comparison::Congruent), (2, Comparison::Similar), (3, Comparison::Unequal)];
    const TOPOLOGIES: &'static [(i32, topo::Kind)] =
        &[(1, topo::Kind::Graph), (2, topo::Kind::Cart), (3, topo::Kind::DistGraph)];
    const SPLIT_TYPES: &'static [(i32, SplitType)] =
        &[(1, SplitType::Shared), (2, SplitType::HwGuided), (3, SplitType::HwUnguided), (4, SplitType::ResourceGuided)];
    const LEVELS: &'static [(i32, Level)] =
        &[(0, Level::Single), (1, Level::Funneled), (2, Level::Serialized), (3, Level::Multiple)];
    const COMBINERS: &'static [(i32, Combiner)] = &[
        (1, Combiner::Named),
        (2, Combiner::Dup),
        (3, Combiner::Contiguous),
        (4, Combiner::Vector),
        (6, Combiner::Hvector),
        (7, Combiner::Indexed),
        (9, Combiner::Hindexed),
        (10, Combiner::IndexedBlock),
        (12, Combiner::Struct),
        (13, Combiner::Subarray),
        (14, Combiner::Darray),
        (15, Combiner::F90Real),
        (16, Combiner::F90Complex),
        (17, Combiner::F90Integer),
        (18, Combiner::Resized),
        (19, Combiner::HindexedBlock),
        (20, Combiner::ValueIndex),
    ];
    const ORDERS: &'static [(i32, i32)] = &[(56, ORDER_C), (57, ORDER_FORTRAN)];
    const DISTRIBUTIONS: &'static [(i32, i32)] =
        &[(121, DISTRIBUTE_BLOCK), (122, DISTRIBUTE_CYCLIC), (123, DISTRIBUTE_NONE)];
    const TYPE_CLASSES: &'static [(i32, TypeClass)] =
        &[(1, TypeClass::Real), (2, TypeClass::Integer), (3, TypeClass::Complex)];
    const PREDEFINED_KEYVALS: &'static [(i32, Attribute)] = &[
        (0x6440_0001, Attribute::TagUb),
        (0x6440_0003, Attribute::Host),
        (0x6440_0005, Attribute::Io),
        (0x6440_0007, Attribute::WtimeIsGlobal),
        (0x6440_0009, Attribute::UniverseSize),
        (0x6440_000b, Attribute::LastUsedCode),
        (0x6440_000d, Attribute::AppNum),
    ];
    const ACCESS_MODES: &'static [(i32, Amode)] = &[
        (1, Amode::CREATE),
        (2, Amode::RDONLY),
        (4, Amode::WRONLY),
        (8, Amode::RDWR),
        (16, Amode::DELETE_ON_CLOSE),
        (32, Amode::UNIQUE_OPEN),
        (64, Amode::EXCL),
        (128, Amode::APPEND),
        (256, Amode::SEQUENTIAL),
    ];
    const WHENCES: &'static [(i32, Whence)] = &[(600, Whence::Set), (602, Whence::Current), (604, Whence::End)];
    const WIN_KEYVALS: &'static [(i32, rma::Attribute)] = &[
        (0x6600_0001, rma::Attribute::Base),
        (0x6600_0003, rma::Attribute::Size),
        (0x6600_0005, rma::Attribute::DispUnit),
        (0x6600_0007, rma::Attribute::Flavor),
        (0x6600_0009, rma::Attribute::Model),
    ];
    const WIN_FLAVORS: &'static [(i32, rma::Flavor)] =
        &[(1, rma::Flavor::Create), (2, rma::Flavor::Allocate), (3, rma::Flavor::Dynamic), (4, rma::Flavor::Shared)];
    const WIN_UNIFIED: i32 = 2;
    const LOCK_TYPES: &'static [(i32, bool)] = &[(234, true), (235, false)];
    const ASSERTIONS: &'static [(i32, rma::Mode)] = &[
        (1024, rma::Mode::NoCheck),
        (2048, rma::Mode::NoStore),
        (4096, rma::Mode::NoPut),
        (8192, rma::Mode::NoPrecede),
        (16384, rma::Mode::NoSucceed),
    ];
    const NULLS: &'static [(i32, Kind)] = &[
        (0x0400_0000, Kind::Comm),
        (0x0800_0000, Kind::Group),
        (0x0c00_0000, Kind::Datatype),
        (0x1400_0000, Kind::Errhandler),
        (0x1800_0000, Kind::Op),
        (0x1c00_0000, Kind::Info),
        (0x2000_0000, Kind::Win),
        (REQUEST_NULL, Kind::Request),
        (0x2c00_0000, Kind::Message),
        (0x3800_0000, Kind::Session),
        (0, Kind::File),
    ];
    const OBJECTS: &'static [(i32, (Kind, Handle))] = &[
        (COMM_WORLD, (Kind::Comm, Handle::COMM_WORLD)),
        (COMM_SELF, (Kind::Comm, Handle::COMM_SELF)),
        (0x4800_0000, (Kind::Group, Handle::GROUP_EMPTY)),
        (0x6c00_0000, (Kind::Message, Handle::MESSAGE_NO_PROC)),
        (0x5c00_0001, (Kind::Info, Handle::INFO_ENV)),
        (0x5400_0000, (Kind::Errhandler, Handle::ERRORS_ARE_FATAL)),
        (0x5400_0001, (Kind::Errhandler, Handle::ERRORS_RETURN)),
        (0x5400_0003, (Kind::Errhandler, Handle::ERRORS_ABORT)),
    ];
    const OPS: &'static [(i32, Predefined)] = &[
        (0x5800_0001, Predefined::Max),
        (0x5800_0002, Predefined::Min),
        (0x5800_0003, Predefined::Sum),
        (0x5800_0004, Predefined::Prod),
        (0x5800_0005, Predefined::Land),
        (0x5800_0006, Predefined::Band),
        (0x5800_0007, Predefined::Lor),
        (0x5800_0008, Predefined::Bor),
        (0x5800_0009, Predefined::Lxor),
        (0x5800_000a, Predefined::Bxor),
        (0x5800_000b, Predefined::Minloc),
        (0x5800_000c, Predefined::Maxloc),
        (0x5800_000d, Predefined::Replace),
        (0x5800_000e, Predefined::NoOp),
    ];
    const TYPES: &'static [(i32, Name)] = &[
        (0x4c00_0101, Name::MPI_CHAR),
        (0x4c00_0102, Name::MPI_UNSIGNED_CHAR),
        (0x4c00_010d, Name::MPI_BYTE),
        (0x4c00_010f, Name::MPI_PACKED),
        (0x4c00_0118, Name::MPI_SIGNED_CHAR),
        (0x4c00_011a, Name::MPI_CHARACTER),
        (0x4c00_012d, Name::MPI_INTEGER1),
        (0x4c00_0133, Name::MPI_CXX_BOOL),
        (0x4c00_0137, Name::MPI_INT8_T),
        (0x4c00_013b, Name::MPI_UINT8_T),
        (0x4c00_013f, Name::MPI_C_BOOL),
        (0x4c00_0147, Name::MPI_LOGICAL1),
        (0x4c00_0203, Name::MPI_SHORT),
        (0x4c00_0204, Name::MPI_UNSIGNED_SHORT),
        (0x4c00_0226, Name::MPI_REAL2),
        (0x4c00_022f, Name::MPI_INTEGER2),
        (0x4c00_0238, Name::MPI_INT16_T),
        (0x4c00_023c, Name::MPI_UINT16_T),
        (0x4c00_0248, Name::MPI_LOGICAL2),
        (0x4c00_0405, Name::MPI_INT),
        (0x4c00_0406, Name::MPI_UNSIGNED),
        (0x4c00_040a, Name::MPI_FLOAT),
        (0x4c00_040e, Name::MPI_WCHAR),
        (0x4c00_041b, Name::MPI_INTEGER),
        (0x4c00_041c, Name::MPI_REAL),
        (0x4c00_041d, Name::MPI_LOGICAL),
        (0x4c00_0427, Name::MPI_REAL4),
        (0x4c00_042e, Name::MPI_COMPLEX4),
        (0x4c00_0430, Name::MPI_INTEGER4),
        (0x4c00_0439, Name::MPI_INT32_T),
        (0x4c00_043d, Name::MPI_UINT32_T),
        (0x4c00_0449, Name::MPI_LOGICAL4),
        (0x4c00_0807, Name::MPI_LONG),
        (0x4c00_0808, Name::MPI_UNSIGNED_LONG),
        (0x4c00_0809, Name::MPI_LONG_LONG_INT),
        (0x4c00_080b, Name::MPI_DOUBLE),
        (0x4c00_0816, Name::MPI_2INT),
        (0x4c00_0819, Name::MPI_UNSIGNED_LONG_LONG),
        (0x4c00_081e, Name::MPI_COMPLEX),
        (0x4c00_081f, Name::MPI_DOUBLE_PRECISION),
        (0x4c00_0820, Name::MPI_2INTEGER),
        (0x4c00_0821, Name::MPI_2REAL),
        (0x4c00_0828, Name::MPI_COMPLEX8),
        (0x4c00_0829, Name::MPI_REAL8),
        (0x4c00_0831, Name::MPI_INTEGER8),
        (0x4c00_0834, Name::MPI_CXX_FLOAT_COMPLEX),
        (0x4c00_083a, Name::MPI_INT64_T),
        (0x4c00_083e, Name::MPI_UINT64_T),
        (0x4c00_0840, Name::MPI_C_COMPLEX),
        (0x4c00_0843, Name::MPI_AINT),
        (0x4c00_0844, Name::MPI_OFFSET),
        (0x4c00_0845, Name::MPI_COUNT),
        (0x4c00_084a, Name::MPI_LOGICAL8),
        (0x4c00_100c, Name::MPI_LONG_DOUBLE),
        (0x4c00_1022, Name::MPI_DOUBLE_COMPLEX),
        (0x4c00_1023, Name::MPI_2DOUBLE_PRECISION),
        (0x4c00_102a, Name::MPI_COMPLEX16),
        (0x4c00_102b, Name::MPI_REAL16),
        (0x4c00_1032, Name::MPI_INTEGER16),
        (0x4c00_1035, Name::MPI_CXX_DOUBLE_COMPLEX),
        (0x4c00_1041, Name::MPI_C_DOUBLE_COMPLEX),
        (0x4c00_104b, Name::MPI_LOGICAL16),
        (0x4c00_202c, Name::MPI_COMPLEX32),
        (0x4c00_2036, Name::MPI_CXX_LONG_DOUBLE_COMPLEX),
        (0x4c00_2042, Name::MPI_C_LONG_DOUBLE_COMPLEX),
        (pair(0), Name::MPI_FLOAT_INT),
        (pair(1), Name::MPI_DOUBLE_INT),
        (pair(2), Name::MPI_LONG_INT),
        (pair(3), Name::MPI_SHORT_INT),
        (pair(4), Name::MPI_LONG_DOUBLE_INT),
    ];
    const CODES: &'static [(i32, Class)] = &[
        (0, Class::SUCCESS),
        (1, Class::ERR_BUFFER),
        (2, Class::ERR_COUNT),
        (3, Class::ERR_TYPE),
        (4, Class::ERR_TAG),
        (5, Class::ERR_COMM),
        (6, Class::ERR_RANK),
        (7, Class::ERR_ROOT),
        (8, Class::ERR_GROUP),
        (9, Class::ERR_OP),
        (10, Class::ERR_TOPOLOGY),
        (11, Class::ERR_DIMS),
        (12, Class::ERR_ARG),
        (13, Class::ERR_UNKNOWN),
        (14, Class::ERR_TRUNCATE),
        (15, Class::ERR_OTHER),
        (16, Class::ERR_INTERN),
        (17, Class::ERR_IN_STATUS),
        (18, Class::ERR_PENDING),
        (19, Class::ERR_REQUEST),
        (20, Class::ERR_ACCESS),
        (21, Class::ERR_AMODE),
        (22, Class::ERR_BAD_FILE),
        (23, Class::ERR_CONVERSION),
        (24, Class::ERR_DUP_DATAREP),
        (25, Class::ERR_FILE_EXISTS),
        (26, Class::ERR_FILE_IN_USE),
        (27, Class::ERR_FILE),
        (28, Class::ERR_INFO),
        (29, Class::ERR_INFO_KEY),
        (30, Class::ERR_INFO_VALUE),
        (31, Class::ERR_INFO_NOKEY),
        (32, Class::ERR_IO),
        (33, Class::ERR_NAME),
        (34, Class::ERR_NO_MEM),
        (35, Class::ERR_NOT_SAME),
        (36, Class::ERR_NO_SPACE),
        (37, Class::ERR_NO_SUCH_FILE),
        (38, Class::ERR_PORT),
        (39, Class::ERR_QUOTA),
        (40, Class::ERR_READ_ONLY),
        (41, Class::ERR_SERVICE),
        (42, Class::ERR_SPAWN),
        (43, Class::ERR_UNSUPPORTED_DATAREP),
        (44, Class::ERR_UNSUPPORTED_OPERATION),
        (45, Class::ERR_WIN),
        (46, Class::ERR_BASE),
        (47, Class::ERR_LOCKTYPE),
        (48, Class::ERR_KEYVAL),
        (49, Class::ERR_RMA_CONFLICT),
        (50, Class::ERR_RMA_SYNC),
        (51, Class::ERR_SIZE),
        (52, Class::ERR_DISP),
        (53, Class::ERR_ASSERT),
        (55, Class::ERR_RMA_RANGE),
        (56, Class::ERR_RMA_ATTACH),
        (57, Class::ERR_RMA_SHARED),
        (58, Class::ERR_RMA_FLAVOR),
        (59, Class::T_ERR_MEMORY),
        (60, Class::T_ERR_NOT_INITIALIZED),
        (61, Class::T_ERR_CANNOT_INIT),
        (62, Class::T_ERR_INVALID_INDEX),
        (63, Class::T_ERR_INVALID_ITEM),
        (64, Class::T_ERR_INVALID_HANDLE),
        (65, Class::T_ERR_OUT_OF_HANDLES),
        (66, Class::T_ERR_OUT_OF_SESSIONS),
        (67, Class::T_ERR_INVALID_SESSION),
        (68, Class::T_ERR_CVAR_SET_NOT_NOW),
        (69, Class::T_ERR_CVAR_SET_NEVER),
        (70, Class::T_ERR_PVAR_NO_STARTSTOP),
        (71, Class::T_ERR_PVAR_NO_WRITE),
        (72, Class::T_ERR_PVAR_NO_ATOMIC),
        (73, Class::T_ERR_INVALID_NAME),
        (74, Class::T_ERR_INVALID),
        (75, Class::ERR_SESSION),
        // What MPICH says of a failed process, `MPIX_ERR_PROC_FAILED`; the first number of a class is the one that is returned.
        (101, Class::ERR_PROC_ABORTED),
        (76, Class::ERR_PROC_ABORTED),
        (77, Class::ERR_VALUE_TOO_LARGE),
        (78, Class::T_ERR_NOT_SUPPORTED),
        (79, Class::T_ERR_NOT_ACCESSIBLE),
        (80, Class::ERR_ERRHANDLER),
        (81, Class::ERR_ABI),
        (102, Class::ERR_PROC_FAILED_PENDING),
        (103, Class::ERR_REVOKED),
    ];

    #[inline(always)]
    fn encode(handle: Handle) -> i32 {
        (handle.0 as u32 ^ (MADE | APART)) as i32
    }

    #[inline(always)]
    fn decode(handle: i32) -> Option<Handle> {
        (!is_predefined(handle)).then_some(Mpich::made(handle))
    }

    /// Of a predefined value a number that is never a live object's: these have bit 31 set.
    #[inline(always)]
    fn made(handle: i32) -> Handle {
        Handle((handle as u32 ^ (MADE | APART)) as usize)
    }
}
