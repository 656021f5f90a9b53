//! The one error type: small and `Copy`, so that it travels through the data path for free.
//!
//! The function that first decides that something failed logs the cause once ([`crate::log`]); what travels on is the MPI
//! error class (MPI-5.0, 9.4) and a short constant text for `MPI_Error_string`.

/// An MPI error class or a user-defined error code, as the MPI 5.0 ABI numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub i32);

macro_rules! classes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Class {
            $(#[doc = $text] pub const $name: Class = Class($value);)*

            /// The standard text of a predefined class, `None` for any other number.
            pub fn text(self) -> Option<&'static str> {
                match self.0 { $($value => Some(concat!("MPI_", stringify!($name), ": ", $text)),)* _ => None }
            }
        }
    };
}

classes! {
    SUCCESS = 0, "no error";
    ERR_BUFFER = 1, "invalid buffer pointer";
    ERR_COUNT = 2, "invalid count argument";
    ERR_TYPE = 3, "invalid datatype argument";
    ERR_TAG = 4, "invalid tag argument";
    ERR_COMM = 5, "invalid communicator";
    ERR_RANK = 6, "invalid rank";
    ERR_REQUEST = 7, "invalid request handle";
    ERR_ROOT = 8, "invalid root";
    ERR_GROUP = 9, "invalid group";
    ERR_OP = 10, "invalid operation";
    ERR_TOPOLOGY = 11, "invalid topology";
    ERR_DIMS = 12, "invalid dimension argument";
    ERR_ARG = 13, "invalid argument of some other kind";
    ERR_UNKNOWN = 14, "unknown error";
    ERR_TRUNCATE = 15, "message truncated on receive";
    ERR_OTHER = 16, "known error not in this list";
    ERR_INTERN = 17, "internal error";
    ERR_PENDING = 18, "operation still pending";
    ERR_IN_STATUS = 19, "error code is in the status";
    ERR_ACCESS = 20, "permission denied";
    ERR_AMODE = 21, "invalid access mode";
    ERR_ASSERT = 22, "invalid assert argument";
    ERR_BAD_FILE = 23, "invalid file name";
    ERR_BASE = 24, "invalid base passed to MPI_Free_mem";
    ERR_CONVERSION = 25, "error in a data conversion function";
    ERR_DISP = 26, "invalid displacement";
    ERR_DUP_DATAREP = 27, "data representation already defined";
    ERR_FILE_EXISTS = 28, "file exists";
    ERR_FILE_IN_USE = 29, "file in use";
    ERR_FILE = 30, "invalid file handle";
    ERR_INFO_KEY = 31, "info key is too long";
    ERR_INFO_NOKEY = 32, "info key is not defined";
    ERR_INFO_VALUE = 33, "info value is too long";
    ERR_INFO = 34, "invalid info";
    ERR_IO = 35, "other I/O error";
    ERR_KEYVAL = 36, "invalid keyval";
    ERR_LOCKTYPE = 37, "invalid lock type";
    ERR_NAME = 38, "service name is not published";
    ERR_NO_MEM = 39, "memory is exhausted";
    ERR_NOT_SAME = 40, "arguments are not the same on all processes";
    ERR_NO_SPACE = 41, "not enough space";
    ERR_NO_SUCH_FILE = 42, "no such file";
    ERR_PORT = 43, "invalid port name";
    ERR_QUOTA = 44, "quota exceeded";
    ERR_READ_ONLY = 45, "read-only file or file system";
    ERR_RMA_ATTACH = 46, "memory cannot be attached";
    ERR_RMA_CONFLICT = 47, "conflicting accesses to a window";
    ERR_RMA_RANGE = 48, "target memory is not part of the window";
    ERR_RMA_SHARED = 49, "memory cannot be shared";
    ERR_RMA_SYNC = 50, "wrong synchronisation of one-sided calls";
    ERR_SERVICE = 51, "invalid service name";
    ERR_SIZE = 52, "invalid size argument";
    ERR_SPAWN = 53, "error in spawning processes";
    ERR_UNSUPPORTED_DATAREP = 54, "unsupported data representation";
    ERR_UNSUPPORTED_OPERATION = 55, "unsupported operation";
    ERR_WIN = 56, "invalid window";
    ERR_RMA_FLAVOR = 57, "wrong flavour of window";
    ERR_PROC_ABORTED = 58, "a peer process has aborted";
    ERR_VALUE_TOO_LARGE = 59, "value is too large to store";
    ERR_SESSION = 60, "invalid session";
    ERR_ERRHANDLER = 61, "invalid error handler";
    ERR_ABI = 62, "invalid ABI operation";
    T_ERR_CANNOT_INIT = 1001, "tool interface cannot be initialised";
    T_ERR_NOT_ACCESSIBLE = 1002, "tool interface is not accessible";
    T_ERR_NOT_INITIALIZED = 1003, "tool interface is not initialised";
    T_ERR_NOT_SUPPORTED = 1004, "tool interface does not support this";
    T_ERR_MEMORY = 1005, "tool interface is out of memory";
    T_ERR_INVALID = 1006, "invalid use of the tool interface";
    T_ERR_INVALID_INDEX = 1007, "invalid index";
    T_ERR_INVALID_ITEM = 1008, "invalid item";
    T_ERR_INVALID_SESSION = 1009, "invalid tool session";
    T_ERR_INVALID_HANDLE = 1010, "invalid tool handle";
    T_ERR_INVALID_NAME = 1011, "invalid name";
    T_ERR_OUT_OF_HANDLES = 1012, "no more handles";
    T_ERR_OUT_OF_SESSIONS = 1013, "no more sessions";
    T_ERR_CVAR_SET_NOT_NOW = 1014, "control variable cannot be set now";
    T_ERR_CVAR_SET_NEVER = 1015, "control variable cannot be set";
    T_ERR_PVAR_NO_WRITE = 1016, "performance variable cannot be written";
    T_ERR_PVAR_NO_STARTSTOP = 1017, "performance variable cannot be started or stopped";
    T_ERR_PVAR_NO_ATOMIC = 1018, "performance variable cannot be read atomically";
    ERR_LASTCODE = 0x3fff, "last predefined error code";
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(f, "error code {}", self.0),
        }
    }
}

/// What went wrong: the class that the program sees and where it was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// MPI error class, or the code that a user callback returned.
    pub class: Class,
    /// Short constant cause, in lower case; shown by the fatal error handler.
    pub origin: &'static str,
}

impl Error {
    /// An error of `class`, decided because of `origin`.
    #[inline]
    pub const fn new(class: Class, origin: &'static str) -> Error {
        Error { class, origin }
    }
}

/// Result of everything that can fail in Ferrule.
pub type Result<T = ()> = core::result::Result<T, Error>;

/// `fail!(ERR_RANK, "rank out of range")` returns early with that error.
#[macro_export]
macro_rules! fail {
    ($class:ident, $origin:expr) => {
        return Err($crate::Error::new($crate::Class::$class, $origin))
    };
}

/// `ensure!(cond, ERR_RANK, "rank out of range")`: [`fail!`] unless `cond` holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $class:ident, $origin:expr) => {
        if !$cond {
            $crate::fail!($class, $origin);
        }
    };
}
