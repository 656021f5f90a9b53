//! Functions that MPI-3.0 removed, which MPICH still exports. Their replacements do the work, but for `MPI_LB` and `MPI_UB`.

use super::{LB, UB};
use crate::api::api;
use crate::callbacks::create_errhandler;
use crate::ch05_constructors::enter;
use crate::kinds::*;
use crate::lookup;
use base::Result;
use mpi::cs::Section;
use mpi::datatype::{self, Datatype, Form};
use mpi::errhandler::Target;
use std::rc::Rc;

/// A structure whose members `MPI_LB` and `MPI_UB` set its bounds (MPI-1.1, 3.12.3).
fn structure(cs: &Section, lengths: &[i64], displacements: &[i64], types: &[CType]) -> Result<Rc<Datatype>> {
    let (mut lb, mut ub) = (None::<i64>, None::<i64>);
    let mut members = (Vec::new(), Vec::new(), Vec::new());
    for ((&c, &length), &displacement) in types.iter().zip(lengths).zip(displacements) {
        match c.0 {
            LB => lb = Some(lb.map_or(displacement, |lowest| lowest.min(displacement))),
            UB => ub = Some(ub.map_or(displacement, |highest| highest.max(displacement))),
            _ => {
                members.0.push(length);
                members.1.push(displacement);
                members.2.push(Rc::clone(&*lookup::datatype(cs, c)?));
            }
        }
    }
    let natural = datatype::structure(Form::Int, &members.0, &members.1, &members.2)?;
    if lb.is_none() && ub.is_none() {
        return Ok(natural);
    }
    let lb = lb.unwrap_or(natural.lb() as i64);
    let extent = ub.unwrap_or(natural.ub() as i64).wrapping_sub(lb);
    datatype::resized(Form::Int, lb, extent, &natural)
}

api! {
    with cs;

    /// Address of a place in memory (removed)
    MPI_Address => (location: Addr, address: OutAint) on none {
        address.set(location as i64);
        Ok(())
    }

    /// Makes an error handler for communicators (removed)
    MPI_Errhandler_create => (comm_errhandler_fn: FnCommErrhandler, errhandler: OutErrhandler) on none {
        errhandler.set(CErrhandler::of(create_errhandler(cs, Target::Comm, comm_errhandler_fn)?));
        Ok(())
    }

    /// The error handler of a communicator (removed)
    MPI_Errhandler_get => (comm: Comm, errhandler: OutErrhandler) on comm {
        errhandler.set(CErrhandler::of(comm.owner.get_errhandler(cs)));
        Ok(())
    }

    /// Sets the error handler of a communicator (removed)
    MPI_Errhandler_set => (comm: Comm, errhandler: Errhandler) on comm { comm.owner.set_errhandler(cs, errhandler.known()) }

    /// Extent of a datatype (removed)
    MPI_Type_extent => (datatype: AnyType, extent: OutAint) on none {
        extent.set(datatype.extent() as i64);
        Ok(())
    }

    /// Datatype of blocks at byte displacements (removed)
    MPI_Type_hindexed => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray, oldtype: AnyType,
        newtype: OutType
    ) on none {
        let (lengths, displacements) = (array_of_blocklengths.to_vec(count), slice(array_of_displacements, count));
        enter(cs, newtype, datatype::hindexed(Form::Int, &lengths, displacements, &oldtype)?)
    }

    /// Datatype of equal blocks with a stride in bytes (removed)
    MPI_Type_hvector => (
        count: Count, blocklength: Count, stride: Aint, oldtype: AnyType, newtype: OutType
    ) on none { enter(cs, newtype, datatype::hvector(Form::Int, count as i64, blocklength as i64, stride, &oldtype)?) }

    /// Lower bound of a datatype (removed)
    MPI_Type_lb => (datatype: AnyType, displacement: OutAint) on none {
        displacement.set(datatype.lb() as i64);
        Ok(())
    }

    /// Datatype of blocks of different types (removed)
    MPI_Type_struct => (
        count: Count, array_of_blocklengths: CountArray, array_of_displacements: ByteDisplArray,
        array_of_types: TypeArray, newtype: OutType
    ) on none {
        let (lengths, displacements) = (array_of_blocklengths.to_vec(count), slice(array_of_displacements, count));
        enter(cs, newtype, structure(cs, &lengths, displacements, slice(array_of_types, count))?)
    }

    /// Upper bound of a datatype (removed)
    MPI_Type_ub => (datatype: AnyType, displacement: OutAint) on none {
        displacement.set(datatype.ub() as i64);
        Ok(())
    }
}
