//! Types of the tool interface (MPI-5.0, chapter 15).

use super::{Kind, Width};
use crate::ctypes::{CInfo, CType};
use crate::raise::Scope;
use base::Result;
use core::ffi::{c_char, c_int, c_void};
use mpi::cs::Section;

/// Declares kinds that hand the value on.
macro_rules! tool {
    ($($kind:ident, $c:ty, $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = $c;
                type R = $c;
                const TEXT: &'static str = $text;
                #[inline(always)]
                unsafe fn take(_cs: &Section, v: $c, _: &Scope) -> Result<$c> {
                    Ok(v)
                }
            }
        )*
    };
}

tool! {
    TEnum, *mut c_void, "MPI_T_enum @";
    TEnumPtr, *mut *mut c_void, "MPI_T_enum *@";
    TCvarHandle, *mut c_void, "MPI_T_cvar_handle @";
    TCvarHandlePtr, *mut *mut c_void, "MPI_T_cvar_handle *@";
    TPvarHandle, *mut c_void, "MPI_T_pvar_handle @";
    TPvarHandlePtr, *mut *mut c_void, "MPI_T_pvar_handle *@";
    TPvarSession, *mut c_void, "MPI_T_pvar_session @";
    TPvarSessionPtr, *mut *mut c_void, "MPI_T_pvar_session *@";
    TEventRegistration, *mut c_void, "MPI_T_event_registration @";
    TEventRegistrationPtr, *mut *mut c_void, "MPI_T_event_registration *@";
    TEventInstance, *mut c_void, "MPI_T_event_instance @";
    TCbSafety, c_int, "MPI_T_cb_safety @";
    TSourceOrderPtr, *mut c_int, "MPI_T_source_order *@";
    TEventCbFunction, *const c_void, "MPI_T_event_cb_function @";
    TEventFreeCbFunction, *const c_void, "MPI_T_event_free_cb_function @";
    TEventDroppedCbFunction, *const c_void, "MPI_T_event_dropped_cb_function @";
    TInt, *mut c_int, "int *@";
    TText, *mut c_char, "char *@";
    TName, *const c_char, "const char *@";
    TCount, *mut i64, "MPI_Count *@";
    TType, *mut CType, "MPI_Datatype *@";
    TInfo, *mut CInfo, "MPI_Info *@";
    TInts, *mut c_int, "int @[]";
    TTypes, *mut CType, "MPI_Datatype @[]";
    TDispls, *mut i64, "MPI_Aint @[]";
}
