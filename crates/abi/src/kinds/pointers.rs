//! Buffers, addresses and strings.

use super::{Kind, Width};
use crate::chosen::Chosen;
use crate::convert::Abi;
use crate::raise::Scope;
use base::{Result, ensure};
use core::ffi::{CStr, c_char, c_void};
use mpi::cs::Section;

/// Declares kinds whose C type is a pointer.
macro_rules! addresses {
    ($($(#[doc = $doc:literal])+ $kind:ident, $c:ty => $r:ty, $text:literal, |$v:ident| $take:expr;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $r;
                const TEXT: &'static str = $text;
                #[inline(always)]
                unsafe fn take(_cs: &Section, $v: $c, _: &Scope) -> Result<$r> {
                    $take
                }
            }
        )*
    };
}

addresses! {
    /// Data that goes out: an address, `MPI_BOTTOM`, or where allowed `MPI_IN_PLACE`.
    SendBuf, *const c_void => *const u8, "const void *@", |p| Ok(p.map_addr(Chosen::address).cast());
    /// Room for data that comes in.
    RecvBuf, *mut c_void => *mut u8, "void *@", |p| Ok(p.map_addr(Chosen::address).cast());
    /// An address that is kept, not followed: attribute value, extra state, buffer to attach.
    Addr, *mut c_void => *mut c_void, "void *@", |p| Ok(p);
    /// An address that is not written through.
    ConstAddr, *const c_void => *const c_void, "const void *@", |p| Ok(p);
    /// Where to write an address.
    OutAddr, *mut c_void => *mut *mut c_void, "void *@", |p| {
        ensure!(!p.is_null(), ERR_ARG, "null pointer for a result");
        Ok(p.cast())
    };
    /// A C string, as bytes without the terminating null.
    Text, *const c_char => &'static [u8], "const char *@", |p| {
        // SAFETY: `take`'s caller passes null or a C string that outlives the call; the body doesn't keep it.
        unsafe { text(p) }
    };
    /// As [`Text`], written as an array in the standard.
    TextArray, *const c_char => &'static [u8], "const char @[]", |p| {
        // SAFETY: as for `Text`.
        unsafe { text(p) }
    };
    /// `argc` of `main`, or null.
    ArgcPtr, *mut core::ffi::c_int => *mut core::ffi::c_int, "int *@", |p| Ok(p);
    /// `argv` of `main`, or null.
    ArgvPtr, *mut *mut *mut c_char => *mut *mut *mut c_char, "char ***@", |p| Ok(p);
}

/// The bytes of a C string.
///
/// # Safety
/// `p` is null or a C string that lives as long as the result is used.
pub unsafe fn text<'a>(p: *const c_char) -> Result<&'a [u8]> {
    ensure!(!p.is_null(), ERR_ARG, "null pointer for a string");
    // SAFETY: the caller says so.
    Ok(unsafe { CStr::from_ptr(p) }.to_bytes())
}
