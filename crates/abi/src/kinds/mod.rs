//! What kinds of parameters MPI functions have. A kind fixes the C type, the check, the conversion and the error class;
//! [`Small`] and [`Large`] say whether counts are `int` or `MPI_Count`.

mod arrays;
mod callbacks;
mod handles;
mod numbers;
mod outputs;
mod pointers;
mod tool;

pub use crate::ctypes::*;
pub use arrays::*;
pub use callbacks::*;
pub use handles::*;
use mpi::cs::Section;
pub use numbers::*;
pub use outputs::*;
pub use pointers::*;
pub use tool::*;

use crate::raise::Scope;
use base::Result;
use core::ffi::c_int;

/// Width of counts: the function itself or its `_c` twin.
pub trait Width {
    /// True for the twin.
    const LARGE: bool;
    /// `int` or `MPI_Count`; also the `int` or `MPI_Aint` of element displacements.
    type Int: Copy + Into<i64> + TryFrom<i64>;
}

/// Counts are `int`.
pub enum Small {}

/// Counts are `MPI_Count`.
pub enum Large {}

impl Width for Small {
    const LARGE: bool = false;
    type Int = c_int;
}

impl Width for Large {
    const LARGE: bool = true;
    type Int = i64;
}

/// Whether this declarator names a handle of an info, error handler or session.
const fn is_for_any_thread(text: &str) -> bool {
    contains(text, "MPI_Info ") || contains(text, "MPI_Errhandler ") || contains(text, "MPI_Session ")
}

const fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let mut start = 0;
    while start + part.len() <= text.len() {
        let mut same = 0;
        while same < part.len() && text[start + same] == part[same] {
            same += 1;
        }
        if same == part.len() {
            return true;
        }
        start += 1;
    }
    false
}

/// A kind of parameter.
pub trait Kind<W: Width> {
    /// C type.
    type C: Copy;
    /// What the body gets.
    type R;
    /// C declarator, with `@` for the name.
    const TEXT: &'static str;
    /// Whether the argument is of a kind of object that any thread may use at any time (MPI-5.0, 11.4): the function takes the lock.
    const ANY_THREAD: bool = is_for_any_thread(Self::TEXT);
    /// Checks and converts.
    ///
    /// # Safety
    /// A pointer is valid as the standard demands of the argument.
    unsafe fn take(cs: &Section, c: Self::C, scope: &Scope) -> Result<Self::R>;
}
