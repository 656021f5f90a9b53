//! Dynamic processes (MPI-5.0, 11.8-11.10).

use crate::api::api;
use crate::kinds::*;
use crate::lookup;
use mpi::constructors;

api! {
    with cs;

    /// Closes a port
    MPI_Close_port => (port_name: Text) on none unimplemented

    /// Accepts a connection of a client job
    MPI_Comm_accept => (port_name: Text, info: Info, root: Int, comm: Comm, newcomm: OutComm) on comm unimplemented

    /// Connects to a server job
    MPI_Comm_connect => (port_name: Text, info: Info, root: Int, comm: Comm, newcomm: OutComm) on comm unimplemented

    /// Frees a communicator after all its pending communication
    MPI_Comm_disconnect => (comm: InOutComm) on comm {
        constructors::disconnect(cs, &*lookup::comm(cs, comm.value())?)?;
        comm.set(CComm::null());
        Ok(())
    }

    /// The communicator with the job that spawned this one
    MPI_Comm_get_parent => (parent: OutComm) on none {
        // No process of a job without dynamic processes has one.
        parent.set(CComm::null());
        Ok(())
    }

    /// Connects two processes that share a socket
    MPI_Comm_join => (fd: Int, intercomm: OutComm) on none unimplemented

    /// Starts new processes of one program
    MPI_Comm_spawn => (
        command: Text, argv: Strings, maxprocs: Int, info: Info, root: Int, comm: Comm, intercomm: OutComm,
        array_of_errcodes: OutIntArray
    ) on comm unimplemented

    /// Starts new processes of several programs
    MPI_Comm_spawn_multiple => (
        count: Length, array_of_commands: Strings, array_of_argv: StringLists, array_of_maxprocs: IntArray,
        array_of_info: InfoArray, root: Int, comm: Comm, intercomm: OutComm, array_of_errcodes: OutIntArray
    ) on comm unimplemented

    /// Port of a published service
    MPI_Lookup_name => (service_name: Text, info: Info, port_name: OutText) on none unimplemented

    /// Opens a port
    MPI_Open_port => (info: Info, port_name: OutText) on none unimplemented

    /// Publishes a service
    MPI_Publish_name => (service_name: Text, info: Info, port_name: Text) on none unimplemented

    /// Withdraws a service
    MPI_Unpublish_name => (service_name: Text, info: Info, port_name: Text) on none unimplemented
}
