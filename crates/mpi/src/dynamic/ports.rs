//! Ports: `MPI_Open_port`, `MPI_Close_port`, `MPI_Comm_accept`, `MPI_Comm_connect` (MPI-5.0, 11.9).

use super::connect::{self, Met, Side};
use super::wait_for;
use crate::comm::Comm;
use crate::cs::Section;
use crate::inside::Inside;
use crate::losses::Participants;
use base::{Result, fail, log};
use channel::port::{Call, Meeting, Port};
use std::cell::RefCell;
use std::rc::Rc;

/// Callers of a port that may have been accepted and wait; the kernel keeps the others.
const CALLERS_MAX: usize = 64;

/// A port, and the callers of whom somebody still has to take notice.
pub(super) struct Callee {
    port: Port,
    callers: RefCell<Vec<Caller>>,
}

struct Caller {
    meeting: Meeting,
    /// What it has said first.
    said: Option<Vec<u8>>,
}

static PORTS: Inside<RefCell<Vec<Rc<Callee>>>> = Inside::new(RefCell::new(Vec::new()));

/// `MPI_Open_port`: its name.
pub fn open_port(cs: &Section) -> Result<String> {
    let callee = Rc::new(Callee::open()?);
    let name = callee.name().to_string();
    PORTS.get(cs).borrow_mut().push(callee);
    Ok(name)
}

/// `MPI_Close_port`.
pub fn close_port(cs: &Section, name: &[u8]) -> Result {
    let mut ports = PORTS.get(cs).borrow_mut();
    match ports.iter().position(|callee| callee.name().as_bytes() == name) {
        Some(at) => drop(ports.swap_remove(at)),
        None => fail!(ERR_PORT, "this process has no open port of that name"),
    }
    Ok(())
}

/// `MPI_Comm_accept`; the name matters at the root only.
pub fn accept(cs: &mut Section, name: &[u8], root: i32, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    connect::meet(cs, comm, root, |cs, told, members| {
        let found = PORTS.get(cs).borrow().iter().find(|callee| callee.name().as_bytes() == name).cloned();
        let Some(callee) = found else { fail!(ERR_PORT, "this process has no open port of that name") };
        callee.meet(cs, told, members, |_| Ok(()))
    })
}

/// `MPI_Comm_connect`; the name matters at the root only.
pub fn connect(cs: &mut Section, name: &[u8], root: i32, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    connect::meet(cs, comm, root, |cs, told, members| connect::call(cs, Call::begin(name)?, told, members))
}

impl Callee {
    pub fn open() -> Result<Callee> {
        Ok(Callee { port: Port::open()?, callers: RefCell::default() })
    }

    pub fn name(&self) -> &str {
        self.port.name()
    }

    /// Waits for the first caller that proves itself and says something, and answers it with `told`. `check` ends the wait by an error.
    pub fn meet(
        &self,
        cs: &mut Section,
        told: &[u8],
        members: &Participants,
        mut check: impl FnMut(&mut Section) -> Result,
    ) -> Result<Met> {
        let Caller { mut meeting, said } = wait_for(cs, members, |cs| {
            let found = self.next()?;
            if found.is_none() {
                check(cs)?;
            }
            Ok(found)
        })?;
        meeting.send(told)?;
        Ok(Met { meeting, said: said.unwrap_or_default(), side: Side::Callee })
    }

    /// A caller that has said something, if there is one.
    fn next(&self) -> Result<Option<Caller>> {
        let mut callers = self.callers.borrow_mut();
        while callers.len() < CALLERS_MAX
            && let Some(meeting) = self.port.accept()?
        {
            callers.push(Caller { meeting, said: None });
        }
        callers.retain_mut(|caller| match caller.meeting.poll() {
            Ok(said) => {
                caller.said = caller.said.take().or(said);
                true
            }
            Err(error) => {
                log!(Info, "a caller of a port is dropped: {}", error.origin);
                false
            }
        });
        let ready = callers.iter().position(|caller| caller.said.is_some());
        Ok(ready.map(|at| callers.remove(at)))
    }
}
