//! Deprecated functions (MPI-5.0, chapter 16).

use crate::api::api;
use crate::attributes::{create_keyval, free_keyval, of_comm};
use crate::ch13_external::set_elements;
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::kinds::*;
use base::ensure;
use core::ffi::c_int;
use mpi::attr::{self, ObjectKind};

api! {
    with cs;

    /// Deletes an attribute of a communicator (deprecated)
    MPI_Attr_delete => (comm: Comm, keyval: Int) on comm { attr::delete(cs, &**comm, Chosen::keyval(keyval)) }

    /// Reads an attribute of a communicator (deprecated)
    MPI_Attr_get => (comm: Comm, keyval: Int, attribute_val: OutAddr, flag: OutFlag) on comm {
        let found = of_comm(cs, &comm, keyval)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            *attribute_val = found;
        }
        Ok(())
    }

    /// Stores an attribute of a communicator (deprecated)
    MPI_Attr_put => (comm: Comm, keyval: Int, attribute_val: Addr) on comm { attr::set(cs, &**comm, Chosen::keyval(keyval), attribute_val) }

    /// Number of basic elements received (deprecated)
    MPI_Get_elements_x => (status: InStatus, datatype: AnyType, count: OutBigCount) on none {
        let elements = datatype.elements_in(status.known().bytes as usize);
        count.set(elements.map_or(i64::from(Chosen::UNDEFINED), |n| n as i64));
        Ok(())
    }

    /// Value of a key (deprecated)
    MPI_Info_get => (info: InfoObject, key: Text, valuelen: Int, value: OutText, flag: OutFlag) on anytime {
        ensure!(valuelen >= 0, ERR_ARG, "negative length of an info value");
        let found = info.get(key)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            value.write(&found, valuelen as usize + 1);
        }
        Ok(())
    }

    /// Length of a key's value (deprecated)
    MPI_Info_get_valuelen => (info: InfoObject, key: Text, valuelen: OutInt, flag: OutFlag) on anytime {
        let found = info.get(key)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            valuelen.set(found.len() as c_int);
        }
        Ok(())
    }

    /// Creates an attribute key for communicators (deprecated)
    MPI_Keyval_create => (copy_fn: FnCopy, delete_fn: FnDelete, keyval: OutInt, extra_state: Addr) on none {
        keyval.set(create_keyval(cs, ObjectKind::Comm, copy_fn, delete_fn, extra_state));
        Ok(())
    }

    /// Frees an attribute key for communicators (deprecated)
    MPI_Keyval_free => (keyval: InOutInt) on none {
        keyval.set(free_keyval(cs, ObjectKind::Comm, keyval.value())?);
        Ok(())
    }

    /// Sets the number of basic elements of a status (deprecated)
    MPI_Status_set_elements_x => (status: InOutStatus, datatype: AnyType, count: BigCount) on none {
        set_elements(status, &datatype, count)
    }

    /// Lower bound and extent of a datatype (deprecated)
    MPI_Type_get_extent_x => (datatype: AnyType, lb: OutBigCount, extent: OutBigCount) on none {
        lb.set(datatype.lb() as i64);
        extent.set(datatype.extent() as i64);
        Ok(())
    }

    /// Lower bound and extent of a datatype's data (deprecated)
    MPI_Type_get_true_extent_x => (datatype: AnyType, true_lb: OutBigCount, true_extent: OutBigCount) on none {
        true_lb.set(datatype.true_lb() as i64);
        true_extent.set(datatype.true_extent() as i64);
        Ok(())
    }

    /// Number of data bytes of a datatype (deprecated)
    MPI_Type_size_x => (datatype: AnyType, size: OutBigCount) on none {
        size.set(datatype.size() as i64);
        Ok(())
    }
}
