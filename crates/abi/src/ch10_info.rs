//! Info objects (MPI-5.0, chapter 10).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Creates an empty info object
    MPI_Info_create => (info: OutInfo) on anytime later

    /// Info object of the environment before `MPI_Init`
    MPI_Info_create_env => (argc: Int, argv: Strings, info: OutInfo) on anytime later

    /// Deletes a key
    MPI_Info_delete => (info: Info, key: Text) on anytime later

    /// Duplicates an info object
    MPI_Info_dup => (info: Info, newinfo: OutInfo) on anytime later

    /// Frees an info object
    MPI_Info_free => (info: InOutInfo) on anytime later

    /// Number of keys
    MPI_Info_get_nkeys => (info: Info, nkeys: OutInt) on anytime later

    /// The n-th key
    MPI_Info_get_nthkey => (info: Info, n: Int, key: OutText) on anytime later

    /// Value of a key
    MPI_Info_get_string => (
        info: Info, key: Text, buflen: InOutInt, value: OutText, flag: OutFlag
    ) on anytime later

    /// Sets a key
    MPI_Info_set => (info: Info, key: Text, value: Text) on anytime later
}
