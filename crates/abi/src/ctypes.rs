//! Handles as C sees them.

use crate::chosen::{Chosen, REQUEST_NULL, RawFile, file_handle, raw_file};
use crate::convert::Abi;
use core::convert::identity;
use core::ffi::c_int;
use mpi::handle::{Handle, Kind};
use mpi::request::complete::Holder;

/// A handle of any kind but a file's, as the program holds it.
pub type Raw = <Chosen as Abi>::Handle;

/// One C type per kind of object, so that they can't be mixed up.
macro_rules! c_handles {
    ($($c:ident, $kind:ident, $raw:ty, $to:expr, $from:expr, $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "` of the ABI.")]
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $c(pub $raw);

            impl $c {
                /// The null handle.
                pub fn null() -> $c {
                    $c::of(Handle::NONE)
                }

                /// The handle of an object.
                #[inline(always)]
                pub fn of(handle: Handle) -> $c {
                    $c($to(Chosen::c_handle(Kind::$kind, handle)))
                }

                /// The object's name in the core.
                #[inline(always)]
                pub fn known(self) -> Handle {
                    Chosen::handle(Kind::$kind, $from(self.0))
                }

                /// The integer of `_toint` and `_c2f`.
                #[allow(clippy::unnecessary_cast, reason = "the width is the ABI's")]
                pub fn to_int(self) -> c_int {
                    $from(self.0) as c_int
                }

                /// The reverse of `to_int`.
                #[allow(clippy::unnecessary_cast, reason = "the width is the ABI's")]
                pub fn from_int(int: c_int) -> $c {
                    $c($to(int as Raw))
                }
            }
        )*
    };
}

c_handles! {
    CComm, Comm, Raw, identity, identity, "MPI_Comm";
    CGroup, Group, Raw, identity, identity, "MPI_Group";
    CType, Datatype, Raw, identity, identity, "MPI_Datatype";
    COp, Op, Raw, identity, identity, "MPI_Op";
    CRequest, Request, Raw, identity, identity, "MPI_Request";
    CMessage, Message, Raw, identity, identity, "MPI_Message";
    CErrhandler, Errhandler, Raw, identity, identity, "MPI_Errhandler";
    CInfo, Info, Raw, identity, identity, "MPI_Info";
    CSession, Session, Raw, identity, identity, "MPI_Session";
    CWin, Win, Raw, identity, identity, "MPI_Win";
    CFile, File, RawFile, raw_file, file_handle, "MPI_File";
}

impl Holder for CRequest {
    #[inline(always)]
    fn request(&self) -> Option<Handle> {
        // No predefined value is the handle of a live request, so that whatever else is here finds none.
        (self.0 != REQUEST_NULL).then(|| Chosen::made(self.0))
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.0 = REQUEST_NULL;
    }
}
