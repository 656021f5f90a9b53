//! Where results are written: numbers, flags, strings, statuses.

use super::{Kind, Width};
use crate::chosen::{Chosen, STATUS_IGNORE};
use crate::convert::Abi;
use crate::raise::Scope;
use crate::status::CStatus;
use base::{Class, Result, ensure};
use core::ffi::{c_char, c_int};
use mpi::cs::Section;
use mpi::status::{Place, Status};

/// A place for one result, known not to be null.
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// The place at `p`.
    #[inline(always)]
    pub fn new(p: *mut T) -> Result<Out<T>> {
        ensure!(!p.is_null(), ERR_ARG, "null pointer for a result");
        Ok(Out(p))
    }

    /// Writes the result.
    #[inline(always)]
    pub fn set(self, value: T) {
        // SAFETY: not null, and the program passed it for the result.
        unsafe { *self.0 = value }
    }

    /// What is there.
    #[inline(always)]
    pub fn value(self) -> T {
        // SAFETY: not null, and the program passed it with a value.
        unsafe { *self.0 }
    }

    /// The place itself.
    ///
    /// # Safety
    /// Nothing else of this call reads or writes it meanwhile.
    #[inline(always)]
    pub unsafe fn as_mut<'a>(self) -> &'a mut T {
        // SAFETY: not null; exclusive by the caller.
        unsafe { &mut *self.0 }
    }
}

impl Out<c_int> {
    /// Writes true or false.
    #[inline(always)]
    pub fn set_flag(self, flag: bool) {
        self.set(c_int::from(flag));
    }
}

/// Kinds that are the address of one value.
macro_rules! outs {
    ($($(#[doc = $doc:literal])+ $kind:ident, $t:ty, $small:literal $(/ $large:literal)?;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = *mut $t;
                type R = Out<$t>;
                const TEXT: &'static str = if W::LARGE { outs!(@large $small $($large)?) } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, p: *mut $t, _: &Scope) -> Result<Out<$t>> {
                    Out::new(p)
                }
            }
        )*
    };
    (@large $small:literal) => { $small };
    (@large $small:literal $large:literal) => { $large };
}

outs! {
    /// An `int` to write.
    OutInt, c_int, "int *@";
    /// An `int` to read and write.
    InOutInt, c_int, "int *@";
    /// Truth value to write.
    OutFlag, c_int, "int *@";
    /// `MPI_Aint` to write.
    OutAint, i64, "MPI_Aint *@";
    /// `MPI_Aint` to write, `MPI_Count` in the twin.
    OutByteDispl, i64, "MPI_Aint *@" / "MPI_Count *@";
    /// `MPI_Aint` to read and write, `MPI_Count` in the twin.
    InOutByteDispl, i64, "MPI_Aint *@" / "MPI_Count *@";
    /// `MPI_Count` to write.
    OutBigCount, i64, "MPI_Count *@";
    /// `MPI_Offset` to write.
    OutOffset, i64, "MPI_Offset *@";
    /// Status to change.
    InOutStatus, CStatus, "MPI_Status *@";
}

/// A place for a count, `int` or `MPI_Count`.
#[derive(Clone, Copy)]
pub enum OutNumber {
    /// `int`.
    Narrow(Out<c_int>),
    /// `MPI_Count` or `MPI_Aint`.
    Wide(Out<i64>),
}

impl OutNumber {
    /// Writes `value`, or `MPI_UNDEFINED` if it doesn't fit.
    #[inline]
    pub fn set(self, value: i64) {
        match self {
            OutNumber::Narrow(out) => out.set(c_int::try_from(value).unwrap_or(Chosen::UNDEFINED)),
            OutNumber::Wide(out) => out.set(value),
        }
    }

    /// Writes `value`, or fails if it doesn't fit.
    #[inline]
    pub fn try_set(self, value: i64) -> Result {
        if let OutNumber::Narrow(_) = self {
            ensure!(c_int::try_from(value).is_ok(), ERR_VALUE_TOO_LARGE, "value doesn't fit in an int");
        }
        self.set(value);
        Ok(())
    }

    /// What is there.
    #[inline]
    pub fn value(self) -> i64 {
        match self {
            OutNumber::Narrow(out) => i64::from(out.value()),
            OutNumber::Wide(out) => out.value(),
        }
    }
}

