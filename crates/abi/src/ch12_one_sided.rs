//! One-sided communication (MPI-5.0, chapter 12).

use crate::api::api;
use crate::kinds::*;

api! {
    with cs;

    /// Combines local data into a remote window
    MPI_Accumulate, MPI_Accumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, op: Op, win: Win
    ) on win unimplemented

    /// Atomic compare-and-swap on a remote element
    MPI_Compare_and_swap => (
        origin_addr: SendBuf, compare_addr: SendBuf, result_addr: RecvBuf, datatype: AnyType, target_rank: Int,
        target_disp: Aint, win: Win
    ) on win unimplemented

    /// Atomic read and update of a remote element
    MPI_Fetch_and_op => (
        origin_addr: SendBuf, result_addr: RecvBuf, datatype: AnyType, target_rank: Int, target_disp: Aint, op: Op,
        win: Win
    ) on win unimplemented

    /// Reads from a remote window
    MPI_Get, MPI_Get_c => (
        origin_addr: RecvBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, win: Win
    ) on win unimplemented

    /// Reads from and combines into a remote window
    MPI_Get_accumulate, MPI_Get_accumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, result_addr: RecvBuf,
        result_count: Count, result_datatype: AnyType, target_rank: Int, target_disp: Aint, target_count: Count,
        target_datatype: AnyType, op: Op, win: Win
    ) on win unimplemented

    /// Writes to a remote window
    MPI_Put, MPI_Put_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, win: Win
    ) on win unimplemented

    /// Combines local data into a remote window, with a request
    MPI_Raccumulate, MPI_Raccumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, op: Op, win: Win, request: OutRequest
    ) on win unimplemented

    /// Reads from a remote window, with a request
    MPI_Rget, MPI_Rget_c => (
        origin_addr: RecvBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, win: Win, request: OutRequest
    ) on win unimplemented

    /// Reads from and combines into a remote window, with a request
    MPI_Rget_accumulate, MPI_Rget_accumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, result_addr: RecvBuf,
        result_count: Count, result_datatype: AnyType, target_rank: Int, target_disp: Aint, target_count: Count,
        target_datatype: AnyType, op: Op, win: Win, request: OutRequest
    ) on win unimplemented

    /// Writes to a remote window, with a request
    MPI_Rput, MPI_Rput_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: AnyType, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: AnyType, win: Win, request: OutRequest
    ) on win unimplemented

    /// Creates a window and allocates its memory
    MPI_Win_allocate, MPI_Win_allocate_c => (
        size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, baseptr: OutAddr, win: OutWin
    ) on comm unimplemented

    /// Creates a window in shared memory
    MPI_Win_allocate_shared, MPI_Win_allocate_shared_c => (
        size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, baseptr: OutAddr, win: OutWin
    ) on comm unimplemented

    /// Attaches memory to a dynamic window
    MPI_Win_attach => (win: Win, base: Addr, size: Aint) on win unimplemented

    /// Ends an access epoch
    MPI_Win_complete => (win: Win) on win unimplemented

    /// Creates a window on given memory
    MPI_Win_create, MPI_Win_create_c => (
        base: Addr, size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, win: OutWin
    ) on comm unimplemented

    /// Creates a window without memory
    MPI_Win_create_dynamic => (info: Info, comm: Comm, win: OutWin) on comm unimplemented

    /// Detaches memory from a dynamic window
    MPI_Win_detach => (win: Win, base: ConstAddr) on win unimplemented

    /// Separates epochs by a fence
    MPI_Win_fence => (assert: Int, win: Win) on win unimplemented

    /// Completes all operations to a target
    MPI_Win_flush => (rank: Int, win: Win) on win unimplemented

    /// Completes all operations to all targets
    MPI_Win_flush_all => (win: Win) on win unimplemented

    /// Completes all operations to a target at the origin
    MPI_Win_flush_local => (rank: Int, win: Win) on win unimplemented

    /// Completes all operations to all targets at the origin
    MPI_Win_flush_local_all => (win: Win) on win unimplemented

    /// Frees a window
    MPI_Win_free => (win: InOutWin) on win unimplemented

    /// The group of a window
    MPI_Win_get_group => (win: Win, group: OutGroup) on win unimplemented

    /// The hints in use of a window
    MPI_Win_get_info => (win: Win, info_used: OutInfo) on win unimplemented

    /// Starts a passive epoch at a target
    MPI_Win_lock => (lock_type: Int, rank: Int, assert: Int, win: Win) on win unimplemented

    /// Starts a passive epoch at all targets
    MPI_Win_lock_all => (assert: Int, win: Win) on win unimplemented

    /// Starts an exposure epoch
    MPI_Win_post => (group: Group, assert: Int, win: Win) on win unimplemented

    /// Sets hints of a window
    MPI_Win_set_info => (win: Win, info: Info) on win unimplemented

    /// Address and size of a peer's part of a shared window
    MPI_Win_shared_query, MPI_Win_shared_query_c => (
        win: Win, rank: Int, size: OutAint, disp_unit: OutDispUnit, baseptr: OutAddr
    ) on win unimplemented

    /// Starts an access epoch
    MPI_Win_start => (group: Group, assert: Int, win: Win) on win unimplemented

    /// Synchronises private and public copies of a window
    MPI_Win_sync => (win: Win) on win unimplemented

    /// Whether an exposure epoch has ended
    MPI_Win_test => (win: Win, flag: OutFlag) on win unimplemented

    /// Ends a passive epoch at a target
    MPI_Win_unlock => (rank: Int, win: Win) on win unimplemented

    /// Ends a passive epoch at all targets
    MPI_Win_unlock_all => (win: Win) on win unimplemented

    /// Waits for the end of an exposure epoch
    MPI_Win_wait => (win: Win) on win unimplemented
}
