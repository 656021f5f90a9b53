//! Datatype constructors (MPI-5.0, 5.1).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, known};
use crate::kinds::*;
use crate::lookup;
use base::Result;
use core::ffi::c_int;
use mpi::attr;
use mpi::cs::Section;
use mpi::datatype::DATATYPES;
use mpi::datatype::{self, DarrayArgs, Datatype, Form};
use std::rc::Rc;

/// The constructor's form, which `MPI_Type_get_envelope` tells.
fn form<W: Width>() -> Form {
    if W::LARGE { Form::Count } else { Form::Int }
}

/// Gives a new datatype to the program.
pub fn enter(cs: &Section, place: Out<CType>, datatype: Rc<Datatype>) -> Result {
    place.set(CType::of(DATATYPES.get(cs).enter(datatype)));
    Ok(())
}

/// No constant of the core.
const UNKNOWN: c_int = -1;

fn array_order(number: c_int) -> c_int {
    known(Chosen::ORDERS, number).unwrap_or(UNKNOWN)
}

fn distribution(number: c_int) -> c_int {
    known(Chosen::DISTRIBUTIONS, number).unwrap_or(UNKNOWN)
}

fn distribution_argument(number: c_int) -> c_int {
    if number == Chosen::DISTRIBUTE_DFLT_DARG { datatype::DISTRIBUTE_DFLT_DARG } else { number }
}

api! {
    with cs;

    /// Datatype of consecutive elements
    MPI_Type_contiguous, MPI_Type_contiguous_c => (count: Count, oldtype: AnyType, newtype: OutType) on none {
        enter(cs, newtype, datatype::contiguous(form::<W>(), count as i64, &oldtype)?)
    }

    /// Datatype of this process's part of a distributed array
    MPI_Type_create_darray, MPI_Type_create_darray_c => (
        size: Int, rank: Int, ndims: Dims, array_of_gsizes: CountArray, array_of_distribs: IntArray,
        array_of_dargs: IntArray, array_of_psizes: IntArray, order: Int, oldtype: AnyType, newtype: OutType
    ) on none {
        let args = DarrayArgs {
            size,
            rank,
            gsizes: &array_of_gsizes.to_vec(ndims),
            distribs: &slice(array_of_distribs, ndims).iter().map(|&n| distribution(n)).collect::<Vec<_>>(),
            dargs: &slice(array_of_dargs, ndims).iter().map(|&n| distribution_argument(n)).collect::<Vec<_>>(),
            psizes: slice(array_of_psizes, ndims),
            order: array_order(order),
        };
        enter(cs, newtype, datatype::darray(form::<W>(), args, &oldtype)?)
    }

    /// Datatype of blocks at byte displacements
    MPI_Type_create_hindexed, MPI_Type_create_hindexed_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray, oldtype: AnyType,
        newtype: OutType
    ) on none {
        let (lengths, displacements) = (array_of_blocklengths.to_vec(count), slice(array_of_displacements, count));
        enter(cs, newtype, datatype::hindexed(form::<W>(), &lengths, displacements, &oldtype)?)
    }

    /// Datatype of equal blocks at byte displacements
    MPI_Type_create_hindexed_block, MPI_Type_create_hindexed_block_c => (
        count: Count, blocklength: Count, array_of_displacements: ByteDisplArray, oldtype: AnyType,
        newtype: OutType
    ) on none {
        let displacements = slice(array_of_displacements, count);
        enter(cs, newtype, datatype::hindexed_block(form::<W>(), blocklength as i64, displacements, &oldtype)?)
    }

    /// Datatype of equal blocks with a stride in bytes
    MPI_Type_create_hvector, MPI_Type_create_hvector_c => (
        count: Count, blocklength: Count, stride: ByteDispl, oldtype: AnyType, newtype: OutType
    ) on none { enter(cs, newtype, datatype::hvector(form::<W>(), count as i64, blocklength as i64, stride, &oldtype)?) }

    /// Datatype of equal blocks at displacements
    MPI_Type_create_indexed_block, MPI_Type_create_indexed_block_c => (
        count: Count, blocklength: Count, array_of_displacements: CountArray, oldtype: AnyType, newtype: OutType
    ) on none {
        let displacements = array_of_displacements.to_vec(count);
        enter(cs, newtype, datatype::indexed_block(form::<W>(), blocklength as i64, &displacements, &oldtype)?)
    }

    /// Datatype with another lower bound and extent
    MPI_Type_create_resized, MPI_Type_create_resized_c => (
        oldtype: AnyType, lb: ByteDispl, extent: ByteDispl, newtype: OutType
    ) on none { enter(cs, newtype, datatype::resized(form::<W>(), lb, extent, &oldtype)?) }

    /// Datatype of blocks of different types
    MPI_Type_create_struct, MPI_Type_create_struct_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray,
        array_of_types: TypeArray, newtype: OutType
    ) on none {
        let (lengths, displacements) = (array_of_blocklengths.to_vec(count), slice(array_of_displacements, count));
        let types = slice(array_of_types, count).iter().map(|&c| Ok(Rc::clone(&*lookup::datatype(cs, c)?)));
        let types = types.collect::<Result<Vec<_>>>()?;
        enter(cs, newtype, datatype::structure(form::<W>(), &lengths, displacements, &types)?)
    }

    /// Datatype of a part of an array
    MPI_Type_create_subarray, MPI_Type_create_subarray_c => (
        ndims: Dims, array_of_sizes: CountArray, array_of_subsizes: CountArray, array_of_starts: CountArray,
        order: Int, oldtype: AnyType, newtype: OutType
    ) on none {
        let sizes = array_of_sizes.to_vec(ndims);
        let (subsizes, starts) = (array_of_subsizes.to_vec(ndims), array_of_starts.to_vec(ndims));
        enter(cs, newtype, datatype::subarray(form::<W>(), &sizes, &subsizes, &starts, array_order(order), &oldtype)?)
    }

    /// Duplicates a datatype with its attributes
    MPI_Type_dup => (oldtype: AnyType, newtype: OutType) on none {
        newtype.set(CType::null());
        let copy = datatype::dup(&oldtype);
        attr::copy_all(cs, &**oldtype, &*copy)?;
        enter(cs, newtype, copy)
    }

    /// Datatype of blocks at displacements
    MPI_Type_indexed, MPI_Type_indexed_c => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: CountArray, oldtype: AnyType,
        newtype: OutType
    ) on none {
        let (lengths, displacements) = (array_of_blocklengths.to_vec(count), array_of_displacements.to_vec(count));
        enter(cs, newtype, datatype::indexed(form::<W>(), &lengths, &displacements, &oldtype)?)
    }

    /// Datatype of equal blocks with a stride
    MPI_Type_vector, MPI_Type_vector_c => (
        count: Count, blocklength: Count, stride: Stride, oldtype: AnyType, newtype: OutType
    ) on none { enter(cs, newtype, datatype::vector(form::<W>(), count as i64, blocklength as i64, stride, &oldtype)?) }
}
