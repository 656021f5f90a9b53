//! Arguments of messages, put together, with the checks that need several of them: is there a buffer, and can it be that large?

use base::{Result, ensure};
use mpi::comm::Comm;
use mpi::datatype::Datatype;
use mpi::p2p::receive::Incoming;
use mpi::p2p::send::Outgoing;
use mpi::p2p::short::LAST_SPECIAL;
use std::rc::Rc;

/// Data can't be at a special address; only a type with absolute addresses makes a buffer of `MPI_BOTTOM`.
/// From here on `count` times the size of the type fits in an `isize`.
#[inline(always)]
pub fn check(buf: *const u8, count: usize, datatype: &Datatype) -> Result {
    datatype.bytes(count)?;
    if buf.addr() <= LAST_SPECIAL {
        check_special(buf, count, datatype)?;
    }
    Ok(())
}

#[cold]
fn check_special(buf: *const u8, count: usize, datatype: &Datatype) -> Result {
    let somewhere = buf.is_null() && (count == 0 || datatype.size() == 0 || !datatype.is_contiguous());
    ensure!(somewhere, ERR_BUFFER, "there is no buffer at this address");
    Ok(())
}

/// A send.
#[inline(always)]
pub fn outgoing<'a>(
    buf: *const u8,
    count: usize,
    datatype: &'a Rc<Datatype>,
    dest: i32,
    tag: i32,
    comm: &'a Rc<Comm>,
) -> Result<Outgoing<'a>> {
    check(buf, count, datatype)?;
    Ok(Outgoing { buf, count, datatype, dest, tag, comm })
}

/// A receive.
#[inline(always)]
pub fn incoming<'a>(
    buf: *mut u8,
    count: usize,
    datatype: &'a Rc<Datatype>,
    source: i32,
    tag: i32,
    comm: &'a Rc<Comm>,
) -> Result<Incoming<'a>> {
    check(buf, count, datatype)?;
    Ok(Incoming { buf, count, datatype, source, tag, comm })
}
