//! Persistent sends and receives (MPI-5.0, 3.9).

use super::receive::{self, Incoming};
use super::send::{self, Outgoing, SendMode};
use super::transfer::Transfer;
use crate::cs::Section;
use crate::datatype::Datatype;
use crate::handle::Handle;
use crate::p2p::space::Space;
use crate::request::{self, Message, Persistent, Request};
use base::Result;
use std::rc::Rc;

#[derive(Clone, Copy)]
enum Direction {
    Send(SendMode),
    Receive,
}

/// The arguments of a persistent operation.
struct Arguments {
    direction: Direction,
    buf: *mut u8,
    count: usize,
    datatype: Rc<Datatype>,
    /// Destination or source.
    rank: i32,
    tag: i32,
    space: Space,
}

impl Message for Arguments {
    fn start(&self, cs: &mut Section) -> Result<Transfer> {
        let Arguments { buf, count, rank, tag, .. } = *self;
        let (datatype, comm) = (&self.datatype, &self.space);
        // SAFETY: the program promised, when it made the request, that the buffer stays valid while the request is active.
        unsafe {
            match self.direction {
                Direction::Send(mode) => {
                    send::start(cs, mode, &Outgoing { buf, count, datatype, dest: rank, tag, comm })
                }
                Direction::Receive => receive::start(cs, &Incoming { buf, count, datatype, source: rank, tag, comm }),
            }
        }
    }
}

fn enter(cs: &Section, arguments: Arguments) -> Handle {
    let owner = Rc::clone(&arguments.space.owner);
    request::enter(cs, Request::Persistent(Box::new(Persistent { message: Rc::new(arguments), owner, transfer: None })))
}

/// `MPI_Send_init` and its modes.
///
/// # Safety
/// The items must be readable whenever the request is active.
pub unsafe fn send_init(cs: &Section, mode: SendMode, m: &Outgoing<'_>) -> Result<Handle> {
    let (direction, buf, datatype) = (Direction::Send(mode), m.buf.cast_mut(), Rc::clone(m.datatype));
    let space = m.comm.clone();
    Ok(enter(cs, Arguments { direction, buf, count: m.count, datatype, rank: m.dest, tag: m.tag, space }))
}

/// `MPI_Recv_init`.
///
/// # Safety
/// The items must be writable, and nobody else's, whenever the request is active.
pub unsafe fn recv_init(cs: &Section, m: &Incoming<'_>) -> Result<Handle> {
    let (direction, datatype, space) = (Direction::Receive, Rc::clone(m.datatype), m.comm.clone());
    Ok(enter(cs, Arguments { direction, buf: m.buf, count: m.count, datatype, rank: m.source, tag: m.tag, space }))
}
