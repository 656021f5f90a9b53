//! Fortran types by precision, range and size (MPI-5.0, 19.1.9).

use crate::api::api;
use crate::chosen::Chosen;
use crate::convert::{Abi, known};
use crate::kinds::*;
use crate::lookup;
use base::fail;
use mpi::datatype;

api! {
    with cs;

    /// Complex type of a Fortran precision and range
    MPI_Type_create_f90_complex => (p: Int, r: Int, newtype: OutType) on none {
        newtype.set(lookup::share_datatype(cs, &datatype::create_f90_complex(Chosen::rank(p), Chosen::rank(r))?));
        Ok(())
    }

    /// Integer type of a Fortran range
    MPI_Type_create_f90_integer => (r: Int, newtype: OutType) on none {
        newtype.set(lookup::share_datatype(cs, &datatype::create_f90_integer(r)?));
        Ok(())
    }

    /// Real type of a Fortran precision and range
    MPI_Type_create_f90_real => (p: Int, r: Int, newtype: OutType) on none {
        newtype.set(lookup::share_datatype(cs, &datatype::create_f90_real(Chosen::rank(p), Chosen::rank(r))?));
        Ok(())
    }

    /// Basic type of a class and size
    MPI_Type_match_size => (typeclass: Int, size: Int, datatype: OutType) on none {
        let Some(class) = known(Chosen::TYPE_CLASSES, typeclass) else { fail!(ERR_ARG, "unknown type class") };
        datatype.set(lookup::share_datatype(cs, datatype::match_size(class, size.into())?));
        Ok(())
    }
}
