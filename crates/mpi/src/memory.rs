//! `MPI_Alloc_mem` and `MPI_Free_mem` (MPI-5.0, 9.2).

use crate::cs::Section;
use crate::inside::Inside;
use base::{Result, ensure, fail};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// A cache line: enough for every type and for vector loads.
const ALIGN_BYTES: usize = 64;

/// What has been allocated, by address.
static LIVE: Inside<RefCell<BTreeMap<usize, Layout>>> = Inside::new(RefCell::new(BTreeMap::new()));

/// Allocates `size` bytes, aligned to `align` (a power of two) or better. Zero bytes still have an address of their own.
pub fn allocate(cs: &Section, size: i64, align: usize) -> Result<*mut c_void> {
    ensure!(size >= 0, ERR_ARG, "negative size");
    let layout = Layout::from_size_align((size as usize).max(1), align.max(ALIGN_BYTES));
    let Ok(layout) = layout else { fail!(ERR_NO_MEM, "no address space has this size") };
    // SAFETY: the size isn't zero.
    let address = unsafe { alloc(layout) };
    ensure!(!address.is_null(), ERR_NO_MEM, "memory is exhausted");
    LIVE.get(cs).borrow_mut().insert(address as usize, layout);
    Ok(address.cast())
}

/// Frees what [`allocate`] gave; null is allowed.
pub fn free(cs: &Section, address: *mut c_void) -> Result {
    if address.is_null() {
        return Ok(());
    }
    match LIVE.get(cs).borrow_mut().remove(&(address as usize)) {
        // SAFETY: allocated in `allocate` with this layout, and not freed since.
        Some(layout) => unsafe { dealloc(address.cast(), layout) },
        None => fail!(ERR_BASE, "not an address of MPI_Alloc_mem"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn only_live_addresses_are_freed() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let a = allocate(cs, 100, 4096).unwrap();
        assert_eq!(a as usize % 4096, 0);
        assert_ne!(allocate(cs, 0, 1).unwrap(), a);
        free(cs, a).unwrap();
        assert_eq!(free(cs, a).unwrap_err().class, Class::ERR_BASE);
        assert_eq!(allocate(cs, -1, 1).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(allocate(cs, i64::MAX, 1).unwrap_err().class, Class::ERR_NO_MEM);
        free(cs, std::ptr::null_mut()).unwrap();
    }
}
