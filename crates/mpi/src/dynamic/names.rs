//! Names of services (MPI-5.0, 11.9.4): mpiexec keeps them for its job and all jobs that were spawned from it.

use super::{ask, has_agent, take_answer, wait_for};
use crate::cs::Section;
use crate::inside::Inside;
use crate::losses::Participants;
use base::{Result, ensure, fail};
use channel::port::MAX_PORT_NAME;
use protocol::control::spawn::Request;
use std::cell::RefCell;

/// Longest name of a service.
const SERVICE_MAX: usize = 1024;

/// A service and its port.
type Published = (Vec<u8>, Vec<u8>);

/// Names of a process that has no mpiexec: it can publish for itself only.
static OWN: Inside<RefCell<Vec<Published>>> = Inside::new(RefCell::new(Vec::new()));

/// `MPI_Publish_name`.
pub fn publish(cs: &mut Section, service: &[u8], port: &[u8]) -> Result {
    check(service)?;
    ensure!(!port.is_empty() && port.len() < MAX_PORT_NAME, ERR_PORT, "this is not the name of a port");
    if has_agent(cs) {
        let request = Request::Publish { service: service.to_vec(), port: port.to_vec() };
        return answer(cs, request, "the service is published already").map(drop);
    }
    let mut own = OWN.get(cs).borrow_mut();
    ensure!(own.iter().all(|(name, _)| name != service), ERR_SERVICE, "the service is published already");
    own.push((service.to_vec(), port.to_vec()));
    Ok(())
}

/// `MPI_Lookup_name`: the port.
pub fn lookup(cs: &mut Section, service: &[u8]) -> Result<Vec<u8>> {
    check(service)?;
    if has_agent(cs) {
        return answer(cs, Request::Lookup { service: service.to_vec() }, "no such service is published");
    }
    match OWN.get(cs).borrow().iter().find(|(name, _)| name == service) {
        Some((_, port)) => Ok(port.clone()),
        None => fail!(ERR_NAME, "no such service is published"),
    }
}

/// `MPI_Unpublish_name`.
pub fn unpublish(cs: &mut Section, service: &[u8], port: &[u8]) -> Result {
    check(service)?;
    if has_agent(cs) {
        let request = Request::Unpublish { service: service.to_vec(), port: port.to_vec() };
        return answer(cs, request, "no such service is published").map(drop);
    }
    let mut own = OWN.get(cs).borrow_mut();
    match own.iter().position(|(name, _)| name == service) {
        Some(at) => drop(own.swap_remove(at)),
        None => fail!(ERR_SERVICE, "no such service is published"),
    }
    Ok(())
}

fn check(service: &[u8]) -> Result {
    ensure!(!service.is_empty() && service.len() < SERVICE_MAX, ERR_SERVICE, "the service's name is empty or too long");
    Ok(())
}

/// Asks mpiexec and waits.
fn answer(cs: &mut Section, request: Request, origin: &'static str) -> Result<Vec<u8>> {
    let number = ask(cs, request)?;
    let alone = Participants::of([]);
    wait_for(cs, &alone, |cs| take_answer(cs, number))?.into_result(origin)
}
