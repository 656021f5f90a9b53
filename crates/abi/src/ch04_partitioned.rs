//! Partitioned communication (MPI-5.0, chapter 4).

use crate::api::api;
use crate::kinds::*;
use crate::message;
use base::{Class, Error, Result, ensure};
use mpi::comm::Comm as Communicator;
use mpi::datatype::Datatype;
use mpi::handle::Handle;
use mpi::partitioned::{self, Arguments};
use mpi::request::complete::Holder;
use std::rc::Rc;

api! {
    with cs;

    /// Whether a partition has arrived
    MPI_Parrived => (request: Request, partition: Int, flag: OutFlag) on none {
        flag.set_flag(partitioned::arrived(cs, request.request(), partition)?);
        Ok(())
    }

    /// Marks a partition as ready
    MPI_Pready => (partition: Int, request: Request) on none {
        partitioned::ready(cs, live(request.request())?, std::iter::once(partition))
    }

    /// Marks the listed partitions as ready
    MPI_Pready_list => (length: Int, array_of_partitions: IntArray, request: Request) on none {
        ensure!(length >= 0, ERR_ARG, "negative number of partitions");
        ensure!(length == 0 || !array_of_partitions.is_null(), ERR_ARG, "null pointer for partitions");
        let partitions = slice(array_of_partitions, length as usize);
        partitioned::ready(cs, live(request.request())?, partitions.iter().copied())
    }

    /// Marks a range of partitions as ready
    MPI_Pready_range => (partition_low: Int, partition_high: Int, request: Request) on none {
        ensure!(partition_low <= partition_high, ERR_ARG, "the range of partitions ends before it begins");
        partitioned::ready(cs, live(request.request())?, partition_low..=partition_high)
    }

    /// Creates a partitioned receive
    MPI_Precv_init, MPI_Precv_init_c => (
        buf: RecvBuf, partitions: Int, count: BigCount, datatype: Type, dest: Dest, tag: SendTag, comm: Comm,
        info: Info, request: OutRequest
    ) on comm {
        let arguments = arguments(buf, partitions, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(partitioned::receive_init(cs, arguments)?));
        Ok(())
    }

    /// Creates a partitioned send
    MPI_Psend_init, MPI_Psend_init_c => (
        buf: SendBuf, partitions: Int, count: BigCount, datatype: Type, dest: Dest, tag: SendTag, comm: Comm,
        info: Info, request: OutRequest
    ) on comm {
        let arguments = arguments(buf.cast_mut(), partitions, count, &datatype, dest, tag, &comm)?;
        request.set(CRequest::of(partitioned::send_init(cs, arguments)?));
        Ok(())
    }
}

/// The request that has to be there.
fn live(request: Option<Handle>) -> Result<Handle> {
    request.ok_or(Error::new(Class::ERR_REQUEST, "MPI_REQUEST_NULL where a partitioned send is needed"))
}

/// Arguments of both sides, put together and checked.
fn arguments(
    buf: *mut u8,
    partitions: i32,
    count: i64,
    datatype: &Rc<Datatype>,
    rank: i32,
    tag: i32,
    comm: &Communicator,
) -> Result<Arguments> {
    ensure!(partitions >= 0, ERR_ARG, "negative number of partitions");
    let Ok(count) = usize::try_from(count) else { return Err(Error::new(Class::ERR_COUNT, "negative count")) };
    let partitions = partitions as usize;
    let items = partitions.checked_mul(count).ok_or(Error::new(Class::ERR_COUNT, "more items than there can be"))?;
    message::check(buf, items, datatype)?;
    let (datatype, space) = (Rc::clone(datatype), (**comm).clone());
    Ok(Arguments { buf, partitions, count, datatype, rank, tag, space })
}
