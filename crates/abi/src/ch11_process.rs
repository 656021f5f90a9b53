//! Initialisation, threads, sessions, abort (MPI-5.0, 11.2-11.6).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, number};
use crate::kinds::*;
use core::ffi::c_int;
use mpi::thread::Level;
use mpi::{info, init, life, psets, session};

/// `MPI_THREAD_SINGLE` and the like.
fn c_level(level: Level) -> c_int {
    number(Chosen::LEVELS, level).unwrap_or(Chosen::UNDEFINED)
}

api! {
    with cs;

    /// Ends the job; of one that continues on failure only the communicator's processes
    MPI_Abort => (comm: Comm, errorcode: Int) on comm { init::abort_from(cs, &comm, errorcode) }

    /// Leaves the world model
    MPI_Finalize => () on none { init::finalize(cs) }

    /// Whether `MPI_Finalize` has completed
    MPI_Finalized => (flag: OutFlag) on anytime {
        flag.set_flag(life::is_finalized());
        Ok(())
    }

    /// Enters the world model
    MPI_Init => (argc: ArgcPtr, argv: ArgvPtr) on anytime { init::init_world(cs, Level::Single).map(drop) }

    /// Enters the world model with a thread level
    MPI_Init_thread => (argc: ArgcPtr, argv: ArgvPtr, required: Int, provided: OutInt) on anytime {
        provided.set(c_level(init::init_world(cs, Chosen::level(required))?));
        Ok(())
    }

    /// Whether `MPI_Init` has completed
    MPI_Initialized => (flag: OutFlag) on anytime {
        flag.set_flag(life::is_initialized());
        Ok(())
    }

    /// Whether this thread initialised MPI
    MPI_Is_thread_main => (flag: OutFlag) on none {
        flag.set_flag(life::is_thread_main(cs));
        Ok(())
    }

    /// The thread level in use
    MPI_Query_thread => (provided: OutInt) on none {
        provided.set(c_level(life::thread_level(cs)));
        Ok(())
    }

    /// Ends a session
    MPI_Session_finalize => (session: InOutSession) on session {
        session::finalize(cs, &session::from_handle(cs, session.value().known())?)?;
        session.set(CSession::null());
        Ok(())
    }

    /// The hints in use of a session
    MPI_Session_get_info => (session: Session, info_used: OutInfo) on session {
        info_used.set(CInfo::of(info::enter(cs, session.info())));
        Ok(())
    }

    /// Name of the n-th process set
    MPI_Session_get_nth_pset => (
        session: Session, info: Info, n: Int, pset_len: InOutInt, pset_name: OutText
    ) on session {
        let name = psets::nth(n)?.as_bytes();
        if pset_len.value() > 0 {
            pset_name.write(name, pset_len.value() as usize);
        }
        pset_len.set(name.len() as c_int + 1);
        Ok(())
    }

    /// Number of process sets
    MPI_Session_get_num_psets => (session: Session, info: Info, npset_names: OutInt) on session {
        npset_names.set(psets::count());
        Ok(())
    }

    /// Info about a process set
    MPI_Session_get_pset_info => (session: Session, pset_name: Text, info: OutInfo) on session {
        info.set(CInfo::of(info::enter(cs, session::pset_info(pset_name)?)));
        Ok(())
    }

    /// Starts a session
    MPI_Session_init => (info: Info, errhandler: Errhandler, session: OutSession) on anytime {
        session.set(CSession::of(session::init(cs, info.as_deref(), errhandler.known())?.handle()));
        Ok(())
    }
}
