//! Datatype queries, commit and free, addresses (MPI-5.0, 5.1).

use crate::api::{api, plain};
use crate::kinds::*;

api! {
    /// Address of a location
    MPI_Get_address => (location: ConstAddr, address: OutAint) on none later

    /// Number of basic elements received
    MPI_Get_elements, MPI_Get_elements_c => (status: InStatus, datatype: AnyType, count: OutCount) on none later

    /// Makes a datatype usable in communication
    MPI_Type_commit => (datatype: InOutType) on none later

    /// Frees a datatype
    MPI_Type_free => (datatype: InOutType) on none later

    /// Arguments with which a datatype was made
    MPI_Type_get_contents => (
        datatype: AnyType, max_integers: Int, max_addresses: Int, max_datatypes: Int,
        array_of_integers: OutIntArray, array_of_addresses: OutAintArray, array_of_datatypes: OutTypeArray
    ) on none later

    /// Arguments with which a datatype was made, large counts
    MPI_Type_get_contents_c => (
        datatype: AnyType, max_integers: BigCount, max_addresses: BigCount, max_large_counts: BigCount,
        max_datatypes: BigCount, array_of_integers: OutIntArray, array_of_addresses: OutAintArray,
        array_of_large_counts: OutCountArray, array_of_datatypes: OutTypeArray
    ) on none later

    /// How a datatype was made
    MPI_Type_get_envelope => (
        datatype: AnyType, num_integers: OutInt, num_addresses: OutInt, num_datatypes: OutInt, combiner: OutInt
    ) on none later

    /// How a datatype was made, large counts
    MPI_Type_get_envelope_c => (
        datatype: AnyType, num_integers: OutBigCount, num_addresses: OutBigCount, num_large_counts: OutBigCount,
        num_datatypes: OutBigCount, combiner: OutInt
    ) on none later

    /// Lower bound and extent of a datatype
    MPI_Type_get_extent, MPI_Type_get_extent_c => (
        datatype: AnyType, lb: OutByteDispl, extent: OutByteDispl
    ) on none later

    /// Lower bound and extent of a datatype's data
    MPI_Type_get_true_extent, MPI_Type_get_true_extent_c => (
        datatype: AnyType, true_lb: OutByteDispl, true_extent: OutByteDispl
    ) on none later

    /// Predefined pair type of a value and an index type
    MPI_Type_get_value_index => (value_type: AnyType, index_type: AnyType, pair_type: OutType) on none later

    /// Number of data bytes of a datatype
    MPI_Type_size, MPI_Type_size_c => (datatype: AnyType, size: OutCount) on none later
}

plain! {
    /// Sum of an address and a displacement
    MPI_Aint_add => (base: Aint, disp: Aint) -> "MPI_Aint" i64 { base.wrapping_add(disp) }

    /// Difference of two addresses
    MPI_Aint_diff => (addr1: Aint, addr2: Aint) -> "MPI_Aint" i64 { addr1.wrapping_sub(addr2) }
}
