//! The numbers, addresses and handles of the standard ABI (MPI-5.0, 20.3 and appendix A).

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

/// The standard ABI.
pub enum Standard {}

/// The ABI that this library exports.
pub type Chosen = Standard;

/// Version of the standard ABI.
pub const ABI_VERSION: (i32, i32) = (1, 0);
/// What a function returns that has succeeded.
pub const SUCCESS: i32 = 0;
/// What `MPI_Get_library_version` says of the ABI.
pub const ABI_NAME: &str = "standard ABI 1.0 (libmpi_abi.so.1)";
/// Handle values below this are predefined.
pub const PREDEFINED_END: usize = 4096;
/// `MPI_REQUEST_NULL`
pub const REQUEST_NULL: usize = 0x180;
/// `MPI_COMM_WORLD`
pub const COMM_WORLD: usize = 0x101;
/// `MPI_COMM_SELF`
pub const COMM_SELF: usize = 0x102;
/// `MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE`
pub const STATUS_IGNORE: usize = 0;
/// `MPI_DISPLACEMENT_CURRENT`
pub const DISPLACEMENT_CURRENT: i64 = -1;
/// `MPI_BSEND_OVERHEAD`
pub const BSEND_OVERHEAD: usize = 512;
/// `MPI_MAX_PROCESSOR_NAME`
pub const MAX_PROCESSOR_NAME: usize = 256;
/// `MPI_MAX_INFO_KEY`
pub const MAX_INFO_KEY: usize = 256;

/// Room for the predefined datatypes by [`type_index`].
pub const TYPE_INDICES: usize = 0x100;
/// Room for the predefined operations by [`op_index`].
pub const OP_INDICES: usize = 0x20;

/// Where a predefined datatype stands in a table; no smaller than [`TYPE_INDICES`] for any other value.
#[inline(always)]
pub const fn type_index(handle: usize) -> usize {
    handle.wrapping_sub(0x200)
}

/// Where a predefined operation stands in a table; no smaller than [`OP_INDICES`] for any other value.
#[inline(always)]
pub const fn op_index(handle: usize) -> usize {
    handle.wrapping_sub(0x20)
}

/// Whether no object that the program has made can have this handle.
#[inline(always)]
pub const fn is_predefined(handle: usize) -> bool {
    handle < PREDEFINED_END
}

/// `MPI_File` as the program holds it.
pub type RawFile = usize;

/// The program's handle of a file.
#[inline(always)]
pub const fn raw_file(handle: usize) -> RawFile {
    handle
}

/// The reverse of [`raw_file`].
#[inline(always)]
pub const fn file_handle(file: RawFile) -> usize {
    file
}

/// The constants of the tool interface.
pub const TOOL: Numbers = Numbers {
    user_detail: 0x0a,
    tuner_detail: 0x12,
    no_object: 1,
    comm: 2,
    all_equal: 7,
    level: 2,
    counter: 7,
    ordered: 1,
    safety: [0x00, 0x03, 0x0f, 0x3f],
};

impl Abi for Standard {
    type Handle = usize;

