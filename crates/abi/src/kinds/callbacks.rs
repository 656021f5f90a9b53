//! Functions of the program that MPI calls, and predefined ones that are known by their value (MPI-5.0, 20.3).

use super::{Kind, Width};
use crate::raise::Scope;
use base::Result;
use mpi::cs::Section;

/// A function pointer, null, or a small predefined value; only a body that knows which one it is calls it.
pub type Function = *const core::ffi::c_void;

/// Declares kinds of callbacks by the name of their C type.
macro_rules! callbacks {
    ($($kind:ident, $small:literal $(/ $large:literal)?;)*) => {
        $(
            #[doc = concat!("`", $small, "`")]
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = Function;
                type R = Function;
                const TEXT: &'static str = if W::LARGE { callbacks!(@large $small $($large)?) } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, p: Function, _: &Scope) -> Result<Function> {
                    Ok(p)
                }
            }
        )*
    };
    (@large $small:literal) => { $small };
    (@large $small:literal $large:literal) => { $large };
}

callbacks! {
    FnUser, "MPI_User_function *@" / "MPI_User_function_c *@";
    FnCommCopyAttr, "MPI_Comm_copy_attr_function *@";
    FnCommDeleteAttr, "MPI_Comm_delete_attr_function *@";
    FnTypeCopyAttr, "MPI_Type_copy_attr_function *@";
    FnTypeDeleteAttr, "MPI_Type_delete_attr_function *@";
    FnWinCopyAttr, "MPI_Win_copy_attr_function *@";
    FnWinDeleteAttr, "MPI_Win_delete_attr_function *@";
    FnCopy, "MPI_Copy_function *@";
    FnDelete, "MPI_Delete_function *@";
    FnCommErrhandler, "MPI_Comm_errhandler_function *@";
    FnFileErrhandler, "MPI_File_errhandler_function *@";
    FnWinErrhandler, "MPI_Win_errhandler_function *@";
    FnSessionErrhandler, "MPI_Session_errhandler_function *@";
    FnGrequestQuery, "MPI_Grequest_query_function *@";
    FnGrequestFree, "MPI_Grequest_free_function *@";
    FnGrequestCancel, "MPI_Grequest_cancel_function *@";
    FnDatarepExtent, "MPI_Datarep_extent_function *@";
    FnDatarepConversion, "MPI_Datarep_conversion_function *@" / "MPI_Datarep_conversion_function_c *@";
}
