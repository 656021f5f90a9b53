//! Handles and statuses of Fortran (MPI-4.1, 19.3): Fortran's integers are the C handles, its statuses the words of the C status.

use crate::api::{api, plain};
use crate::kinds::*;
use crate::raise::Scope;
use crate::status::CStatus;
use base::{Result, ensure};
use core::ffi::c_int;
use mpi::cs::Section;

/// Kinds that are a status in one of its forms, all of which have the same words.
macro_rules! statuses {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty => $r:ty, $text:literal, |$p:ident| $take:expr;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $r;
                const TEXT: &'static str = $text;
                #[inline(always)]
                unsafe fn take(_cs: &Section, $p: $c, _: &Scope) -> Result<$r> {
                    $take
                }
            }
        )*
    };
}

/// # Safety
/// `p` is a status, or an address that stands for none.
unsafe fn read(p: *const CStatus) -> Result<CStatus> {
    ensure!(!unless_ignored(p.cast_mut()).is_null(), ERR_ARG, "MPI_STATUS_IGNORE where a status is read");
    // SAFETY: not null and not the special address, so by the caller a status.
    Ok(unsafe { *p })
}

fn place(p: *mut CStatus) -> Result<Out<CStatus>> {
    Out::new(unless_ignored(p))
}

statuses! {
    /// A status of C to read.
    InC, *const CStatus => CStatus, "const MPI_Status *@", |p| {
        // SAFETY: by the caller of `take`.
        unsafe { read(p) }
    };
    /// A status of `mpif.h` to read.
    InF, *const CStatus => CStatus, "const MPI_Fint *@", |p| {
        // SAFETY: as for `InC`.
        unsafe { read(p) }
    };
    /// A status of `mpi_f08` to read.
    InF08, *const CStatus => CStatus, "const MPI_F08_status *@", |p| {
        // SAFETY: as for `InC`.
        unsafe { read(p) }
    };
    /// A status of C to write.
    OutC, *mut CStatus => Out<CStatus>, "MPI_Status *@", |p| place(p);
    /// A status of `mpif.h` to write.
    OutF, *mut CStatus => Out<CStatus>, "MPI_Fint *@", |p| place(p);
    /// A status of `mpi_f08` to write.
    OutF08, *mut CStatus => Out<CStatus>, "MPI_F08_status *@", |p| place(p);
}

api! {
    with cs;

    /// Status of C as one of `mpif.h`
    MPI_Status_c2f => (c_status: InC, f_status: OutF) on anytime {
        f_status.set(c_status);
        Ok(())
    }

    /// Status of C as one of `mpi_f08`
    MPI_Status_c2f08 => (c_status: InC, f08_status: OutF08) on anytime {
        f08_status.set(c_status);
        Ok(())
    }

    /// Status of `mpi_f08` as one of C
    MPI_Status_f082c => (f08_status: InF08, c_status: OutC) on anytime {
        c_status.set(f08_status);
        Ok(())
    }

    /// Status of `mpi_f08` as one of `mpif.h`
    MPI_Status_f082f => (f08_status: InF08, f_status: OutF) on anytime {
        f_status.set(f08_status);
        Ok(())
    }

    /// Status of `mpif.h` as one of C
    MPI_Status_f2c => (f_status: InF, c_status: OutC) on anytime {
        c_status.set(f_status);
        Ok(())
    }

    /// Status of `mpif.h` as one of `mpi_f08`
    MPI_Status_f2f08 => (f_status: InF, f08_status: OutF08) on anytime {
        f08_status.set(f_status);
        Ok(())
    }
}

plain! {
    /// Fortran's integer for a communicator
    MPI_Comm_c2f => (comm: AnyComm) -> "MPI_Fint" c_int { comm.to_int() }

    /// Handle of a communicator from Fortran's integer
    MPI_Comm_f2c => (comm: Int) -> "MPI_Comm" CComm { CComm::from_int(comm) }

    /// Fortran's integer for an error handler
    MPI_Errhandler_c2f => (errhandler: Errhandler) -> "MPI_Fint" c_int { errhandler.to_int() }

    /// Handle of an error handler from Fortran's integer
    MPI_Errhandler_f2c => (errhandler: Int) -> "MPI_Errhandler" CErrhandler { CErrhandler::from_int(errhandler) }

    /// Fortran's integer for a file
    MPI_File_c2f => (file: AnyFile) -> "MPI_Fint" c_int { file.to_int() }

    /// Handle of a file from Fortran's integer
    MPI_File_f2c => (file: Int) -> "MPI_File" CFile { CFile::from_int(file) }

    /// Fortran's integer for a group
    MPI_Group_c2f => (group: AnyGroup) -> "MPI_Fint" c_int { group.to_int() }

    /// Handle of a group from Fortran's integer
    MPI_Group_f2c => (group: Int) -> "MPI_Group" CGroup { CGroup::from_int(group) }

    /// Fortran's integer for an info object
    MPI_Info_c2f => (info: Info) -> "MPI_Fint" c_int { info.to_int() }

    /// Handle of an info object from Fortran's integer
    MPI_Info_f2c => (info: Int) -> "MPI_Info" CInfo { CInfo::from_int(info) }

    /// Fortran's integer for a message
    MPI_Message_c2f => (message: Message) -> "MPI_Fint" c_int { message.to_int() }

    /// Handle of a message from Fortran's integer
    MPI_Message_f2c => (message: Int) -> "MPI_Message" CMessage { CMessage::from_int(message) }

    /// Fortran's integer for an operation
    MPI_Op_c2f => (op: Op) -> "MPI_Fint" c_int { op.to_int() }

    /// Handle of an operation from Fortran's integer
    MPI_Op_f2c => (op: Int) -> "MPI_Op" COp { COp::from_int(op) }

    /// Fortran's integer for a request
    MPI_Request_c2f => (request: Request) -> "MPI_Fint" c_int { request.to_int() }

    /// Handle of a request from Fortran's integer
    MPI_Request_f2c => (request: Int) -> "MPI_Request" CRequest { CRequest::from_int(request) }

    /// Fortran's integer for a session
    MPI_Session_c2f => (session: Session) -> "MPI_Fint" c_int { session.to_int() }

    /// Handle of a session from Fortran's integer
    MPI_Session_f2c => (session: Int) -> "MPI_Session" CSession { CSession::from_int(session) }

    /// Fortran's integer for a datatype
    MPI_Type_c2f => (datatype: NullableType) -> "MPI_Fint" c_int { datatype.to_int() }

    /// Handle of a datatype from Fortran's integer
    MPI_Type_f2c => (datatype: Int) -> "MPI_Datatype" CType { CType::from_int(datatype) }

    /// Fortran's integer for a window
    MPI_Win_c2f => (win: AnyWin) -> "MPI_Fint" c_int { win.to_int() }

    /// Handle of a window from Fortran's integer
    MPI_Win_f2c => (win: Int) -> "MPI_Win" CWin { CWin::from_int(win) }
}