    const ANY_SOURCE: i32 = -1;
    const ANY_TAG: i32 = -2;
    const PROC_NULL: i32 = -3;
    const ROOT: i32 = -4;
    const UNDEFINED: i32 = -32766;
    const IN_PLACE: usize = 1;
    const BUFFER_AUTOMATIC: usize = 2;
    const KEYVAL_INVALID: i32 = 0;
    const FIRST_KEYVAL: i32 = 4096;
    const ERR_LASTCODE: i32 = 0x3fff;
    const DISTRIBUTE_DFLT_DARG: i32 = 19;
    const COMPARISONS: &'static [(i32, Comparison)] = &[
        (201, Comparison::Ident),
        (202, Comparison::Congruent),
        (203, Comparison::Similar),
        (204, Comparison::Unequal),
    ];
    const TOPOLOGIES: &'static [(i32, topo::Kind)] =
        &[(211, topo::Kind::Cart), (212, topo::Kind::Graph), (213, topo::Kind::DistGraph)];
    const SPLIT_TYPES: &'static [(i32, SplitType)] = &[
        (221, SplitType::Shared),
        (222, SplitType::HwUnguided),
        (223, SplitType::HwGuided),
        (224, SplitType::ResourceGuided),
    ];
    const LEVELS: &'static [(i32, Level)] =
        &[(0, Level::Single), (1024, Level::Funneled), (2048, Level::Serialized), (4096, Level::Multiple)];
    const COMBINERS: &'static [(i32, Combiner)] = &[
        (101, Combiner::Named),
        (102, Combiner::Dup),
        (103, Combiner::Contiguous),
        (104, Combiner::Vector),
        (105, Combiner::Hvector),
        (106, Combiner::Indexed),
        (107, Combiner::Hindexed),
        (108, Combiner::IndexedBlock),
        (109, Combiner::HindexedBlock),
        (110, Combiner::Struct),
        (111, Combiner::Subarray),
        (112, Combiner::Darray),
        (113, Combiner::F90Real),
        (114, Combiner::F90Complex),
        (115, Combiner::F90Integer),
        (116, Combiner::Resized),
        (117, Combiner::ValueIndex),
    ];
    const ORDERS: &'static [(i32, i32)] = &[(12, ORDER_C), (15, ORDER_FORTRAN)];
    const DISTRIBUTIONS: &'static [(i32, i32)] =
        &[(16, DISTRIBUTE_NONE), (17, DISTRIBUTE_BLOCK), (18, DISTRIBUTE_CYCLIC)];
    const TYPE_CLASSES: &'static [(i32, TypeClass)] =
        &[(192, TypeClass::Integer), (193, TypeClass::Real), (194, TypeClass::Complex)];
    const PREDEFINED_KEYVALS: &'static [(i32, Attribute)] = &[
        (501, Attribute::TagUb),
        (502, Attribute::Io),
        (503, Attribute::Host),
        (504, Attribute::WtimeIsGlobal),
        (505, Attribute::AppNum),
        (506, Attribute::LastUsedCode),
        (507, Attribute::UniverseSize),
    ];
    const ACCESS_MODES: &'static [(i32, Amode)] = &[
        (1, Amode::APPEND),
        (2, Amode::CREATE),
        (4, Amode::DELETE_ON_CLOSE),
        (8, Amode::EXCL),
        (16, Amode::RDONLY),
        (32, Amode::RDWR),
        (64, Amode::SEQUENTIAL),
        (128, Amode::UNIQUE_OPEN),
        (256, Amode::WRONLY),
    ];
    const WHENCES: &'static [(i32, Whence)] = &[(401, Whence::Current), (402, Whence::End), (403, Whence::Set)];
    const WIN_KEYVALS: &'static [(i32, rma::Attribute)] = &[
        (601, rma::Attribute::Base),
        (602, rma::Attribute::DispUnit),
        (603, rma::Attribute::Size),
        (604, rma::Attribute::Flavor),
        (605, rma::Attribute::Model),
    ];
    const WIN_FLAVORS: &'static [(i32, rma::Flavor)] = &[
        (311, rma::Flavor::Create),
        (312, rma::Flavor::Allocate),
        (313, rma::Flavor::Dynamic),
        (314, rma::Flavor::Shared),
    ];
    const WIN_UNIFIED: i32 = 321;
    const LOCK_TYPES: &'static [(i32, bool)] = &[(301, true), (302, false)];
    const ASSERTIONS: &'static [(i32, rma::Mode)] = &[
        (1024, rma::Mode::NoCheck),
        (2048, rma::Mode::NoPrecede),
        (4096, rma::Mode::NoPut),
        (8192, rma::Mode::NoStore),
        (16384, rma::Mode::NoSucceed),
    ];
    const NULLS: &'static [(usize, Kind)] = &[
        (0x100, Kind::Comm),
        (0x108, Kind::Group),
        (0x110, Kind::Win),
        (0x118, Kind::File),
        (0x120, Kind::Session),
        (0x128, Kind::Message),
        (0x130, Kind::Info),
        (0x140, Kind::Errhandler),
        (0x200, Kind::Datatype),
        (0x20, Kind::Op),
        (REQUEST_NULL, Kind::Request),
    ];
    const OBJECTS: &'static [(usize, (Kind, Handle))] = &[
        (COMM_WORLD, (Kind::Comm, Handle::COMM_WORLD)),
        (COMM_SELF, (Kind::Comm, Handle::COMM_SELF)),
        (0x109, (Kind::Group, Handle::GROUP_EMPTY)),
        (0x129, (Kind::Message, Handle::MESSAGE_NO_PROC)),
        (0x131, (Kind::Info, Handle::INFO_ENV)),
        (0x141, (Kind::Errhandler, Handle::ERRORS_ARE_FATAL)),
        (0x142, (Kind::Errhandler, Handle::ERRORS_ABORT)),
        (0x143, (Kind::Errhandler, Handle::ERRORS_RETURN)),
    ];
    const OPS: &'static [(usize, Predefined)] = &[
        (0x21, Predefined::Sum),
        (0x22, Predefined::Min),
        (0x23, Predefined::Max),
        (0x24, Predefined::Prod),
        (0x28, Predefined::Band),
        (0x29, Predefined::Bor),
        (0x2a, Predefined::Bxor),
        (0x30, Predefined::Land),
        (0x31, Predefined::Lor),
        (0x32, Predefined::Lxor),
        (0x38, Predefined::Minloc),
        (0x39, Predefined::Maxloc),
        (0x3c, Predefined::Replace),
        (0x3d, Predefined::NoOp),
    ];
    const TYPES: &'static [(usize, Name)] = &[
        (0x201, Name::MPI_AINT),
        (0x202, Name::MPI_COUNT),
        (0x203, Name::MPI_OFFSET),
        (0x207, Name::MPI_PACKED),
        (0x208, Name::MPI_SHORT),
        (0x209, Name::MPI_INT),
        (0x20a, Name::MPI_LONG),
        (0x20b, Name::MPI_LONG_LONG_INT),
        (0x20c, Name::MPI_UNSIGNED_SHORT),
        (0x20d, Name::MPI_UNSIGNED),
        (0x20e, Name::MPI_UNSIGNED_LONG),
        (0x20f, Name::MPI_UNSIGNED_LONG_LONG),
        (0x210, Name::MPI_FLOAT),
        (0x212, Name::MPI_C_COMPLEX),
        (0x213, Name::MPI_CXX_FLOAT_COMPLEX),
        (0x214, Name::MPI_DOUBLE),
        (0x216, Name::MPI_C_DOUBLE_COMPLEX),
        (0x217, Name::MPI_CXX_DOUBLE_COMPLEX),
        (0x218, Name::MPI_LOGICAL),
        (0x219, Name::MPI_INTEGER),
        (0x21a, Name::MPI_REAL),
        (0x21b, Name::MPI_COMPLEX),
        (0x21c, Name::MPI_DOUBLE_PRECISION),
        (0x21d, Name::MPI_DOUBLE_COMPLEX),
        (0x21e, Name::MPI_CHARACTER),
        (0x220, Name::MPI_LONG_DOUBLE),
        (0x224, Name::MPI_C_LONG_DOUBLE_COMPLEX),
        (0x225, Name::MPI_CXX_LONG_DOUBLE_COMPLEX),
        (0x228, Name::MPI_FLOAT_INT),
        (0x229, Name::MPI_DOUBLE_INT),
        (0x22a, Name::MPI_LONG_INT),
        (0x22b, Name::MPI_2INT),
        (0x22c, Name::MPI_SHORT_INT),
        (0x22d, Name::MPI_LONG_DOUBLE_INT),
        (0x230, Name::MPI_2REAL),
        (0x231, Name::MPI_2DOUBLE_PRECISION),
        (0x232, Name::MPI_2INTEGER),
        (0x238, Name::MPI_C_BOOL),
        (0x239, Name::MPI_CXX_BOOL),
        (0x23c, Name::MPI_WCHAR),
        (0x240, Name::MPI_INT8_T),
        (0x241, Name::MPI_UINT8_T),
        (0x243, Name::MPI_CHAR),
        (0x244, Name::MPI_SIGNED_CHAR),
        (0x245, Name::MPI_UNSIGNED_CHAR),
        (0x247, Name::MPI_BYTE),
        (0x248, Name::MPI_INT16_T),
        (0x249, Name::MPI_UINT16_T),
        (0x250, Name::MPI_INT32_T),
        (0x251, Name::MPI_UINT32_T),
        (0x258, Name::MPI_INT64_T),
        (0x259, Name::MPI_UINT64_T),
        (0x2c0, Name::MPI_LOGICAL1),
        (0x2c1, Name::MPI_INTEGER1),
        (0x2c8, Name::MPI_LOGICAL2),
        (0x2c9, Name::MPI_INTEGER2),
        (0x2ca, Name::MPI_REAL2),
        (0x2d0, Name::MPI_LOGICAL4),
        (0x2d1, Name::MPI_INTEGER4),
        (0x2d2, Name::MPI_REAL4),
        (0x2d3, Name::MPI_COMPLEX4),
        (0x2d8, Name::MPI_LOGICAL8),
        (0x2d9, Name::MPI_INTEGER8),
        (0x2da, Name::MPI_REAL8),
        (0x2db, Name::MPI_COMPLEX8),
        (0x2e0, Name::MPI_LOGICAL16),
        (0x2e1, Name::MPI_INTEGER16),
        (0x2e2, Name::MPI_REAL16),
        (0x2e3, Name::MPI_COMPLEX16),
        (0x2eb, Name::MPI_COMPLEX32),
    ];
    const CODES: &'static [(i32, Class)] = &[
        (0, Class::SUCCESS),
        (1, Class::ERR_BUFFER),
        (2, Class::ERR_COUNT),
        (3, Class::ERR_TYPE),
        (4, Class::ERR_TAG),
        (5, Class::ERR_COMM),
        (6, Class::ERR_RANK),
        (7, Class::ERR_REQUEST),
        (8, Class::ERR_ROOT),
        (9, Class::ERR_GROUP),
        (10, Class::ERR_OP),
        (11, Class::ERR_TOPOLOGY),
        (12, Class::ERR_DIMS),
        (13, Class::ERR_ARG),
        (14, Class::ERR_UNKNOWN),
        (15, Class::ERR_TRUNCATE),
        (16, Class::ERR_OTHER),
        (17, Class::ERR_INTERN),
        (18, Class::ERR_PENDING),
        (19, Class::ERR_IN_STATUS),
        (20, Class::ERR_ACCESS),
        (21, Class::ERR_AMODE),
        (22, Class::ERR_ASSERT),
        (23, Class::ERR_BAD_FILE),
        (24, Class::ERR_BASE),
        (25, Class::ERR_CONVERSION),
        (26, Class::ERR_DISP),
        (27, Class::ERR_DUP_DATAREP),
        (28, Class::ERR_FILE_EXISTS),
        (29, Class::ERR_FILE_IN_USE),
        (30, Class::ERR_FILE),
        (31, Class::ERR_INFO_KEY),
        (32, Class::ERR_INFO_NOKEY),
        (33, Class::ERR_INFO_VALUE),
        (34, Class::ERR_INFO),
        (35, Class::ERR_IO),
        (36, Class::ERR_KEYVAL),
        (37, Class::ERR_LOCKTYPE),
        (38, Class::ERR_NAME),
        (39, Class::ERR_NO_MEM),
        (40, Class::ERR_NOT_SAME),
        (41, Class::ERR_NO_SPACE),
        (42, Class::ERR_NO_SUCH_FILE),
        (43, Class::ERR_PORT),
        (44, Class::ERR_QUOTA),
        (45, Class::ERR_READ_ONLY),
        (46, Class::ERR_RMA_ATTACH),
        (47, Class::ERR_RMA_CONFLICT),
        (48, Class::ERR_RMA_RANGE),
        (49, Class::ERR_RMA_SHARED),
        (50, Class::ERR_RMA_SYNC),
        (51, Class::ERR_SERVICE),
        (52, Class::ERR_SIZE),
        (53, Class::ERR_SPAWN),
        (54, Class::ERR_UNSUPPORTED_DATAREP),
        (55, Class::ERR_UNSUPPORTED_OPERATION),
        (56, Class::ERR_WIN),
        (57, Class::ERR_RMA_FLAVOR),
        (58, Class::ERR_PROC_ABORTED),
        (59, Class::ERR_VALUE_TOO_LARGE),
        (60, Class::ERR_SESSION),
        (61, Class::ERR_ERRHANDLER),
        (62, Class::ERR_ABI),
        (1001, Class::T_ERR_CANNOT_INIT),
        (1002, Class::T_ERR_NOT_ACCESSIBLE),
        (1003, Class::T_ERR_NOT_INITIALIZED),
        (1004, Class::T_ERR_NOT_SUPPORTED),
        (1005, Class::T_ERR_MEMORY),
        (1006, Class::T_ERR_INVALID),
        (1007, Class::T_ERR_INVALID_INDEX),
        (1008, Class::T_ERR_INVALID_ITEM),
        (1009, Class::T_ERR_INVALID_SESSION),
        (1010, Class::T_ERR_INVALID_HANDLE),
        (1011, Class::T_ERR_INVALID_NAME),
        (1012, Class::T_ERR_OUT_OF_HANDLES),
        (1013, Class::T_ERR_OUT_OF_SESSIONS),
        (1014, Class::T_ERR_CVAR_SET_NOT_NOW),
        (1015, Class::T_ERR_CVAR_SET_NEVER),
        (1016, Class::T_ERR_PVAR_NO_WRITE),
        (1017, Class::T_ERR_PVAR_NO_STARTSTOP),
        (1018, Class::T_ERR_PVAR_NO_ATOMIC),
        // Of extensions, at the end of what the standard leaves: see mpi-ext.h.
        (0x3f01, Class::ERR_PROC_FAILED_PENDING),
        (0x3f02, Class::ERR_REVOKED),
    ];

    /// Our handles are such small integers that `_toint` is the identity, above all predefined ones.
    #[inline(always)]
    fn encode(handle: Handle) -> usize {
        handle.0
    }

    #[inline(always)]
    fn decode(handle: usize) -> Option<Handle> {
        (handle >= PREDEFINED_END).then_some(Handle(handle))
    }

    #[inline(always)]
    fn made(handle: usize) -> Handle {
        Handle(handle)
    }
}