/// Kinds that are the address of an `int`, wide in the twin.
macro_rules! out_numbers {
    ($($(#[doc = $doc:literal])+ $kind:ident, $small:literal / $large:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $kind;
            impl<W: Width> Kind<W> for $kind {
                type C = *mut W::Int;
                type R = OutNumber;
                const TEXT: &'static str = if W::LARGE { $large } else { $small };
                #[inline(always)]
                unsafe fn take(_cs: &Section, p: *mut W::Int, _: &Scope) -> Result<OutNumber> {
                    Ok(if W::LARGE { OutNumber::Wide(Out::new(p.cast())?) } else { OutNumber::Narrow(Out::new(p.cast())?) })
                }
            }
        )*
    };
}

out_numbers! {
    /// A count to write.
    OutCount, "int *@" / "MPI_Count *@";
    /// A count to read and write: position in a buffer.
    InOutCount, "int *@" / "MPI_Count *@";
    /// Unit of displacements to write.
    OutDispUnit, "int *@" / "MPI_Aint *@";
}

/// Room for a string of a length that the standard fixes.
#[derive(Clone, Copy)]
pub struct TextBuffer(*mut c_char);

impl TextBuffer {
    /// Writes at most `room - 1` bytes of `text` and the terminating null; returns how many bytes.
    ///
    /// # Safety
    /// There is room for `room` bytes.
    pub unsafe fn write(self, text: &[u8], room: usize) -> usize {
        if room == 0 || self.0.is_null() {
            return 0;
        }
        let len = text.len().min(room - 1);
        // SAFETY: `len + 1 <= room`.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), len);
            *self.0.add(len) = 0;
        }
        len
    }
}

/// Room for a string.
pub struct OutText;
impl<W: Width> Kind<W> for OutText {
    type C = *mut c_char;
    type R = TextBuffer;
    const TEXT: &'static str = "char *@";
    #[inline(always)]
    unsafe fn take(_cs: &Section, p: *mut c_char, _: &Scope) -> Result<TextBuffer> {
        Ok(TextBuffer(p))
    }
}

/// The place of statuses; null for `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
#[inline(always)]
pub fn unless_ignored(p: *mut CStatus) -> *mut CStatus {
    if STATUS_IGNORE != 0 && p.addr() == STATUS_IGNORE { core::ptr::null_mut() } else { p }
}

/// Room for a status, or `MPI_STATUS_IGNORE`.
#[derive(Clone, Copy)]
pub struct StatusPlace(*mut CStatus);

impl StatusPlace {
    /// Writes all fields but `MPI_ERROR`, which only calls that complete several operations set (MPI-5.0, 3.2.5).
    #[inline(always)]
    pub fn set(mut self, status: &Status) {
        Place::set(&mut self, status);
    }
}

impl Place for StatusPlace {
    #[inline(always)]
    fn set(&mut self, status: &Status) {
        // SAFETY: null, or the program passed a status for this call alone.
        if let Some(place) = unsafe { self.0.as_mut() } {
            place.set(status);
        }
    }

    #[inline(always)]
    fn set_error(&mut self, error: Class) {
        // SAFETY: as in `set`.
        if let Some(place) = unsafe { self.0.as_mut() } {
            place.set_error(error);
        }
    }
}

/// Status to write, or `MPI_STATUS_IGNORE`.
pub struct OutStatus;
impl<W: Width> Kind<W> for OutStatus {
    type C = *mut CStatus;
    type R = StatusPlace;
    const TEXT: &'static str = "MPI_Status *@";
    #[inline(always)]
    unsafe fn take(_cs: &Section, p: *mut CStatus, _: &Scope) -> Result<StatusPlace> {
        Ok(StatusPlace(unless_ignored(p)))
    }
}

/// Array of statuses to write, or `MPI_STATUSES_IGNORE`.
pub struct OutStatusArray;
impl<W: Width> Kind<W> for OutStatusArray {
    type C = *mut CStatus;
    type R = *mut CStatus;
    const TEXT: &'static str = "MPI_Status *@";
    #[inline(always)]
    unsafe fn take(_cs: &Section, p: *mut CStatus, _: &Scope) -> Result<*mut CStatus> {
        Ok(unless_ignored(p))
    }
}

/// A status to read.
pub struct InStatus;
impl<W: Width> Kind<W> for InStatus {
    type C = *const CStatus;
    type R = CStatus;
    const TEXT: &'static str = "const MPI_Status *@";
    #[inline(always)]
    unsafe fn take(_cs: &Section, p: *const CStatus, _: &Scope) -> Result<CStatus> {
        ensure!(!p.is_null() && p.addr() != STATUS_IGNORE, ERR_ARG, "MPI_STATUS_IGNORE where a status is read");
        // SAFETY: not null, so the program passed a status.
        Ok(unsafe { *p })
    }
}
