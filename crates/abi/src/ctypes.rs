//! Handles as C sees them.

use mpi::handle::Handle;

/// One C type per kind of object, so that they can't be mixed up.
macro_rules! c_handles {
    ($($c:ident, $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "` of the ABI.")]
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $c(pub Handle);
        )*
    };
}

c_handles! {
    CComm, "MPI_Comm";
    CGroup, "MPI_Group";
    CType, "MPI_Datatype";
    COp, "MPI_Op";
    CRequest, "MPI_Request";
    CMessage, "MPI_Message";
    CErrhandler, "MPI_Errhandler";
    CInfo, "MPI_Info";
    CSession, "MPI_Session";
    CWin, "MPI_Win";
    CFile, "MPI_File";
}
