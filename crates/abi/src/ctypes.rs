//! Handles as C sees them.

use crate::convert::Abi;
use crate::standard::{REQUEST_NULL, Standard};
use mpi::handle::{Handle, Kind};
use mpi::request::complete::Holder;

/// One C type per kind of object, so that they can't be mixed up.
macro_rules! c_handles {
    ($($c:ident, $kind:ident, $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "` of the ABI.")]
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $c(pub usize);

            impl $c {
                /// The null handle.
                pub fn null() -> $c {
                    $c::of(Handle::NONE)
                }

                /// The handle of an object.
                #[inline(always)]
                pub fn of(handle: Handle) -> $c {
                    $c(Standard::c_handle(Kind::$kind, handle))
                }

                /// The object's name in the core.
                #[inline(always)]
                pub fn known(self) -> Handle {
                    Standard::handle(Kind::$kind, self.0)
                }
            }
        )*
    };
}

c_handles! {
    CComm, Comm, "MPI_Comm";
    CGroup, Group, "MPI_Group";
    CType, Datatype, "MPI_Datatype";
    COp, Op, "MPI_Op";
    CRequest, Request, "MPI_Request";
    CMessage, Message, "MPI_Message";
    CErrhandler, Errhandler, "MPI_Errhandler";
    CInfo, Info, "MPI_Info";
    CSession, Session, "MPI_Session";
    CWin, Win, "MPI_Win";
    CFile, File, "MPI_File";
}

impl Holder for CRequest {
    #[inline(always)]
    fn request(&self) -> Option<Handle> {
        // No predefined value is the handle of a live request, so that whatever else is here finds none.
        (self.0 != REQUEST_NULL).then_some(Handle(self.0))
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.0 = REQUEST_NULL;
    }
}
