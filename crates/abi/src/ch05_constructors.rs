//! Datatype constructors (MPI-5.0, 5.1).

use crate::api::api;
use crate::kinds::*;

api! {
    /// Datatype of consecutive elements
    MPI_Type_contiguous, MPI_Type_contiguous_c => (count: Count, oldtype: AnyType, newtype: OutType) on none later

    /// Datatype of this process's part of a distributed array
    MPI_Type_create_darray, MPI_Type_create_darray_c => (
        size: Int, rank: Int, ndims: Int, array_of_gsizes: CountArray, array_of_distribs: IntArray,
        array_of_dargs: IntArray, array_of_psizes: IntArray, order: Int, oldtype: AnyType, newtype: OutType
    ) on none later

    /// Datatype of blocks at byte displacements
    MPI_Type_create_hindexed, MPI_Type_create_hindexed_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray, oldtype: AnyType,
        newtype: OutType
    ) on none later

    /// Datatype of equal blocks at byte displacements
    MPI_Type_create_hindexed_block, MPI_Type_create_hindexed_block_c => (
        count: Count, blocklength: Count, array_of_displacements: ByteDisplArray, oldtype: AnyType,
        newtype: OutType
    ) on none later

    /// Datatype of equal blocks with a stride in bytes
    MPI_Type_create_hvector, MPI_Type_create_hvector_c => (
        count: Count, blocklength: Count, stride: ByteDispl, oldtype: AnyType, newtype: OutType
    ) on none later

    /// Datatype of equal blocks at displacements
    MPI_Type_create_indexed_block, MPI_Type_create_indexed_block_c => (
        count: Count, blocklength: Count, array_of_displacements: CountArray, oldtype: AnyType, newtype: OutType
    ) on none later

    /// Datatype with another lower bound and extent
    MPI_Type_create_resized, MPI_Type_create_resized_c => (
        oldtype: AnyType, lb: ByteDispl, extent: ByteDispl, newtype: OutType
    ) on none later

    /// Datatype of blocks of different types
    MPI_Type_create_struct, MPI_Type_create_struct_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray,
        array_of_types: TypeArray, newtype: OutType
    ) on none later

    /// Datatype of a part of an array
    MPI_Type_create_subarray, MPI_Type_create_subarray_c => (
        ndims: Int, array_of_sizes: CountArray, array_of_subsizes: CountArray, array_of_starts: CountArray,
        order: Int, oldtype: AnyType, newtype: OutType
    ) on none later

    /// Duplicates a datatype with its attributes
    MPI_Type_dup => (oldtype: AnyType, newtype: OutType) on none later

    /// Datatype of blocks at displacements
    MPI_Type_indexed, MPI_Type_indexed_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: CountArray, oldtype: AnyType,
        newtype: OutType
    ) on none later

    /// Datatype of equal blocks with a stride
    MPI_Type_vector, MPI_Type_vector_c => (
        count: Count, blocklength: Count, stride: Stride, oldtype: AnyType, newtype: OutType
    ) on none later
}
