//! Handles that go in, as the objects that bodies get for them, and places for handles that come out.

use super::{Kind, Out, Width};
use crate::ctypes::*;
use crate::lookup::{self, Held, LazyType};
use crate::raise::Scope;
use base::{Result, ensure};
use mpi::cs::Section;
use std::rc::Rc;

/// Kinds that hand the value on.
macro_rules! values {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty, $text:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $c;
                const TEXT: &'static str = $text;
                #[inline(always)]
                unsafe fn take(_cs: &Section, c: $c, _: &Scope) -> Result<$c> {
                    Ok(c)
                }
            }
        )*
    };
}

values! {
    /// A communicator that only matters on some processes, or may be `MPI_COMM_NULL`.
    AnyComm, CComm, "MPI_Comm @";
    /// A group that only matters on some processes.
    AnyGroup, CGroup, "MPI_Group @";
    /// A datatype or `MPI_DATATYPE_NULL`.
    NullableType, CType, "MPI_Datatype @";
    /// A request.
    Request, CRequest, "MPI_Request @";
    /// A message taken out of matching.
    Message, CMessage, "MPI_Message @";
    /// An error handler.
    Errhandler, CErrhandler, "MPI_Errhandler @";
    /// A window, or `MPI_WIN_NULL`.
    AnyWin, CWin, "MPI_Win @";
    /// A file or `MPI_FILE_NULL`.
    AnyFile, CFile, "MPI_File @";
    /// Requests to complete or start.
    InOutRequestArray, *mut CRequest, "MPI_Request @[]";
    /// Requests to look at.
    RequestArray, *const CRequest, "const MPI_Request @[]";
}

/// Kinds that a body gets as the object.
macro_rules! objects {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty => $r:ty, $text:literal, |$cs:ident, $v:ident| $take:expr;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $r;
                const TEXT: &'static str = $text;
                #[inline(always)]
                unsafe fn take($cs: &Section, $v: $c, _: &Scope) -> Result<$r> {
                    $take
                }
            }
        )*
    };
}

objects! {
    /// A communicator.
    Comm, CComm => Held<mpi::comm::Comm>, "MPI_Comm @", |cs, c| lookup::comm(cs, c);
    /// A group.
    Group, CGroup => Rc<mpi::group::Group>, "MPI_Group @", |cs, c| mpi::group::from_handle(cs, c.known());
    /// A committed datatype.
    Type, CType => Held<mpi::datatype::Datatype>, "MPI_Datatype @", |cs, c| {
        let datatype = lookup::datatype(cs, c)?;
        ensure!(datatype.is_committed(), ERR_TYPE, "datatype is not committed");
        Ok(datatype)
    };
    /// A datatype that doesn't matter everywhere.
    MaybeType, CType => LazyType, "MPI_Datatype @", |_cs, c| Ok(LazyType(c));
    /// A datatype, committed or not.
    AnyType, CType => Held<mpi::datatype::Datatype>, "MPI_Datatype @", |cs, c| lookup::datatype(cs, c);
    /// An info object, or `MPI_INFO_NULL`.
    Info, CInfo => Option<Rc<mpi::info::Info>>, "MPI_Info @", |cs, c| mpi::info::from_handle_or_null(cs, c.known());
    /// An info object.
    InfoObject, CInfo => Rc<mpi::info::Info>, "MPI_Info @", |cs, c| mpi::info::from_handle(cs, c.known());
    /// A session.
    Session, CSession => Rc<mpi::session::Session>, "MPI_Session @", |cs, c| mpi::session::from_handle(cs, c.known());
    /// A file.
    File, CFile => Rc<mpi::io::File>, "MPI_File @", |cs, c| mpi::io::from_handle(cs, c.known());
    /// A window.
    Win, CWin => Rc<mpi::rma::Window>, "MPI_Win @", |cs, c| mpi::rma::from_handle(cs, c.known());
    /// A reduction operation.
    Op, COp => Held<mpi::op::Op>, "MPI_Op @", |cs, c| lookup::op(cs, c);
}

