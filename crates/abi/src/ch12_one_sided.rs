//! One-sided communication (MPI-5.0, chapter 12).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, known, number};
use crate::kinds::*;
use crate::message::check;
use base::{Result, ensure};
use core::ffi::c_int;
use mpi::datatype::Datatype;
use mpi::op::Predefined;
use mpi::rma::accumulate::{Combined, accumulate, compare_and_swap};
use mpi::rma::target::{Local, Remote};
use mpi::rma::transfer::{get, put, with_request};
use mpi::rma::{self, Assertions, Mode, active, create, passive};
use mpi::status::PROC_NULL;
use mpi::{group, info};
use std::rc::Rc;

/// Items of this process.
fn local<'a>(buf: *const u8, count: usize, datatype: &'a Rc<Datatype>) -> Result<Local<'a>> {
    check(buf, count, datatype)?;
    Ok(Local { buf: buf.cast_mut(), count, datatype })
}

/// Items of a target.
fn remote(rank: c_int, disp: i64, count: usize, datatype: &Rc<Datatype>) -> Remote<'_> {
    Remote { rank: Chosen::rank(rank), disp, count, datatype }
}

/// The assertions of a call, which takes those of `allowed`.
fn assertions(given: c_int, allowed: &[Mode]) -> Result<Assertions> {
    let mut left = given;
    let mut all = Assertions::default();
    for mode in allowed {
        let bit = number(Chosen::ASSERTIONS, *mode).unwrap_or(0);
        if left & bit != 0 {
            left &= !bit;
            all = all.with(*mode);
        }
    }
    ensure!(left == 0, ERR_ASSERT, "the assertion is not one of this call");
    Ok(all)
}

const AT_FENCE: &[Mode] = &[Mode::NoStore, Mode::NoPut, Mode::NoPrecede, Mode::NoSucceed];
const AT_POST: &[Mode] = &[Mode::NoCheck, Mode::NoStore, Mode::NoPut];
const AT_START: &[Mode] = &[Mode::NoCheck];

