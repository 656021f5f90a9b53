//! `MPI_Comm_join` (MPI-5.0, 11.10.4): two processes that share a connected socket.
//!
//! Each opens a port and sends its name over the socket; the one whose name is smaller is called. Nothing else goes over the socket, and after the call it
//! is as before.

use super::connect;
use super::ports::Callee;
use crate::comm::{self, Comm};
use crate::cs::Section;
use base::{Result, ensure, fail};
use channel::port::{Call, MAX_PORT_NAME, swap_words};
use std::rc::Rc;

/// The inter-communicator of this process and the one at the other end of `fd`.
pub fn join(cs: &mut Section, fd: i32) -> Result<Rc<Comm>> {
    let Some(own) = comm::own(cs).cloned() else { fail!(ERR_OTHER, "MPI_Comm_join needs the World Model") };
    connect::meet(cs, &own, 0, |cs, told, members| {
        let callee = Callee::open()?;
        let mine = callee.name().as_bytes();
        let mut word = vec![0; MAX_PORT_NAME];
        word[..mine.len()].copy_from_slice(mine);
        let theirs = swap_words(fd, &word)?;
        let name = theirs.split(|byte| *byte == 0).next().unwrap_or_default();
        ensure!(name != mine, ERR_ARG, "the socket leads to this process itself");
        if mine < name {
            return callee.meet(cs, told, members, |_| Ok(()));
        }
        connect::call(cs, Call::begin(name)?, told, members)
    })
}