/// Kinds that are the address of a handle; where a new one goes, with whether there is room for one more.
macro_rules! places {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty, $text:literal $(, |$cs:ident| $room:expr)?;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = *mut $c;
                type R = Out<$c>;
                const TEXT: &'static str = $text;
                #[inline(always)]
                #[allow(unused_variables, reason = "an object that exists needs no room")]
                unsafe fn take(cs: &Section, p: *mut $c, _: &Scope) -> Result<Out<$c>> {
                    $(let $cs = cs;
                    $room?;)?
                    Out::new(p)
                }
            }
        )*
    };
}

/// Where a new communicator goes; `MPI_COMM_NULL` if the call fails from then on.
pub struct OutComm;
impl<W: Width> Kind<W> for OutComm {
    type C = *mut CComm;
    type R = Out<CComm>;
    const TEXT: &'static str = "MPI_Comm *@";
    #[inline(always)]
    unsafe fn take(cs: &Section, p: *mut CComm, _: &Scope) -> Result<Out<CComm>> {
        mpi::comm::COMMS.get(cs).ensure_room()?;
        let out = Out::new(p)?;
        out.set(CComm::null());
        Ok(out)
    }
}

/// Where a new file goes; `MPI_FILE_NULL` if the call fails from then on.
pub struct OutFile;
impl<W: Width> Kind<W> for OutFile {
    type C = *mut CFile;
    type R = Out<CFile>;
    const TEXT: &'static str = "MPI_File *@";
    #[inline(always)]
    unsafe fn take(cs: &Section, p: *mut CFile, _: &Scope) -> Result<Out<CFile>> {
        mpi::io::ensure_room(cs)?;
        let out = Out::new(p)?;
        out.set(CFile::null());
        Ok(out)
    }
}

/// Where a new window goes; `MPI_WIN_NULL` if the call fails from then on.
pub struct OutWin;
impl<W: Width> Kind<W> for OutWin {
    type C = *mut CWin;
    type R = Out<CWin>;
    const TEXT: &'static str = "MPI_Win *@";
    #[inline(always)]
    unsafe fn take(cs: &Section, p: *mut CWin, _: &Scope) -> Result<Out<CWin>> {
        mpi::rma::WINDOWS.get(cs).ensure_room()?;
        let out = Out::new(p)?;
        out.set(CWin::null());
        Ok(out)
    }
}

places! {
    /// Communicator to free.
    InOutComm, CComm, "MPI_Comm *@";
    /// Where a new group goes.
    OutGroup, CGroup, "MPI_Group *@", |cs| mpi::group::ensure_room(cs);
    /// Group to free.
    InOutGroup, CGroup, "MPI_Group *@";
    /// Where a new datatype goes.
    OutType, CType, "MPI_Datatype *@", |cs| mpi::datatype::DATATYPES.get(cs).ensure_room();
    /// Datatype to commit or free.
    InOutType, CType, "MPI_Datatype *@";
    /// Where a new operation goes.
    OutOp, COp, "MPI_Op *@", |cs| mpi::op::OPS.get(cs).ensure_room();
    /// Operation to free.
    InOutOp, COp, "MPI_Op *@";
    /// Where a new request goes.
    OutRequest, CRequest, "MPI_Request *@", |cs| mpi::request::ensure_room(cs);
    /// Request to start, complete, cancel or free.
    InOutRequest, CRequest, "MPI_Request *@";
    /// Where a matched message goes.
    OutMessage, CMessage, "MPI_Message *@", |cs| mpi::p2p::probe::ensure_room(cs);
    /// Matched message to receive.
    InOutMessage, CMessage, "MPI_Message *@";
    /// Where an error handler goes.
    OutErrhandler, CErrhandler, "MPI_Errhandler *@", |cs| mpi::errhandler::ensure_room(cs);
    /// Error handler to free.
    InOutErrhandler, CErrhandler, "MPI_Errhandler *@";
    /// Where a new info object goes.
    OutInfo, CInfo, "MPI_Info *@", |cs| mpi::info::ensure_room(cs);
    /// Info object to free.
    InOutInfo, CInfo, "MPI_Info *@";
    /// Where a new session goes.
    OutSession, CSession, "MPI_Session *@", |cs| mpi::session::ensure_room(cs);
    /// Session to finalize.
    InOutSession, CSession, "MPI_Session *@";
    /// Window to free.
    InOutWin, CWin, "MPI_Win *@";
    /// File to close.
    InOutFile, CFile, "MPI_File *@";
}
