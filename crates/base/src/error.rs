//! The one error type: small and `Copy`, so that it travels through the data path for free.
//!
//! The function that first decides that something failed logs the cause once ([`crate::log`]); what travels on is the MPI
//! error class (MPI-5.0, 9.4) and a short constant text for `MPI_Error_string`.

/// An MPI error class or a user-defined error code. The numbers are our own: each ABI maps them to its own ones.
/// Predefined classes count from 0; codes that the program adds come after [`Class::ERR_LASTCODE`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub i32);

macro_rules! classes {
    (@name $name:ident) => { concat!("MPI_", stringify!($name)) };
    (@name $name:ident $full:literal) => { $full };
    ($($name:ident, $text:literal $(, $full:literal)?;)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only counts the classes")]
        enum Number { $($name),* }

        impl Class {
            $(#[doc = $text] pub const $name: Class = Class(Number::$name as i32);)*

            /// The predefined classes in the order of their numbers, with their names in the standard.
            pub const PREDEFINED: &[(Class, &str)] = &[$((Class::$name, classes!(@name $name $($full)?))),*];

            /// The standard text of a predefined class, `None` for any other number.
            pub fn text(self) -> Option<&'static str> {
                if self == Class::ERR_LASTCODE {
                    return Some("MPI_ERR_LASTCODE: last predefined error code");
                }
                const TEXTS: &[&str] = &[$(concat!(classes!(@name $name $($full)?), ": ", $text)),*];
                usize::try_from(self.0).ok().and_then(|at| TEXTS.get(at)).copied()
            }
        }
    };
}

impl Class {
    /// No predefined class has a greater number, and no added code a smaller or the same one.
    pub const ERR_LASTCODE: Class = Class(0x3fff);
}

classes! {
    SUCCESS, "no error";
    ERR_BUFFER, "invalid buffer pointer";
    ERR_COUNT, "invalid count argument";
    ERR_TYPE, "invalid datatype argument";
    ERR_TAG, "invalid tag argument";
    ERR_COMM, "invalid communicator";
    ERR_RANK, "invalid rank";
    ERR_REQUEST, "invalid request handle";
    ERR_ROOT, "invalid root";
    ERR_GROUP, "invalid group";
    ERR_OP, "invalid operation";
    ERR_TOPOLOGY, "invalid topology";
    ERR_DIMS, "invalid dimension argument";
    ERR_ARG, "invalid argument of some other kind";
    ERR_UNKNOWN, "unknown error";
    ERR_TRUNCATE, "message truncated on receive";
    ERR_OTHER, "known error not in this list";
    ERR_INTERN, "internal error";
    ERR_PENDING, "operation still pending";
    ERR_IN_STATUS, "error code is in the status";
    ERR_ACCESS, "permission denied";
    ERR_AMODE, "invalid access mode";
    ERR_ASSERT, "invalid assert argument";
    ERR_BAD_FILE, "invalid file name";
    ERR_BASE, "invalid base passed to MPI_Free_mem";
    ERR_CONVERSION, "error in a data conversion function";
    ERR_DISP, "invalid displacement";
    ERR_DUP_DATAREP, "data representation already defined";
    ERR_FILE_EXISTS, "file exists";
    ERR_FILE_IN_USE, "file in use";
    ERR_FILE, "invalid file handle";
    ERR_INFO_KEY, "info key is too long";
    ERR_INFO_NOKEY, "info key is not defined";
    ERR_INFO_VALUE, "info value is too long";
    ERR_INFO, "invalid info";
    ERR_IO, "other I/O error";
    ERR_KEYVAL, "invalid keyval";
    ERR_LOCKTYPE, "invalid lock type";
    ERR_NAME, "service name is not published";
    ERR_NO_MEM, "memory is exhausted";
    ERR_NOT_SAME, "arguments are not the same on all processes";
    ERR_NO_SPACE, "not enough space";
    ERR_NO_SUCH_FILE, "no such file";
    ERR_PORT, "invalid port name";
    ERR_QUOTA, "quota exceeded";
    ERR_READ_ONLY, "read-only file or file system";
    ERR_RMA_ATTACH, "memory cannot be attached";
    ERR_RMA_CONFLICT, "conflicting accesses to a window";
    ERR_RMA_RANGE, "target memory is not part of the window";
    ERR_RMA_SHARED, "memory cannot be shared";
    ERR_RMA_SYNC, "wrong synchronisation of one-sided calls";
    ERR_SERVICE, "invalid service name";
    ERR_SIZE, "invalid size argument";
    ERR_SPAWN, "error in spawning processes";
    ERR_UNSUPPORTED_DATAREP, "unsupported data representation";
    ERR_UNSUPPORTED_OPERATION, "unsupported operation";
    ERR_WIN, "invalid window";
    ERR_RMA_FLAVOR, "wrong flavour of window";
    ERR_PROC_ABORTED, "a peer process has aborted";
    ERR_VALUE_TOO_LARGE, "value is too large to store";
    ERR_SESSION, "invalid session";
    ERR_ERRHANDLER, "invalid error handler";
    ERR_ABI, "invalid ABI operation";
    T_ERR_CANNOT_INIT, "tool interface cannot be initialised";
    T_ERR_NOT_ACCESSIBLE, "tool interface is not accessible";
    T_ERR_NOT_INITIALIZED, "tool interface is not initialised";
    T_ERR_NOT_SUPPORTED, "tool interface does not support this";
    T_ERR_MEMORY, "tool interface is out of memory";
    T_ERR_INVALID, "invalid use of the tool interface";
    T_ERR_INVALID_INDEX, "invalid index";
    T_ERR_INVALID_ITEM, "invalid item";
    T_ERR_INVALID_SESSION, "invalid tool session";
    T_ERR_INVALID_HANDLE, "invalid tool handle";
    T_ERR_INVALID_NAME, "invalid name";
    T_ERR_OUT_OF_HANDLES, "no more handles";
    T_ERR_OUT_OF_SESSIONS, "no more sessions";
    T_ERR_CVAR_SET_NOT_NOW, "control variable cannot be set now";
    T_ERR_CVAR_SET_NEVER, "control variable cannot be set";
    T_ERR_PVAR_NO_WRITE, "performance variable cannot be written";
    T_ERR_PVAR_NO_STARTSTOP, "performance variable cannot be started or stopped";
    T_ERR_PVAR_NO_ATOMIC, "performance variable cannot be read atomically";
    ERR_PROC_FAILED_PENDING, "a receive from any source may wait for a process that has failed", "MPIX_ERR_PROC_FAILED_PENDING";
    ERR_REVOKED, "the communicator is revoked", "MPIX_ERR_REVOKED";
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
