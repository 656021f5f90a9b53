//! Versions, memory, error handling, clocks (MPI-5.0, chapter 9).

use crate::api::{api, plain};
use crate::attributes::refresh;
use crate::callbacks::create_errhandler;
use crate::chosen::{ABI_NAME, Chosen, MAX_PROCESSOR_NAME};
use crate::convert::{Abi, known};
use crate::kinds::*;
use crate::lookup;
use core::ffi::c_int;
use mpi::comm::attributes::Predefined;
use mpi::errhandler::{self, Target};
use mpi::{constructors, env, errors, info, memory, owner};

api! {
    with cs;

    /// Creates an error class
    MPI_Add_error_class => (errorclass: OutInt) on anytime {
        errorclass.set(Chosen::code(errors::add_class(cs)?));
        refresh(cs, Predefined::LastUsedCode);
        Ok(())
    }

    /// Creates an error code of a class
    MPI_Add_error_code => (errorclass: Int, errorcode: OutInt) on anytime {
        errorcode.set(Chosen::code(errors::add_code(cs, Chosen::class(errorclass))?));
        refresh(cs, Predefined::LastUsedCode);
        Ok(())
    }

    /// Gives an error class or code its text
    MPI_Add_error_string => (errorcode: Int, string: Text) on anytime { errors::add_string(cs, Chosen::class(errorcode), string) }

    /// Allocates memory that is good for communication
    MPI_Alloc_mem => (size: Aint, info: Info, baseptr: OutAddr) on none {
        let align = info.and_then(|info| info.text("mpi_minimum_memory_alignment")).and_then(|text| text.parse().ok());
        let align = align.filter(|align: &usize| align.is_power_of_two()).unwrap_or(1);
        *baseptr = memory::allocate(cs, size, align)?;
        Ok(())
    }

    /// Calls a communicator's error handler
    MPI_Comm_call_errhandler => (comm: Comm, errorcode: Int) on comm { owner::call_errhandler(cs, &comm.owner, Chosen::class(errorcode)) }

    /// Creates an error handler for communicators
    MPI_Comm_create_errhandler => (comm_errhandler_fn: FnCommErrhandler, errhandler: OutErrhandler) on none {
        errhandler.set(CErrhandler::of(create_errhandler(cs, Target::Comm, comm_errhandler_fn)?));
        Ok(())
    }

    /// The error handler of a communicator
    MPI_Comm_get_errhandler => (comm: Comm, errhandler: OutErrhandler) on comm {
        errhandler.set(CErrhandler::of(comm.owner.get_errhandler(cs)));
        Ok(())
    }

    /// Sets the error handler of a communicator
    MPI_Comm_set_errhandler => (comm: Comm, errhandler: Errhandler) on comm { comm.owner.set_errhandler(cs, errhandler.known()) }

    /// Frees an error handler
    MPI_Errhandler_free => (errhandler: InOutErrhandler) on anytime {
        errhandler::free(cs, errhandler.value().known())?;
        errhandler.set(CErrhandler::null());
        Ok(())
    }

    /// Class of an error code
    MPI_Error_class => (errorcode: Int, errorclass: OutInt) on anytime {
        // A class is its own class, also where two of them are one to the core.
        let class = match known(Chosen::CODES, errorcode) {
            Some(_) => errorcode,
            None => Chosen::code(errors::class_of(cs, Chosen::class(errorcode))?),
        };
        errorclass.set(class);
        Ok(())
    }

    /// Text of an error code or class
    MPI_Error_string => (errorcode: Int, string: OutText, resultlen: OutInt) on anytime {
        resultlen.set(string.write(&errors::string_of(cs, Chosen::class(errorcode))?, errors::MAX_ERROR_STRING) as c_int);
        Ok(())
    }

    /// Calls a file's error handler
    MPI_File_call_errhandler => (fh: AnyFile, errorcode: Int) on fh {
        let owner = lookup::file_owner(cs, fh)?;
        owner::call_errhandler(cs, &owner, Chosen::class(errorcode))
    }

    /// Creates an error handler for files
    MPI_File_create_errhandler => (file_errhandler_fn: FnFileErrhandler, errhandler: OutErrhandler) on none {
        errhandler.set(CErrhandler::of(create_errhandler(cs, Target::File, file_errhandler_fn)?));
        Ok(())
    }

    /// The error handler of a file
    MPI_File_get_errhandler => (file: AnyFile, errhandler: OutErrhandler) on file {
        errhandler.set(CErrhandler::of(lookup::file_owner(cs, file)?.get_errhandler(cs)));
        Ok(())
    }

    /// Sets the error handler of a file
    MPI_File_set_errhandler => (file: AnyFile, errhandler: Errhandler) on file {
        lookup::file_owner(cs, file)?.set_errhandler(cs, errhandler.known())
    }

    /// Frees memory of `MPI_Alloc_mem`
    MPI_Free_mem => (base: Addr) on none { memory::free(cs, base) }

    /// Which hardware resources this process runs on
    MPI_Get_hw_resource_info => (hw_info: OutInfo) on none {
        hw_info.set(CInfo::of(info::enter(cs, constructors::hardware_info())));
        Ok(())
    }

    /// Name and version of this library
    MPI_Get_library_version => (version: OutText, resultlen: OutInt) on anytime {
        const MAX_LIBRARY_VERSION_STRING: usize = 8192;
        resultlen.set(version.write(format!("{}, {ABI_NAME}", env::LIBRARY_VERSION).as_bytes(), MAX_LIBRARY_VERSION_STRING) as c_int);
        Ok(())
    }

    /// Name of this host
    MPI_Get_processor_name => (name: OutText, resultlen: OutInt) on none {
        resultlen.set(name.write(env::processor_name().as_bytes(), MAX_PROCESSOR_NAME) as c_int);
        Ok(())
    }

    /// Version of the MPI standard
    MPI_Get_version => (version: OutInt, subversion: OutInt) on anytime {
        version.set(env::VERSION.0);
        subversion.set(env::VERSION.1);
        Ok(())
    }

    /// Removes a user's error class
    MPI_Remove_error_class => (errorclass: Int) on anytime {
        errors::remove_class(cs, Chosen::class(errorclass))?;
        refresh(cs, Predefined::LastUsedCode);
        Ok(())
    }

    /// Removes a user's error code
    MPI_Remove_error_code => (errorcode: Int) on anytime {
        errors::remove_code(cs, Chosen::class(errorcode))?;
        refresh(cs, Predefined::LastUsedCode);
        Ok(())
    }

    /// Removes the text of a user's error class or code
    MPI_Remove_error_string => (errorcode: Int) on anytime { errors::remove_string(cs, Chosen::class(errorcode)) }

    /// Calls a session's error handler
    MPI_Session_call_errhandler => (session: Session, errorcode: Int) on anytime {
        owner::call_errhandler(cs, &session.owner, Chosen::class(errorcode))
    }

    /// Creates an error handler for sessions
    MPI_Session_create_errhandler => (
        session_errhandler_fn: FnSessionErrhandler, errhandler: OutErrhandler
    ) on anytime {
        errhandler.set(CErrhandler::of(create_errhandler(cs, Target::Session, session_errhandler_fn)?));
        Ok(())
    }

    /// The error handler of a session
    MPI_Session_get_errhandler => (session: Session, errhandler: OutErrhandler) on session {
        errhandler.set(CErrhandler::of(session.owner.get_errhandler(cs)));
        Ok(())
    }

    /// Sets the error handler of a session
    MPI_Session_set_errhandler => (session: Session, errhandler: Errhandler) on session {
        session.owner.set_errhandler(cs, errhandler.known())
    }

    /// Calls a window's error handler
    MPI_Win_call_errhandler => (win: Win, errorcode: Int) on win {
        owner::call_errhandler(cs, &win.owner, Chosen::class(errorcode))
    }

    /// Creates an error handler for windows
    MPI_Win_create_errhandler => (win_errhandler_fn: FnWinErrhandler, errhandler: OutErrhandler) on none {
        errhandler.set(CErrhandler::of(create_errhandler(cs, Target::Window, win_errhandler_fn)?));
        Ok(())
    }

    /// The error handler of a window
    MPI_Win_get_errhandler => (win: Win, errhandler: OutErrhandler) on win {
        errhandler.set(CErrhandler::of(win.owner.get_errhandler(cs)));
        Ok(())
    }

    /// Sets the error handler of a window
    MPI_Win_set_errhandler => (win: Win, errhandler: Errhandler) on win { win.owner.set_errhandler(cs, errhandler.known()) }
}

plain! {
    /// Resolution of `MPI_Wtime` in seconds
    MPI_Wtick => () -> "double" f64 { mpi::env::wtick() }

    /// Seconds since a fixed time in the past
    MPI_Wtime => () -> "double" f64 { mpi::env::wtime() }
}
