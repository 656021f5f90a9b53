//! Files (MPI-5.0, chapter 14).

use crate::api::api;
use crate::kinds::*;

api! {
    with cs;

    /// Closes a file
    MPI_File_close => (fh: InOutFile) on fh unimplemented

    /// Deletes a file
    MPI_File_delete => (filename: Text, info: Info) on none unimplemented

    /// Access mode of a file
    MPI_File_get_amode => (fh: File, amode: OutInt) on fh unimplemented

    /// Whether a file is in atomic mode
    MPI_File_get_atomicity => (fh: File, flag: OutFlag) on fh unimplemented

    /// Byte position of an offset in the view
    MPI_File_get_byte_offset => (fh: File, offset: Offset, disp: OutOffset) on fh unimplemented

    /// The group that opened a file
    MPI_File_get_group => (fh: File, group: OutGroup) on fh unimplemented

    /// The hints in use of a file
    MPI_File_get_info => (fh: File, info_used: OutInfo) on fh unimplemented

    /// The individual file pointer
    MPI_File_get_position => (fh: File, offset: OutOffset) on fh unimplemented

    /// The shared file pointer
    MPI_File_get_position_shared => (fh: File, offset: OutOffset) on fh unimplemented

    /// Size of a file in bytes
    MPI_File_get_size => (fh: File, size: OutOffset) on fh unimplemented

    /// Extent of a datatype in a file
    MPI_File_get_type_extent, MPI_File_get_type_extent_c => (
        fh: File, datatype: AnyType, extent: OutByteDispl
    ) on fh unimplemented

    /// The view of a file
    MPI_File_get_view => (
        fh: File, disp: OutOffset, etype: OutType, filetype: OutType, datarep: OutText
    ) on fh unimplemented

    /// Starts to read at the individual pointer
    MPI_File_iread, MPI_File_iread_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to read at the individual pointer, collective
    MPI_File_iread_all, MPI_File_iread_all_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to read at an offset
    MPI_File_iread_at, MPI_File_iread_at_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to read at an offset, collective
    MPI_File_iread_at_all, MPI_File_iread_at_all_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to read at the shared pointer
    MPI_File_iread_shared, MPI_File_iread_shared_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to write at the individual pointer
    MPI_File_iwrite, MPI_File_iwrite_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to write at the individual pointer, collective
    MPI_File_iwrite_all, MPI_File_iwrite_all_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to write at an offset
    MPI_File_iwrite_at, MPI_File_iwrite_at_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to write at an offset, collective
    MPI_File_iwrite_at_all, MPI_File_iwrite_at_all_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Starts to write at the shared pointer
    MPI_File_iwrite_shared, MPI_File_iwrite_shared_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, request: OutRequest
    ) on fh unimplemented

    /// Opens a file
    MPI_File_open => (comm: Comm, filename: Text, amode: Int, info: Info, fh: OutFile) on comm unimplemented

    /// Reserves storage for a file
    MPI_File_preallocate => (fh: File, size: Offset) on fh unimplemented

    /// Reads at the individual pointer
    MPI_File_read, MPI_File_read_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Reads at the individual pointer, collective
    MPI_File_read_all, MPI_File_read_all_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective read at the individual pointer, collective
    MPI_File_read_all_begin, MPI_File_read_all_begin_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective read at the individual pointer, collective
    MPI_File_read_all_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh unimplemented

    /// Reads at an offset
    MPI_File_read_at, MPI_File_read_at_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Reads at an offset, collective
    MPI_File_read_at_all, MPI_File_read_at_all_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective read at an offset, collective
    MPI_File_read_at_all_begin, MPI_File_read_at_all_begin_c => (
        fh: File, offset: Offset, buf: RecvBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective read at an offset, collective
    MPI_File_read_at_all_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh unimplemented

    /// Reads at the shared pointer, in rank order
    MPI_File_read_ordered, MPI_File_read_ordered_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective read at the shared pointer, in rank order
    MPI_File_read_ordered_begin, MPI_File_read_ordered_begin_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective read at the shared pointer, in rank order
    MPI_File_read_ordered_end => (fh: File, buf: RecvBuf, status: OutStatus) on fh unimplemented

    /// Reads at the shared pointer
    MPI_File_read_shared, MPI_File_read_shared_c => (
        fh: File, buf: RecvBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Moves the individual file pointer
    MPI_File_seek => (fh: File, offset: Offset, whence: Int) on fh unimplemented

    /// Moves the shared file pointer
    MPI_File_seek_shared => (fh: File, offset: Offset, whence: Int) on fh unimplemented

    /// Turns atomic mode on or off
    MPI_File_set_atomicity => (fh: File, flag: Flag) on fh unimplemented

    /// Sets hints of a file
    MPI_File_set_info => (fh: File, info: Info) on fh unimplemented

    /// Sets the size of a file
    MPI_File_set_size => (fh: File, size: Offset) on fh unimplemented

    /// Sets the view of a file
    MPI_File_set_view => (
        fh: File, disp: Offset, etype: AnyType, filetype: AnyType, datarep: Text, info: Info
    ) on fh unimplemented

    /// Writes a file's data to storage
    MPI_File_sync => (fh: File) on fh unimplemented

    /// Writes at the individual pointer
    MPI_File_write, MPI_File_write_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Writes at the individual pointer, collective
    MPI_File_write_all, MPI_File_write_all_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective write at the individual pointer, collective
    MPI_File_write_all_begin, MPI_File_write_all_begin_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective write at the individual pointer, collective
    MPI_File_write_all_end => (fh: File, buf: SendBuf, status: OutStatus) on fh unimplemented

    /// Writes at an offset
    MPI_File_write_at, MPI_File_write_at_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Writes at an offset, collective
    MPI_File_write_at_all, MPI_File_write_at_all_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective write at an offset, collective
    MPI_File_write_at_all_begin, MPI_File_write_at_all_begin_c => (
        fh: File, offset: Offset, buf: SendBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective write at an offset, collective
    MPI_File_write_at_all_end => (fh: File, buf: SendBuf, status: OutStatus) on fh unimplemented

    /// Writes at the shared pointer, in rank order
    MPI_File_write_ordered, MPI_File_write_ordered_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Begins a split collective write at the shared pointer, in rank order
    MPI_File_write_ordered_begin, MPI_File_write_ordered_begin_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType
    ) on fh unimplemented

    /// Ends a split collective write at the shared pointer, in rank order
    MPI_File_write_ordered_end => (fh: File, buf: SendBuf, status: OutStatus) on fh unimplemented

    /// Writes at the shared pointer
    MPI_File_write_shared, MPI_File_write_shared_c => (
        fh: File, buf: SendBuf, count: Count, datatype: AnyType, status: OutStatus
    ) on fh unimplemented

    /// Registers a data representation
    MPI_Register_datarep, MPI_Register_datarep_c => (
        datarep: Text, read_conversion_fn: FnDatarepConversion, write_conversion_fn: FnDatarepConversion,
        dtype_file_extent_fn: FnDatarepExtent, extra_state: Addr
    ) on none unimplemented
}
