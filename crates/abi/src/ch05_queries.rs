//! Datatype queries, commit and free, addresses (MPI-5.0, 5.1).

use crate::api::{api, plain};
use crate::chosen::Chosen;
use crate::convert::{Abi, c_integers, number};
use crate::kinds::*;
use crate::lookup;
use base::{Result, ensure};
use core::ffi::c_int;
use mpi::attr;
use mpi::cs::Section;
use mpi::datatype::DATATYPES;
use mpi::datatype::{self, Combiner, Datatype};

api! {
    with cs;

    /// Address of a location
    MPI_Get_address => (location: ConstAddr, address: OutAint) on none {
        address.set(location as i64);
        Ok(())
    }

    /// Number of basic elements received
    MPI_Get_elements, MPI_Get_elements_c => (status: InStatus, datatype: AnyType, count: OutCount) on none {
        let elements = datatype.elements_in(status.known().bytes as usize);
        count.set(elements.map_or(i64::from(Chosen::UNDEFINED), |n| n as i64));
        Ok(())
    }

    /// Makes a datatype usable in communication
    MPI_Type_commit => (datatype: InOutType) on none {
        lookup::datatype(cs, datatype.value())?.commit();
        Ok(())
    }

    /// Frees a datatype
    MPI_Type_free => (datatype: InOutType) on none {
        let held = lookup::datatype(cs, datatype.value())?;
        ensure!(!held.is_predefined(), ERR_TYPE, "a predefined datatype can't be freed");
        if DATATYPES.get(cs).references(datatype.value().known()) == 1 {
            attr::delete_all(cs, &**held)?;
        }
        DATATYPES.get(cs).release(datatype.value().known());
        datatype.set(CType::null());
        Ok(())
    }

    /// Arguments with which a datatype was made
    MPI_Type_get_contents => (
        datatype: AnyType, max_integers: Int, max_addresses: Int, max_datatypes: Int,
        array_of_integers: OutIntArray, array_of_addresses: OutAintArray, array_of_datatypes: OutTypeArray
    ) on none {
        let rooms = [max_integers.into(), max_addresses.into(), 0, max_datatypes.into()];
        contents(cs,
            &datatype,
            rooms,
            array_of_integers,
            array_of_addresses,
            core::ptr::null_mut(),
            array_of_datatypes,
        )
    }

    /// Arguments with which a datatype was made, large counts
    MPI_Type_get_contents_c => (
        datatype: AnyType, max_integers: BigCount, max_addresses: BigCount, max_large_counts: BigCount,
        max_datatypes: BigCount, array_of_integers: OutIntArray, array_of_addresses: OutAintArray,
        array_of_large_counts: OutCountArray, array_of_datatypes: OutTypeArray
    ) on none {
        let rooms = [max_integers, max_addresses, max_large_counts, max_datatypes];
        contents(cs, &datatype, rooms, array_of_integers, array_of_addresses, array_of_large_counts, array_of_datatypes)
    }

    /// How a datatype was made
    MPI_Type_get_envelope => (
        datatype: AnyType, num_integers: OutInt, num_addresses: OutInt, num_datatypes: OutInt, combiner: OutInt
    ) on none {
        let e = datatype.envelope();
        ensure!(e.large_counts == 0, ERR_TYPE, "datatype was made with large counts: use MPI_Type_get_envelope_c");
        num_integers.set(e.integers as c_int);
        num_addresses.set(e.addresses as c_int);
        num_datatypes.set(e.datatypes as c_int);
        combiner.set(number(Chosen::COMBINERS, e.combiner).unwrap_or(Chosen::UNDEFINED));
        Ok(())
    }

    /// How a datatype was made, large counts
    MPI_Type_get_envelope_c => (
        datatype: AnyType, num_integers: OutBigCount, num_addresses: OutBigCount, num_large_counts: OutBigCount,
        num_datatypes: OutBigCount, combiner: OutInt
    ) on none {
        let e = datatype.envelope();
        num_integers.set(e.integers as i64);
        num_addresses.set(e.addresses as i64);
        num_large_counts.set(e.large_counts as i64);
        num_datatypes.set(e.datatypes as i64);
        combiner.set(number(Chosen::COMBINERS, e.combiner).unwrap_or(Chosen::UNDEFINED));
        Ok(())
    }

    /// Lower bound and extent of a datatype
    MPI_Type_get_extent, MPI_Type_get_extent_c => (
        datatype: AnyType, lb: OutByteDispl, extent: OutByteDispl
    ) on none {
        lb.set(datatype.lb() as i64);
        extent.set(datatype.extent() as i64);
        Ok(())
    }

    /// Lower bound and extent of a datatype's data
    MPI_Type_get_true_extent, MPI_Type_get_true_extent_c => (
        datatype: AnyType, true_lb: OutByteDispl, true_extent: OutByteDispl
    ) on none {
        true_lb.set(datatype.true_lb() as i64);
        true_extent.set(datatype.true_extent() as i64);
        Ok(())
    }

    /// Predefined pair type of a value and an index type
    MPI_Type_get_value_index => (value_type: AnyType, index_type: AnyType, pair_type: OutType) on none {
        let pair = datatype::value_index(&value_type, &index_type);
        pair_type.set(pair.map_or_else(CType::null, |datatype| lookup::share_datatype(cs, datatype)));
        Ok(())
    }

    /// Number of data bytes of a datatype
    MPI_Type_size, MPI_Type_size_c => (datatype: AnyType, size: OutCount) on none {
        size.set(datatype.size() as i64);
        Ok(())
    }
}

plain! {
    /// Sum of an address and a displacement
    MPI_Aint_add => (base: Aint, disp: Aint) -> "MPI_Aint" i64 { base.wrapping_add(disp) }

    /// Difference of two addresses
    MPI_Aint_diff => (addr1: Aint, addr2: Aint) -> "MPI_Aint" i64 { addr1.wrapping_sub(addr2) }
}

/// Writes the arguments with which a datatype was made; `rooms` are the lengths of the arrays in order.
///
/// # Safety
/// Each array has the room that it claims.
unsafe fn contents(
    cs: &Section,
    datatype: &Datatype,
    rooms: [i64; 4],
    integers: *mut c_int,
    addresses: *mut i64,
    large_counts: *mut i64,
    datatypes: *mut CType,
) -> Result {
    let (e, found) = (datatype.envelope(), datatype.contents());
    ensure!(e.combiner != Combiner::Named, ERR_TYPE, "a named datatype has no contents");
    let needed = [e.integers, e.addresses, e.large_counts, e.datatypes];
    let fits = rooms.iter().zip(needed).all(|(&room, needed)| room >= needed as i64);
    ensure!(fits, ERR_ARG, "an array is too short for the contents of the datatype");
    // SAFETY: there is room, as just checked.
    unsafe {
        slice_mut(integers, e.integers).copy_from_slice(&c_integers::<Chosen>(e.combiner, &found.integers));
        for (place, &address) in slice_mut(addresses, e.addresses).iter_mut().zip(&found.addresses) {
            *place = address as i64;
        }
        slice_mut(large_counts, e.large_counts).copy_from_slice(&found.large_counts);
        for (place, datatype) in slice_mut(datatypes, e.datatypes).iter_mut().zip(&found.datatypes) {
            *place = lookup::share_datatype(cs, datatype);
        }
    }
    Ok(())
}
