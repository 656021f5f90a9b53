//! Attributes and names (MPI-5.0, 7.7, 7.8).

use crate::api::api;
use crate::attributes::{create_keyval, free_keyval, of_comm, of_window};
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::kinds::*;
use crate::lookup;
use core::ffi::c_int;
use mpi::attr::{self, ObjectKind};
use mpi::comm::MAX_OBJECT_NAME;
use mpi::rma;

api! {
    with cs;

    /// Creates an attribute key for communicators
    MPI_Comm_create_keyval => (
        comm_copy_attr_fn: FnCommCopyAttr, comm_delete_attr_fn: FnCommDeleteAttr, comm_keyval: OutInt,
        extra_state: Addr
    ) on none {
        comm_keyval.set(create_keyval(cs, ObjectKind::Comm, comm_copy_attr_fn, comm_delete_attr_fn, extra_state));
        Ok(())
    }

    /// Deletes an attribute of a communicator
    MPI_Comm_delete_attr => (comm: Comm, comm_keyval: Int) on comm { attr::delete(cs, &**comm, Chosen::keyval(comm_keyval)) }

    /// Frees an attribute key for communicators
    MPI_Comm_free_keyval => (comm_keyval: InOutInt) on none {
        comm_keyval.set(free_keyval(cs, ObjectKind::Comm, comm_keyval.value())?);
        Ok(())
    }

    /// Reads an attribute of a communicator
    MPI_Comm_get_attr => (comm: Comm, comm_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on comm {
        let found = of_comm(cs, &comm, comm_keyval)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            *attribute_val = found;
        }
        Ok(())
    }

    /// The name of a communicator
    MPI_Comm_get_name => (comm: AnyComm, comm_name: OutText, resultlen: OutInt) on none {
        let name = if comm == CComm::null() { b"MPI_COMM_NULL".to_vec() } else { lookup::comm(cs, comm)?.owner.name() };
        resultlen.set(comm_name.write(&name, MAX_OBJECT_NAME) as c_int);
        Ok(())
    }

    /// Stores an attribute of a communicator
    MPI_Comm_set_attr => (comm: Comm, comm_keyval: Int, attribute_val: Addr) on comm {
        attr::set(cs, &**comm, Chosen::keyval(comm_keyval), attribute_val)
    }

    /// Names a communicator
    MPI_Comm_set_name => (comm: Comm, comm_name: Text) on comm {
        comm.set_name(cs, comm_name);
        Ok(())
    }

    /// Creates an attribute key for datatypes
    MPI_Type_create_keyval => (
        type_copy_attr_fn: FnTypeCopyAttr, type_delete_attr_fn: FnTypeDeleteAttr, type_keyval: OutInt,
        extra_state: Addr
    ) on none {
        type_keyval.set(create_keyval(cs, ObjectKind::Datatype, type_copy_attr_fn, type_delete_attr_fn, extra_state));
        Ok(())
    }

    /// Deletes an attribute of a datatype
    MPI_Type_delete_attr => (datatype: AnyType, type_keyval: Int) on none { attr::delete(cs, &**datatype, Chosen::keyval(type_keyval)) }

    /// Frees an attribute key for datatypes
    MPI_Type_free_keyval => (type_keyval: InOutInt) on none {
        type_keyval.set(free_keyval(cs, ObjectKind::Datatype, type_keyval.value())?);
        Ok(())
    }

    /// Reads an attribute of a datatype
    MPI_Type_get_attr => (datatype: AnyType, type_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on none {
        let found = attr::get(cs, &**datatype, Chosen::keyval(type_keyval))?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            *attribute_val = found;
        }
        Ok(())
    }

    /// The name of a datatype
    MPI_Type_get_name => (datatype: NullableType, type_name: OutText, resultlen: OutInt) on none {
        let null = datatype == CType::null();
        let name = if null { String::from("MPI_DATATYPE_NULL") } else { lookup::datatype(cs, datatype)?.name() };
        resultlen.set(type_name.write(name.as_bytes(), MAX_OBJECT_NAME) as c_int);
        Ok(())
    }

    /// Stores an attribute of a datatype
    MPI_Type_set_attr => (datatype: AnyType, type_keyval: Int, attribute_val: Addr) on none {
        attr::set(cs, &**datatype, Chosen::keyval(type_keyval), attribute_val)
    }

    /// Names a datatype
    MPI_Type_set_name => (datatype: AnyType, type_name: Text) on none {
        datatype.set_name(&String::from_utf8_lossy(type_name));
        Ok(())
    }

    /// Creates an attribute key for windows
    MPI_Win_create_keyval => (
        win_copy_attr_fn: FnWinCopyAttr, win_delete_attr_fn: FnWinDeleteAttr, win_keyval: OutInt,
        extra_state: Addr
    ) on none {
        win_keyval.set(create_keyval(cs, ObjectKind::Window, win_copy_attr_fn, win_delete_attr_fn, extra_state));
        Ok(())
    }

    /// Deletes an attribute of a window
    MPI_Win_delete_attr => (win: Win, win_keyval: Int) on win { attr::delete(cs, &*win, Chosen::keyval(win_keyval)) }

    /// Frees an attribute key for windows
    MPI_Win_free_keyval => (win_keyval: InOutInt) on none {
        win_keyval.set(free_keyval(cs, ObjectKind::Window, win_keyval.value())?);
        Ok(())
    }

    /// Reads an attribute of a window
    MPI_Win_get_attr => (win: Win, win_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on win {
        let found = of_window(cs, &win, win_keyval)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            *attribute_val = found;
        }
        Ok(())
    }

    /// The name of a window
    MPI_Win_get_name => (win: AnyWin, win_name: OutText, resultlen: OutInt) on win {
        let is_null = win == CWin::null();
        let name = if is_null { b"MPI_WIN_NULL".to_vec() } else { rma::from_handle(cs, win.known())?.owner.name() };
        resultlen.set(win_name.write(&name, MAX_OBJECT_NAME) as c_int);
        Ok(())
    }

    /// Stores an attribute of a window
    MPI_Win_set_attr => (win: Win, win_keyval: Int, attribute_val: Addr) on win {
        attr::set(cs, &*win, Chosen::keyval(win_keyval), attribute_val)
    }

    /// Names a window
    MPI_Win_set_name => (win: Win, win_name: Text) on win {
        win.set_name(win_name);
        Ok(())
    }
}
