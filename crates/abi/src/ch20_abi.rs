//! The binary interface: its version, Fortran facts, integers for handles (MPI-5.0, chapter 20).

use crate::api::{api, plain};
use crate::chosen::ABI_VERSION;
use crate::kinds::*;
use base::ensure;
use core::ffi::c_int;
use mpi::op::logical;
use mpi::{fortran, info};

/// Sizes of the ABI's integer types.
fn abi_info() -> info::Info {
    let info = info::Info::new();
    for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
        info.put(key, b"8");
    }
    info
}

api! {
    with cs;

    /// The bit patterns of Fortran's `.TRUE.` and `.FALSE.`, if they were set
    MPI_Abi_get_fortran_booleans => (
        logical_size: Int, logical_true: Addr, logical_false: Addr, is_set: OutFlag
    ) on anytime {
        let found = logical::told(usize::try_from(logical_size).unwrap_or(0))?;
        is_set.set_flag(found.is_some());
        if let Some(found) = found {
            slice_mut(logical_true.cast(), found.yes().len()).copy_from_slice(found.yes());
            slice_mut(logical_false.cast(), found.no().len()).copy_from_slice(found.no());
        }
        Ok(())
    }

    /// Sizes and availability of the Fortran types, as an info object
    MPI_Abi_get_fortran_info => (info: OutInfo) on anytime {
        info.set(CInfo::of(info::enter(cs, fortran::fortran_info())));
        Ok(())
    }

    /// Sizes of the ABI's integer types, as an info object
    MPI_Abi_get_info => (info: OutInfo) on anytime {
        info.set(CInfo::of(info::enter(cs, abi_info())));
        Ok(())
    }

    /// Version of the ABI that the library implements
    MPI_Abi_get_version => (abi_major: OutInt, abi_minor: OutInt) on anytime {
        abi_major.set(ABI_VERSION.0);
        abi_minor.set(ABI_VERSION.1);
        Ok(())
    }

    /// Tells the library the bit patterns of `.TRUE.` and `.FALSE.`
    MPI_Abi_set_fortran_booleans => (
        logical_size: Int, logical_true: Addr, logical_false: Addr
    ) on anytime {
        let size = usize::try_from(logical_size).unwrap_or(0);
        let (yes, no) = (slice(logical_true.cast_const().cast(), size), slice(logical_false.cast_const().cast(), size));
        ensure!(yes.len() == no.len(), ERR_ARG, "null pointer for a Fortran logical");
        logical::tell(yes, no)
    }

    /// Tells the library the sizes of the Fortran types
    MPI_Abi_set_fortran_info => (info: InfoObject) on anytime { fortran::set_fortran_info(&info) }
}

plain! {
    /// Integer for a communicator
    MPI_Comm_toint => (comm: Comm) -> "int" c_int { comm.to_int() }

    /// Handle of a communicator from its integer
    MPI_Comm_fromint => (comm: Int) -> "MPI_Comm" CComm { CComm::from_int(comm) }

    /// Integer for an error handler
    MPI_Errhandler_toint => (errhandler: Errhandler) -> "int" c_int { errhandler.to_int() }

    /// Handle of an error handler from its integer
    MPI_Errhandler_fromint => (errhandler: Int) -> "MPI_Errhandler" CErrhandler {
        CErrhandler::from_int(errhandler)
    }

    /// Integer for a file
    MPI_File_toint => (file: AnyFile) -> "int" c_int { file.to_int() }

    /// Handle of a file from its integer
    MPI_File_fromint => (file: Int) -> "MPI_File" CFile { CFile::from_int(file) }

    /// Integer for a group
    MPI_Group_toint => (group: Group) -> "int" c_int { group.to_int() }

    /// Handle of a group from its integer
    MPI_Group_fromint => (group: Int) -> "MPI_Group" CGroup { CGroup::from_int(group) }

    /// Integer for an info object
    MPI_Info_toint => (info: Info) -> "int" c_int { info.to_int() }

    /// Handle of an info object from its integer
    MPI_Info_fromint => (info: Int) -> "MPI_Info" CInfo { CInfo::from_int(info) }

    /// Integer for a message
    MPI_Message_toint => (message: Message) -> "int" c_int { message.to_int() }

    /// Handle of a message from its integer
    MPI_Message_fromint => (message: Int) -> "MPI_Message" CMessage { CMessage::from_int(message) }

    /// Integer for an operation
    MPI_Op_toint => (op: Op) -> "int" c_int { op.to_int() }

    /// Handle of an operation from its integer
    MPI_Op_fromint => (op: Int) -> "MPI_Op" COp { COp::from_int(op) }

    /// Integer for a request
    MPI_Request_toint => (request: Request) -> "int" c_int { request.to_int() }

    /// Handle of a request from its integer
    MPI_Request_fromint => (request: Int) -> "MPI_Request" CRequest { CRequest::from_int(request) }

    /// Integer for a session
    MPI_Session_toint => (session: Session) -> "int" c_int { session.to_int() }

    /// Handle of a session from its integer
    MPI_Session_fromint => (session: Int) -> "MPI_Session" CSession { CSession::from_int(session) }

    /// Integer for a datatype
    MPI_Type_toint => (datatype: AnyType) -> "int" c_int { datatype.to_int() }

    /// Handle of a datatype from its integer
    MPI_Type_fromint => (datatype: Int) -> "MPI_Datatype" CType { CType::from_int(datatype) }

    /// Integer for a window
    MPI_Win_toint => (win: Win) -> "int" c_int { win.to_int() }

    /// Handle of a window from its integer
    MPI_Win_fromint => (win: Int) -> "MPI_Win" CWin { CWin::from_int(win) }
}
