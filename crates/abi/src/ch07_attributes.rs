//! Attributes and names (MPI-5.0, 7.7, 7.8).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Creates an attribute key for communicators
    MPI_Comm_create_keyval => (
        comm_copy_attr_fn: FnCommCopyAttr, comm_delete_attr_fn: FnCommDeleteAttr, comm_keyval: OutInt,
        extra_state: Addr
    ) on none later

    /// Deletes an attribute of a communicator
    MPI_Comm_delete_attr => (comm: Comm, comm_keyval: Int) on comm later

    /// Frees an attribute key for communicators
    MPI_Comm_free_keyval => (comm_keyval: InOutInt) on none later

    /// Reads an attribute of a communicator
    MPI_Comm_get_attr => (comm: Comm, comm_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on comm later

    /// The name of a communicator
    MPI_Comm_get_name => (comm: Comm, comm_name: OutText, resultlen: OutInt) on comm later

    /// Stores an attribute of a communicator
    MPI_Comm_set_attr => (comm: Comm, comm_keyval: Int, attribute_val: Addr) on comm later

    /// Names a communicator
    MPI_Comm_set_name => (comm: Comm, comm_name: Text) on comm later

    /// Creates an attribute key for datatypes
    MPI_Type_create_keyval => (
        type_copy_attr_fn: FnTypeCopyAttr, type_delete_attr_fn: FnTypeDeleteAttr, type_keyval: OutInt,
        extra_state: Addr
    ) on none later

    /// Deletes an attribute of a datatype
    MPI_Type_delete_attr => (datatype: AnyType, type_keyval: Int) on none later

    /// Frees an attribute key for datatypes
    MPI_Type_free_keyval => (type_keyval: InOutInt) on none later

    /// Reads an attribute of a datatype
    MPI_Type_get_attr => (datatype: AnyType, type_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on none later

    /// The name of a datatype
    MPI_Type_get_name => (datatype: AnyType, type_name: OutText, resultlen: OutInt) on none later

    /// Stores an attribute of a datatype
    MPI_Type_set_attr => (datatype: AnyType, type_keyval: Int, attribute_val: Addr) on none later

    /// Names a datatype
    MPI_Type_set_name => (datatype: AnyType, type_name: Text) on none later

    /// Creates an attribute key for windows
    MPI_Win_create_keyval => (
        win_copy_attr_fn: FnWinCopyAttr, win_delete_attr_fn: FnWinDeleteAttr, win_keyval: OutInt,
        extra_state: Addr
    ) on none later

    /// Deletes an attribute of a window
    MPI_Win_delete_attr => (win: Win, win_keyval: Int) on win later

    /// Frees an attribute key for windows
    MPI_Win_free_keyval => (win_keyval: InOutInt) on none later

    /// Reads an attribute of a window
    MPI_Win_get_attr => (win: Win, win_keyval: Int, attribute_val: OutAddr, flag: OutFlag) on win later

    /// The name of a window
    MPI_Win_get_name => (win: Win, win_name: OutText, resultlen: OutInt) on win later

    /// Stores an attribute of a window
    MPI_Win_set_attr => (win: Win, win_keyval: Int, attribute_val: Addr) on win later

    /// Names a window
    MPI_Win_set_name => (win: Win, win_name: Text) on win later
}
