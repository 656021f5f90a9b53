//! Dynamic processes (MPI-5.0, 11.8-11.10).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::kinds::*;
use crate::lookup;
use base::{Class, Result, ensure};
use core::ffi::{CStr, c_char, c_int};
use mpi::cs::Section;
use mpi::dynamic::{self, MAX_PORT_NAME, Program};
use mpi::{comm, constructors, info};
use std::rc::Rc;

api! {
    with cs;

    /// Closes a port
    MPI_Close_port => (port_name: Text) on none { dynamic::close_port(cs, port_name) }

    /// Accepts a connection of a client job
    MPI_Comm_accept => (port_name: RootText, info: RootInfo, root: Root, comm: Comm, newcomm: OutComm) on comm {
        let new = dynamic::accept(cs, text(port_name).unwrap_or_default(), root, &comm)?;
        newcomm.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Connects to a server job
    MPI_Comm_connect => (port_name: RootText, info: RootInfo, root: Root, comm: Comm, newcomm: OutComm) on comm {
        let new = dynamic::connect(cs, text(port_name).unwrap_or_default(), root, &comm)?;
        newcomm.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Frees a communicator after all its pending communication
    MPI_Comm_disconnect => (comm: InOutComm) on comm {
        constructors::disconnect(cs, &*lookup::comm(cs, comm.value())?)?;
        comm.set(CComm::null());
        Ok(())
    }

    /// The communicator with the job that spawned this one
    MPI_Comm_get_parent => (parent: OutComm) on none {
        parent.set(CComm::of(comm::handle_of(dynamic::parent(cs).as_ref())));
        Ok(())
    }

    /// Connects two processes that share a socket
    MPI_Comm_join => (fd: Int, intercomm: OutComm) on none {
        intercomm.set(CComm::of(comm::handle_of(Some(&dynamic::join(cs, fd)?))));
        Ok(())
    }

    /// Starts new processes of one program
    MPI_Comm_spawn => (
        command: RootText, argv: Strings, maxprocs: Int, info: RootInfo, root: Root, comm: Comm, intercomm: OutComm,
        array_of_errcodes: OutIntArray
    ) on comm {
        let programs = |cs: &Section| Ok(vec![program(cs, command, argv, maxprocs, info)?]);
        let requested = i64::from(maxprocs);
        let new = spawn(cs, programs, root, &comm, (array_of_errcodes, requested))?;
        intercomm.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Starts new processes of several programs
    MPI_Comm_spawn_multiple => (
        count: Int, array_of_commands: Strings, array_of_argv: StringLists, array_of_maxprocs: IntArray,
        array_of_info: InfoArray, root: Root, comm: Comm, intercomm: OutComm, array_of_errcodes: OutIntArray
    ) on comm {
        let is_root = comm.rank == root;
        let n = if is_root { usize::try_from(count).unwrap_or(0) } else { 0 };
        let (commands, counts) = (slice(array_of_commands, n), slice(array_of_maxprocs, n));
        let (arguments, infos) = (slice(array_of_argv, n), slice(array_of_info, n));
        let programs = |cs: &Section| {
            ensure!(count > 0, ERR_COUNT, "no program is to be started");
            ensure!(commands.len() == n && counts.len() == n && infos.len() == n, ERR_ARG, "an array is missing");
            let argv = |i: usize| arguments.get(i).copied().unwrap_or(core::ptr::null());
            (0..n).map(|i| program(cs, commands[i], argv(i), counts[i], infos[i])).collect()
        };
        let requested = counts.iter().map(|count| i64::from(*count)).sum();
        let new = spawn(cs, programs, root, &comm, (array_of_errcodes, requested))?;
        intercomm.set(CComm::of(comm::handle_of(Some(&new))));
        Ok(())
    }

    /// Port of a published service
    MPI_Lookup_name => (service_name: Text, info: Info, port_name: OutText) on none {
        port_name.write(&dynamic::lookup(cs, service_name)?, MAX_PORT_NAME);
        Ok(())
    }

    /// Opens a port
    MPI_Open_port => (info: Info, port_name: OutText) on none {
        port_name.write(dynamic::open_port(cs)?.as_bytes(), MAX_PORT_NAME);
        Ok(())
    }

    /// Publishes a service
    MPI_Publish_name => (service_name: Text, info: Info, port_name: Text) on none {
        dynamic::publish(cs, service_name, port_name)
    }

    /// Withdraws a service
    MPI_Unpublish_name => (service_name: Text, info: Info, port_name: Text) on none {
        dynamic::unpublish(cs, service_name, port_name)
    }
}

/// The bytes of a C string; none for a null pointer.
///
/// # Safety
/// `p` is null or a C string that outlives the call.
unsafe fn text<'a>(p: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller says so.
    (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_bytes())
}

/// A program that the root names; `MPI_ARGV_NULL` is a null pointer.
///
/// # Safety
/// The pointers are what the standard demands of a root.
unsafe fn program(
    cs: &Section,
    command: *const c_char,
    argv: *const *const c_char,
    count: c_int,
    info: CInfo,
) -> Result<Program> {
    // SAFETY: the caller says so.
    let Some(command) = (unsafe { text(command) }) else { base::fail!(ERR_ARG, "the program's name is missing") };
    let mut words = vec![command.to_vec()];
    for at in 0.. {
        // SAFETY: the list ends with a null pointer.
        let word = if argv.is_null() { None } else { unsafe { text(*argv.add(at)) } };
        let Some(word) = word else { break };
        words.push(word.to_vec());
    }
    Ok(Program { argv: words, count, info: info::from_handle_or_null(cs, info.known())? })
}

/// Spawns, and writes a code for each process that was asked for.
///
/// # Safety
/// At the root `codes` is `MPI_ERRCODES_IGNORE` or has room for as many as were requested, elsewhere for as many as run.
unsafe fn spawn(
    cs: &mut Section,
    programs: impl FnOnce(&Section) -> Result<Vec<Program>>,
    root: i32,
    comm: &Rc<comm::Comm>,
    (codes, requested): (*mut c_int, i64),
) -> Result<Rc<comm::Comm>> {
    let is_root = comm.rank == root;
    let programs = if is_root { programs(cs) } else { Ok(Vec::new()) };
    let new = dynamic::spawn(cs, programs, root, comm);
    let running = new.as_ref().map_or(0, |new| i64::from(new.peer_size()));
    let room = if is_root { requested.max(0) } else { running };
    // SAFETY: the caller says so.
    for (at, code) in unsafe { slice_mut(codes, room as usize) }.iter_mut().enumerate() {
        *code = if (at as i64) < running { 0 } else { Chosen::code(Class::ERR_SPAWN) };
    }
    new
}
