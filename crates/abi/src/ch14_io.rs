//! Files (MPI-5.0, chapter 14).

use crate::api::api;
use crate::callbacks::register_datarep;
use crate::chosen::{Chosen, DISPLACEMENT_CURRENT};
use crate::convert::{Abi, known};
use crate::kinds::*;
use crate::lookup;
use crate::message::check;
use base::{Result, fail};
use mpi::datatype::Datatype;
use mpi::info;
use mpi::io::access::{self, Access, Direction, Place, Who};
use mpi::io::{self, Items, split};
use std::rc::Rc;

/// A buffer of the program.
fn items(buf: *mut u8, count: usize, datatype: &Rc<Datatype>) -> Result<Items<'_>> {
    check(buf, count, datatype)?;
    Ok(Items { buf, count, datatype })
}

api! {
    with cs;

    /// Closes a file
    MPI_File_close => (fh: InOutFile) on fh {
        let file = io::from_handle(cs, fh.value().known())?;
        io::close(cs, &file)?;
        fh.set(CFile::null());
        Ok(())
    }

    /// Deletes a file
    MPI_File_delete => (filename: Text, info: Info) on files {
        io::delete(filename)
    }

    /// Access mode of a file
    MPI_File_get_amode => (fh: File, amode: OutInt) on fh {
        amode.set(Chosen::c_amode(fh.amode));
        Ok(())
    }

    /// Whether a file is in atomic mode
    MPI_File_get_atomicity => (fh: File, flag: OutFlag) on fh {
        flag.set_flag(fh.is_atomic());
        Ok(())
    }

    /// Byte position of an offset in the view
    MPI_File_get_byte_offset => (fh: File, offset: Offset, disp: OutOffset) on fh {
        disp.set(fh.byte_offset(offset)?);
        Ok(())
    }

    /// The group that opened a file
    MPI_File_get_group => (fh: File, group: OutGroup) on fh {
        group.set(CGroup::of(mpi::group::share(cs, &fh.group)));
        Ok(())
    }

    /// The hints in use of a file
    MPI_File_get_info => (fh: File, info_used: OutInfo) on fh {
        info_used.set(CInfo::of(info::enter(cs, fh.info())));
        Ok(())
    }

    /// The individual file pointer
    MPI_File_get_position => (fh: File, offset: OutOffset) on fh {
        offset.set(fh.position()?);
        Ok(())
    }

    /// The shared file pointer
    MPI_File_get_position_shared => (fh: File, offset: OutOffset) on fh {
        offset.set(fh.shared_position()?);
        Ok(())
    }

    /// Size of a file in bytes
    MPI_File_get_size => (fh: File, size: OutOffset) on fh {
        size.set(fh.size()? as i64);
        Ok(())
    }

    /// Extent of a datatype in a file
    MPI_File_get_type_extent, MPI_File_get_type_extent_c => (
        fh: File, datatype: AnyType, extent: OutByteDispl
    ) on fh {
        extent.set(fh.type_extent(cs, &datatype)?);
        Ok(())
    }

    /// The view of a file
    MPI_File_get_view => (
        fh: File, disp: OutOffset, etype: OutType, filetype: OutType, datarep: OutText
    ) on fh {
        let view = fh.view();
        disp.set(view.disp as i64);
        etype.set(lookup::share_datatype(cs, &view.etype));
        filetype.set(lookup::share_datatype(cs, &view.filetype));
        datarep.write(view.representation.name(), io::MAX_DATAREP_STRING);
        Ok(())
    }

    /// Starts to read at the individual pointer
    MPI_File_iread, MPI_File_iread_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Read, Place::Own, Who::Alone), items(buf, count, &datatype)?)?));
        Ok(())
    }

    /// Starts to read at the individual pointer, collective
    MPI_File_iread_all, MPI_File_iread_all_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Read, Place::Own, Who::All), items(buf, count, &datatype)?)?));
        Ok(())
    }

    /// Starts to read at an offset
    MPI_File_iread_at, MPI_File_iread_at_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Read, Place::At(offset), Who::Alone), items(buf, count, &datatype)?)?));
        Ok(())
    }

    /// Starts to read at an offset, collective
    MPI_File_iread_at_all, MPI_File_iread_at_all_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Read, Place::At(offset), Who::All), items(buf, count, &datatype)?)?));
        Ok(())
    }

    /// Starts to read at the shared pointer
    MPI_File_iread_shared, MPI_File_iread_shared_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Read, Place::Shared, Who::Alone), items(buf, count, &datatype)?)?));
        Ok(())
    }

    /// Starts to write at the individual pointer
    MPI_File_iwrite, MPI_File_iwrite_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Write, Place::Own, Who::Alone), items(buf.cast_mut(), count, &datatype)?)?));
        Ok(())
    }

    /// Starts to write at the individual pointer, collective
    MPI_File_iwrite_all, MPI_File_iwrite_all_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Write, Place::Own, Who::All), items(buf.cast_mut(), count, &datatype)?)?));
        Ok(())
    }

    /// Starts to write at an offset
    MPI_File_iwrite_at, MPI_File_iwrite_at_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Write, Place::At(offset), Who::Alone), items(buf.cast_mut(), count, &datatype)?)?));
        Ok(())
    }

    /// Starts to write at an offset, collective
    MPI_File_iwrite_at_all, MPI_File_iwrite_at_all_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Write, Place::At(offset), Who::All), items(buf.cast_mut(), count, &datatype)?)?));
        Ok(())
    }

    /// Starts to write at the shared pointer
    MPI_File_iwrite_shared, MPI_File_iwrite_shared_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, request: OutRequest
    ) on fh {
        request.set(CRequest::of(access::start(cs, &fh, Access::new(Direction::Write, Place::Shared, Who::Alone), items(buf.cast_mut(), count, &datatype)?)?));
        Ok(())
    }

    /// Opens a file
    MPI_File_open => (comm: Comm, filename: Text, amode: Int, info: Info, fh: OutFile) on files {
        fh.set(CFile::of(io::open(cs, &comm, filename, Chosen::amode(amode), info.as_deref())?));
        Ok(())
    }

    /// Reserves storage for a file
    MPI_File_preallocate => (fh: File, size: Offset) on fh {
        fh.preallocate(cs, size)
    }

    /// Reads at the individual pointer
    MPI_File_read, MPI_File_read_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::Own, Who::Alone), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Reads at the individual pointer, collective
    MPI_File_read_all, MPI_File_read_all_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::Own, Who::All), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective read at the individual pointer, collective
    MPI_File_read_all_begin, MPI_File_read_all_begin_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Read, Place::Own, Who::All), items(buf, count, &datatype)?)
    }

    /// Ends a split collective read at the individual pointer, collective
    MPI_File_read_all_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Read, Place::Own, Who::All))?);
        Ok(())
    }

    /// Reads at an offset
    MPI_File_read_at, MPI_File_read_at_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::At(offset), Who::Alone), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Reads at an offset, collective
    MPI_File_read_at_all, MPI_File_read_at_all_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::At(offset), Who::All), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective read at an offset, collective
    MPI_File_read_at_all_begin, MPI_File_read_at_all_begin_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Read, Place::At(offset), Who::All), items(buf, count, &datatype)?)
    }

    /// Ends a split collective read at an offset, collective
    MPI_File_read_at_all_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Read, Place::At(0), Who::All))?);
        Ok(())
    }

    /// Reads at the shared pointer, in rank order
    MPI_File_read_ordered, MPI_File_read_ordered_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::Shared, Who::All), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective read at the shared pointer, in rank order
    MPI_File_read_ordered_begin, MPI_File_read_ordered_begin_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Read, Place::Shared, Who::All), items(buf, count, &datatype)?)
    }

    /// Ends a split collective read at the shared pointer, in rank order
    MPI_File_read_ordered_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Read, Place::Shared, Who::All))?);
        Ok(())
    }

    /// Reads at the shared pointer
    MPI_File_read_shared, MPI_File_read_shared_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Read, Place::Shared, Who::Alone), items(buf, count, &datatype)?)?);
        Ok(())
    }

    /// Moves the individual file pointer
    MPI_File_seek => (fh: File, offset: Offset, whence: Int) on fh {
        let Some(whence) = known(Chosen::WHENCES, whence) else { fail!(ERR_ARG, "unknown way to move a file pointer") };
        fh.seek(offset, whence)
    }

    /// Moves the shared file pointer
    MPI_File_seek_shared => (fh: File, offset: Offset, whence: Int) on fh {
        fh.seek_shared(cs, offset, known(Chosen::WHENCES, whence))
    }

    /// Turns atomic mode on or off
    MPI_File_set_atomicity => (fh: File, flag: Flag) on fh {
        fh.set_atomic(cs, flag)
    }

    /// Sets hints of a file
    MPI_File_set_info => (fh: File, info: Info) on fh {
        fh.set_info(cs, info.as_deref())
    }

    /// Sets the size of a file
    MPI_File_set_size => (fh: File, size: Offset) on fh {
        fh.set_size(cs, size)
    }

    /// Sets the view of a file
    MPI_File_set_view => (
        fh: File, disp: Offset, etype: Type, filetype: Type, datarep: Text, info: Info
    ) on fh {
        let disp = if disp == DISPLACEMENT_CURRENT { io::DISPLACEMENT_CURRENT } else { disp };
        fh.set_view(cs, disp, [&etype, &filetype], datarep, info.as_deref())
    }

    /// Writes a file's data to storage
    MPI_File_sync => (fh: File) on fh {
        fh.sync(cs)
    }

    /// Writes at the individual pointer
    MPI_File_write, MPI_File_write_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::Own, Who::Alone), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Writes at the individual pointer, collective
    MPI_File_write_all, MPI_File_write_all_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::Own, Who::All), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective write at the individual pointer, collective
    MPI_File_write_all_begin, MPI_File_write_all_begin_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Write, Place::Own, Who::All), items(buf.cast_mut(), count, &datatype)?)
    }

    /// Ends a split collective write at the individual pointer, collective
    MPI_File_write_all_end => (fh: File, buf: SendBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Write, Place::Own, Who::All))?);
        Ok(())
    }

    /// Writes at an offset
    MPI_File_write_at, MPI_File_write_at_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::At(offset), Who::Alone), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Writes at an offset, collective
    MPI_File_write_at_all, MPI_File_write_at_all_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::At(offset), Who::All), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective write at an offset, collective
    MPI_File_write_at_all_begin, MPI_File_write_at_all_begin_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Write, Place::At(offset), Who::All), items(buf.cast_mut(), count, &datatype)?)
    }

    /// Ends a split collective write at an offset, collective
    MPI_File_write_at_all_end => (fh: File, buf: SendBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Write, Place::At(0), Who::All))?);
        Ok(())
    }

    /// Writes at the shared pointer, in rank order
    MPI_File_write_ordered, MPI_File_write_ordered_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::Shared, Who::All), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Begins a split collective write at the shared pointer, in rank order
    MPI_File_write_ordered_begin, MPI_File_write_ordered_begin_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type
    ) on fh {
        split::begin(cs, &fh, Access::new(Direction::Write, Place::Shared, Who::All), items(buf.cast_mut(), count, &datatype)?)
    }

    /// Ends a split collective write at the shared pointer, in rank order
    MPI_File_write_ordered_end => (fh: File, buf: SendBuf, status: OutStatus) on fh {
        status.set(&split::end(&fh, Access::new(Direction::Write, Place::Shared, Who::All))?);
        Ok(())
    }

    /// Writes at the shared pointer
    MPI_File_write_shared, MPI_File_write_shared_c => (
        fh: File, buf: SendBuf, count: Count, datatype: Type, status: OutStatus
    ) on fh {
        status.set(&access::run(cs, &fh, Access::new(Direction::Write, Place::Shared, Who::Alone), items(buf.cast_mut(), count, &datatype)?)?);
        Ok(())
    }

    /// Registers a data representation
    MPI_Register_datarep, MPI_Register_datarep_c => (
        datarep: Text, read_conversion_fn: FnDatarepConversion, write_conversion_fn: FnDatarepConversion,
        dtype_file_extent_fn: FnDatarepExtent, extra_state: Addr
    ) on files {
        register_datarep(cs, datarep, [read_conversion_fn, write_conversion_fn, dtype_file_extent_fn], W::LARGE, extra_state)
    }
}
