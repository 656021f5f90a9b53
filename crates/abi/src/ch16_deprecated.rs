//! Deprecated functions (MPI-5.0, chapter 16).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Deletes an attribute of a communicator (deprecated)
    MPI_Attr_delete => (comm: Comm, keyval: Int) on comm later

    /// Reads an attribute of a communicator (deprecated)
    MPI_Attr_get => (comm: Comm, keyval: Int, attribute_val: OutAddr, flag: OutFlag) on comm later

    /// Stores an attribute of a communicator (deprecated)
    MPI_Attr_put => (comm: Comm, keyval: Int, attribute_val: Addr) on comm later

    /// Number of basic elements received (deprecated)
    MPI_Get_elements_x => (status: InStatus, datatype: AnyType, count: OutBigCount) on none later

    /// Value of a key (deprecated)
    MPI_Info_get => (info: Info, key: Text, valuelen: Int, value: OutText, flag: OutFlag) on anytime later

    /// Length of a key's value (deprecated)
    MPI_Info_get_valuelen => (info: Info, key: Text, valuelen: OutInt, flag: OutFlag) on anytime later

    /// Creates an attribute key for communicators (deprecated)
    MPI_Keyval_create => (copy_fn: FnCopy, delete_fn: FnDelete, keyval: OutInt, extra_state: Addr) on none later

    /// Frees an attribute key for communicators (deprecated)
    MPI_Keyval_free => (keyval: InOutInt) on none later

    /// Sets the number of basic elements of a status (deprecated)
    MPI_Status_set_elements_x => (status: InOutStatus, datatype: AnyType, count: BigCount) on none later

    /// Lower bound and extent of a datatype (deprecated)
    MPI_Type_get_extent_x => (datatype: AnyType, lb: OutBigCount, extent: OutBigCount) on none later

    /// Lower bound and extent of a datatype's data (deprecated)
    MPI_Type_get_true_extent_x => (datatype: AnyType, true_lb: OutBigCount, true_extent: OutBigCount) on none later

    /// Number of data bytes of a datatype (deprecated)
    MPI_Type_size_x => (datatype: AnyType, size: OutBigCount) on none later
}