api! {
    with cs;

    /// Combines local data into a remote window
    MPI_Accumulate, MPI_Accumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, op: Op, win: Win
    ) on win {
        let from = Some(local(origin_addr, origin_count, &origin_datatype)?);
        let what = Combined { from, op: &op, result: None };
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        accumulate(cs, &win, &what, &to, None).map(drop)
    }

    /// Atomic compare-and-swap on a remote element
    MPI_Compare_and_swap => (
        origin_addr: SendBuf, compare_addr: SendBuf, result_addr: RecvBuf, datatype: Type, target_rank: Int,
        target_disp: Aint, win: Win
    ) on win {
        for buf in [origin_addr, compare_addr, result_addr.cast_const()] {
            check(buf, 1, &datatype)?;
        }
        let to = remote(target_rank, target_disp, 1, &datatype);
        compare_and_swap(cs, &win, (origin_addr, compare_addr, result_addr), &to)
    }

    /// Atomic read and update of a remote element
    MPI_Fetch_and_op => (
        origin_addr: SendBuf, result_addr: RecvBuf, datatype: Type, target_rank: Int, target_disp: Aint, op: Op,
        win: Win
    ) on win {
        ensure!(datatype.builtin().is_some(), ERR_TYPE, "the datatype is not a predefined one");
        let from = Some(Local { buf: origin_addr.cast_mut(), count: 1, datatype: &datatype });
        let what = Combined { from, op: &op, result: Some(local(result_addr, 1, &datatype)?) };
        let to = remote(target_rank, target_disp, 1, &datatype);
        accumulate(cs, &win, &what, &to, None).map(drop)
    }

    /// Reads from a remote window
    MPI_Get, MPI_Get_c => (
        origin_addr: RecvBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, win: Win
    ) on win {
        let into = local(origin_addr, origin_count, &origin_datatype)?;
        get(cs, &win, &into, &remote(target_rank, target_disp, target_count, &target_datatype), None).map(drop)
    }

    /// Reads from and combines into a remote window
    MPI_Get_accumulate, MPI_Get_accumulate_c => (
        origin_addr: SendBuf, origin_count: MaybeCount, origin_datatype: MaybeType, result_addr: RecvBuf,
        result_count: Count, result_datatype: Type, target_rank: Int, target_disp: Aint, target_count: Count,
        target_datatype: Type, op: Op, win: Win
    ) on win {
        let origin = if op.which() == Some(Predefined::NoOp) { None } else { Some(origin_datatype.check(cs)?) };
        let from = match &origin {
            Some(datatype) => Some(local(origin_addr, origin_count.check()?, datatype)?),
            None => None,
        };
        let result = Some(local(result_addr, result_count, &result_datatype)?);
        let what = Combined { from, op: &op, result };
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        accumulate(cs, &win, &what, &to, None).map(drop)
    }

    /// Writes to a remote window
    MPI_Put, MPI_Put_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, win: Win
    ) on win {
        let from = local(origin_addr, origin_count, &origin_datatype)?;
        put(cs, &win, &from, &remote(target_rank, target_disp, target_count, &target_datatype), None).map(drop)
    }

    /// Combines local data into a remote window, with a request
    MPI_Raccumulate, MPI_Raccumulate_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, op: Op, win: Win, request: OutRequest
    ) on win {
        let from = Some(local(origin_addr, origin_count, &origin_datatype)?);
        let what = Combined { from, op: &op, result: None };
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        // SAFETY: the program leaves its items alone until the request is complete.
        let done = with_request(cs, &win, |cs, request| unsafe { accumulate(cs, &win, &what, &to, request) })?;
        request.set(CRequest::of(done.enter(cs, &win.owner)));
        Ok(())
    }

    /// Reads from a remote window, with a request
    MPI_Rget, MPI_Rget_c => (
        origin_addr: RecvBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, win: Win, request: OutRequest
    ) on win {
        let into = local(origin_addr, origin_count, &origin_datatype)?;
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        // SAFETY: as for `MPI_Raccumulate`.
        let done = with_request(cs, &win, |cs, request| unsafe { get(cs, &win, &into, &to, request) })?;
        request.set(CRequest::of(done.enter(cs, &win.owner)));
        Ok(())
    }

    /// Reads from and combines into a remote window, with a request
    MPI_Rget_accumulate, MPI_Rget_accumulate_c => (
        origin_addr: SendBuf, origin_count: MaybeCount, origin_datatype: MaybeType, result_addr: RecvBuf,
        result_count: Count, result_datatype: Type, target_rank: Int, target_disp: Aint, target_count: Count,
        target_datatype: Type, op: Op, win: Win, request: OutRequest
    ) on win {
        let origin = if op.which() == Some(Predefined::NoOp) { None } else { Some(origin_datatype.check(cs)?) };
        let from = match &origin {
            Some(datatype) => Some(local(origin_addr, origin_count.check()?, datatype)?),
            None => None,
        };
        let result = Some(local(result_addr, result_count, &result_datatype)?);
        let what = Combined { from, op: &op, result };
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        // SAFETY: as for `MPI_Raccumulate`.
        let done = with_request(cs, &win, |cs, request| unsafe { accumulate(cs, &win, &what, &to, request) })?;
        request.set(CRequest::of(done.enter(cs, &win.owner)));
        Ok(())
    }

    /// Writes to a remote window, with a request
    MPI_Rput, MPI_Rput_c => (
        origin_addr: SendBuf, origin_count: Count, origin_datatype: Type, target_rank: Int, target_disp: Aint,
        target_count: Count, target_datatype: Type, win: Win, request: OutRequest
    ) on win {
        let from = local(origin_addr, origin_count, &origin_datatype)?;
        let to = remote(target_rank, target_disp, target_count, &target_datatype);
        // SAFETY: as for `MPI_Raccumulate`.
        let done = with_request(cs, &win, |cs, request| unsafe { put(cs, &win, &from, &to, request) })?;
        request.set(CRequest::of(done.enter(cs, &win.owner)));
        Ok(())
    }

    /// Creates a window and allocates its memory
    MPI_Win_allocate, MPI_Win_allocate_c => (
        size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, baseptr: OutAddr, win: OutWin
    ) on comm {
        let new = create::allocate(cs, &comm, size, disp_unit, info.as_deref())?;
        *baseptr = new.base.cast();
        win.set(CWin::of(new.owner.handle.get()));
        Ok(())
    }

    /// Creates a window in shared memory
    MPI_Win_allocate_shared, MPI_Win_allocate_shared_c => (
        size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, baseptr: OutAddr, win: OutWin
    ) on comm {
        let new = create::allocate_shared(cs, &comm, size, disp_unit, info.as_deref())?;
        *baseptr = new.base.cast();
        win.set(CWin::of(new.owner.handle.get()));
        Ok(())
    }

    /// Attaches memory to a dynamic window
    MPI_Win_attach => (win: Win, base: Addr, size: Aint) on win {
        // SAFETY: the program gives the memory until it detaches it.
        unsafe { create::attach(cs, &win, base.cast(), size) }
    }

    /// Ends an access epoch
    MPI_Win_complete => (win: Win) on win { active::complete(cs, &win) }

    /// Creates a window on given memory
    MPI_Win_create, MPI_Win_create_c => (
        base: Addr, size: Aint, disp_unit: DispUnit, info: Info, comm: Comm, win: OutWin
    ) on comm {
        let base = base.map_addr(Chosen::address).cast();
        let new = create::create(cs, &comm, (base, size, disp_unit), info.as_deref())?;
        win.set(CWin::of(new.owner.handle.get()));
        Ok(())
    }

    /// Creates a window without memory
    MPI_Win_create_dynamic => (info: Info, comm: Comm, win: OutWin) on comm {
        win.set(CWin::of(create::create_dynamic(cs, &comm, info.as_deref())?.owner.handle.get()));
        Ok(())
    }

    /// Detaches memory from a dynamic window
    MPI_Win_detach => (win: Win, base: ConstAddr) on win { create::detach(cs, &win, base.cast()) }

    /// Separates epochs by a fence
    MPI_Win_fence => (assert: Int, win: Win) on win { active::fence(cs, &win, assertions(assert, AT_FENCE)?) }

    /// Completes all operations to a target
    MPI_Win_flush => (rank: Int, win: Win) on win { passive::flush(cs, &win, Chosen::rank(rank)) }

    /// Completes all operations to all targets
    MPI_Win_flush_all => (win: Win) on win { passive::flush_all(cs, &win) }

    /// Completes all operations to a target at the origin
    MPI_Win_flush_local => (rank: Int, win: Win) on win { passive::flush(cs, &win, Chosen::rank(rank)) }

    /// Completes all operations to all targets at the origin
    MPI_Win_flush_local_all => (win: Win) on win { passive::flush_all(cs, &win) }

    /// Frees a window
    MPI_Win_free => (win: InOutWin) on win {
        create::free(cs, &rma::from_handle(cs, win.value().known())?)?;
        win.set(CWin::null());
        Ok(())
    }

    /// The group of a window
    MPI_Win_get_group => (win: Win, group: OutGroup) on win {
        group.set(CGroup::of(group::share(cs, win.group())));
        Ok(())
    }

    /// The hints in use of a window
    MPI_Win_get_info => (win: Win, info_used: OutInfo) on win {
        info_used.set(CInfo::of(info::enter(cs, rma::get_info(&win))));
        Ok(())
    }

    /// Starts a passive epoch at a target
    MPI_Win_lock => (lock_type: Int, rank: Int, assert: Int, win: Win) on win {
        let alone = known(Chosen::LOCK_TYPES, lock_type);
        let Some(alone) = alone else { base::fail!(ERR_LOCKTYPE, "no such type of lock") };
        passive::lock(cs, &win, alone, Chosen::rank(rank), assertions(assert, AT_START)?)
    }

    /// Starts a passive epoch at all targets
    MPI_Win_lock_all => (assert: Int, win: Win) on win { passive::lock_all(cs, &win, assertions(assert, AT_START)?) }

    /// Starts an exposure epoch
    MPI_Win_post => (group: Group, assert: Int, win: Win) on win {
        assertions(assert, AT_POST)?;
        active::post(cs, &win, &group)
    }

    /// Sets hints of a window
    MPI_Win_set_info => (win: Win, info: Info) on win {
        if let Some(info) = info {
            rma::set_info(&win, &info);
        }
        Ok(())
    }

    /// Address and size of a peer's part of a shared window
    MPI_Win_shared_query, MPI_Win_shared_query_c => (
        win: Win, rank: Int, size: OutAint, disp_unit: OutDispUnit, baseptr: OutAddr
    ) on win {
        let rank = Chosen::rank(rank);
        let found = create::shared_query(cs, &win, (rank != PROC_NULL).then_some(rank))?;
        size.set(found.size as i64);
        disp_unit.try_set(found.disp_unit as i64)?;
        *baseptr = found.base.cast();
        Ok(())
    }

    /// Starts an access epoch
    MPI_Win_start => (group: Group, assert: Int, win: Win) on win { active::start(cs, &win, &group, assertions(assert, AT_START)?) }

    /// Synchronises private and public copies of a window
    MPI_Win_sync => (win: Win) on win { passive::sync(cs, &win) }

    /// Whether an exposure epoch has ended
    MPI_Win_test => (win: Win, flag: OutFlag) on win {
        flag.set_flag(active::test(cs, &win)?);
        Ok(())
    }

    /// Ends a passive epoch at a target
    MPI_Win_unlock => (rank: Int, win: Win) on win { passive::unlock(cs, &win, Chosen::rank(rank)) }

    /// Ends a passive epoch at all targets
    MPI_Win_unlock_all => (win: Win) on win { passive::unlock_all(cs, &win) }

    /// Waits for the end of an exposure epoch
    MPI_Win_wait => (win: Win) on win { active::wait(cs, &win) }
}
