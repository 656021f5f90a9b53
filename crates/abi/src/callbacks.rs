//! The program's functions behind what the core calls: reductions, error handlers and data representations. They get handles and codes of the ABI.

use crate::chosen::{Chosen, SUCCESS};
use crate::convert::Abi;
use crate::ctypes::{CComm, CFile, CSession, CType, CWin};
use crate::kinds::Function;
use crate::lookup::lend_datatype;
use base::{Class, Result, ensure, log};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use mpi::cs::Section;
use mpi::datatype::Datatype;
use mpi::errhandler::{self, Target};
use mpi::handle::Handle;
use mpi::io;
use mpi::op::{self, Op};
use std::rc::Rc;

/// `MPI_{Comm,Win,File,Session}_errhandler_function`: object, error code, nothing more.
type ErrorFunction = unsafe extern "C" fn(*mut c_void, *mut c_int, ...);

/// `MPI_*_create_errhandler`.
///
/// # Safety
/// `function` is null or of the type that belongs to the target.
pub unsafe fn create_errhandler(cs: &Section, target: Target, function: Function) -> Result<Handle> {
    ensure!(!function.is_null(), ERR_ARG, "the error handler function is null");
    // SAFETY: not null; by the caller.
    let function = unsafe { transmute::<Function, ErrorFunction>(function) };
    let call = match target {
        Target::Comm => |f, handle, code| call_errhandler(f, CComm::of(handle), code),
        Target::Session => |f, handle, code| call_errhandler(f, CSession::of(handle), code),
        Target::Window => |f, handle, code| call_errhandler(f, CWin::of(handle), code),
        Target::File => |f, handle, code| call_errhandler(f, CFile::of(handle), code),
    };
    Ok(errhandler::create(
        cs,
        target,
        Box::new(move |_, handle, class| Chosen::class(call(function, handle, Chosen::code(class)))),
    ))
}

/// Returns the code that the function leaves.
fn call_errhandler<H>(function: ErrorFunction, mut object: H, mut code: c_int) -> c_int {
    // SAFETY: a function of this type by the contract of `create_errhandler`; the callers are there.
    unsafe { function((&raw mut object).cast(), &mut code) };
    code
}

/// `MPI_User_function`: input, input and output, length, datatype handle.
type UserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut CType);
/// `MPI_User_function_c`.
type LargeUserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut CType);

/// Counts in `int`.
struct Small(UserFunction);
/// Counts in `MPI_Count`.
struct Large(LargeUserFunction);

impl op::Function for Small {
    /// At most `INT_MAX` items at a time.
    unsafe fn combine(
        &self,
        cs: &mut Section,
        input: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) {
        lend_datatype(cs, datatype, |_, c| {
            let mut done = 0;
            loop {
                let step = (count - done).min(c_int::MAX as usize);
                let offset = (done as isize).wrapping_mul(datatype.extent());
                let (a, b) = (input.wrapping_offset(offset), inout.wrapping_offset(offset));
                let (mut len, mut handle) = (step as c_int, c);
                // SAFETY: items `done .. done + step` of both buffers; the function gets what MPI-5.0, 6.9.5 promises it.
                unsafe { (self.0)(a.cast_mut().cast(), b.cast(), &mut len, &mut handle) };
                done += step;
                if done >= count {
                    break;
                }
            }
        });
    }
}

impl op::Function for Large {
    unsafe fn combine(
        &self,
        cs: &mut Section,
        input: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Rc<Datatype>,
    ) {
        lend_datatype(cs, datatype, |_, c| {
            let (mut len, mut handle) = (count as i64, c);
            // SAFETY: the function gets what MPI-5.0, 6.9.5 promises it.
            unsafe { (self.0)(input.cast_mut().cast(), inout.cast(), &mut len, &mut handle) };
        });
    }
}

/// `MPI_Op_create`, `MPI_Op_create_c`.
///
/// # Safety
/// `function` is of the type that belongs to the width, or null.
pub unsafe fn create_op(function: Function, large: bool, commutative: bool) -> Result<Rc<Op>> {
    ensure!(!function.is_null(), ERR_ARG, "the reduction function is null");
    // SAFETY: not null; by the caller.
    let function: Box<dyn op::Function> = unsafe {
        if large {
            Box::new(Large(transmute::<Function, LargeUserFunction>(function)))
        } else {
            Box::new(Small(transmute::<Function, UserFunction>(function)))
        }
    };
    Ok(Op::user(function, commutative))
}

/// `MPI_Datarep_extent_function`.
type ExtentFunction = unsafe extern "C" fn(CType, *mut i64, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function`.
type ConversionFunction = unsafe extern "C" fn(*mut c_void, CType, c_int, *mut c_void, i64, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function_c`.
type LargeConversionFunction = unsafe extern "C" fn(*mut c_void, CType, i64, *mut c_void, i64, *mut c_void) -> c_int;

/// A function that converts; `None` is `MPI_CONVERSION_FN_NULL`.
#[derive(Clone, Copy)]
enum Conversion {
    Small(Option<ConversionFunction>),
    Large(Option<LargeConversionFunction>),
}

impl Conversion {
    /// # Safety
    /// `function` is of the type that belongs to the width, or null.
    unsafe fn new(function: Function, large: bool) -> Conversion {
        // SAFETY: null is `None`; by the caller.
        unsafe {
            match large {
                true => Conversion::Large(transmute::<Function, Option<LargeConversionFunction>>(function)),
                false => Conversion::Small(transmute::<Function, Option<ConversionFunction>>(function)),
            }
        }
    }

    /// Converts all elements in one call (MPI-5.0, 14.5.3). False for the null function.
    unsafe fn call(
        self,
        cs: &mut Section,
        items: &io::Items<'_>,
        elements: usize,
        file: *mut u8,
        state: *mut c_void,
    ) -> Result<bool> {
        let count = c_int::try_from(elements);
        let code = lend_datatype(cs, items.datatype, |_, c| {
            let buf = items.buf.cast();
            // SAFETY: the function gets what the standard promises it; the buffers are the caller's.
            unsafe {
                match (self, count) {
                    (Conversion::Small(None), _) | (Conversion::Large(None), _) => None,
                    (Conversion::Small(Some(f)), Ok(count)) => Some(f(buf, c, count, file.cast(), 0, state)),
                    (Conversion::Small(Some(_)), Err(_)) => Some(Chosen::code(Class::ERR_COUNT)),
                    (Conversion::Large(Some(f)), _) => Some(f(buf, c, elements as i64, file.cast(), 0, state)),
                }
            }
        });
        match code {
            None => Ok(false),
            Some(SUCCESS) => Ok(true),
            Some(code) => {
                log!(Info, "a conversion function of the program has returned the error code {code}");
                base::fail!(ERR_CONVERSION, "a conversion function of the program has failed")
            }
        }
    }
}

/// The program's functions for a data representation.
struct Datarep {
    read: Conversion,
    write: Conversion,
    extent: ExtentFunction,
    state: *mut c_void,
}

impl io::Functions for Datarep {
    fn extent(&self, cs: &mut Section, datatype: &Rc<Datatype>) -> Result<usize> {
        let mut extent = 0i64;
        // SAFETY: a function of this type by the contract of `register_datarep`.
        let code = lend_datatype(cs, datatype, |_, c| unsafe { (self.extent)(c, &mut extent, self.state) });
        ensure!(
            code == SUCCESS && extent >= 0,
            ERR_CONVERSION,
            "the extent function of a data representation has failed"
        );
        Ok(extent as usize)
    }

    unsafe fn read(&self, cs: &mut Section, items: &io::Items<'_>, elements: usize, file: *mut u8) -> Result<bool> {
        // SAFETY: handed on from the caller.
        unsafe { self.read.call(cs, items, elements, file, self.state) }
    }

    unsafe fn write(&self, cs: &mut Section, items: &io::Items<'_>, elements: usize, file: *mut u8) -> Result<bool> {
        // SAFETY: handed on from the caller.
        unsafe { self.write.call(cs, items, elements, file, self.state) }
    }
}

/// `MPI_Register_datarep`, `MPI_Register_datarep_c`.
///
/// # Safety
/// The functions are of the types that belong to the width; conversions may be null.
pub unsafe fn register_datarep(
    cs: &Section,
    name: &[u8],
    [read, write, extent]: [Function; 3],
    large: bool,
    state: *mut c_void,
) -> Result {
    ensure!(!extent.is_null(), ERR_ARG, "the extent function of a data representation is null");
    // SAFETY: by the caller; `extent` is not null.
    let functions = unsafe {
        Datarep {
            read: Conversion::new(read, large),
            write: Conversion::new(write, large),
            extent: transmute::<Function, ExtentFunction>(extent),
            state,
        }
    };
    io::register(cs, name, Box::new(functions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi::datatype::{self, Form, Name};
    use std::cell::RefCell;

    thread_local! {
        static CALLS: RefCell<Vec<(usize, c_int)>> = const { RefCell::new(Vec::new()) };
    }

    unsafe extern "C" fn record(input: *mut c_void, _: *mut c_void, len: *mut c_int, handle: *mut CType) {
        // SAFETY: `combine` passes valid places.
        let (len, handle) = unsafe { (*len, *handle) };
        assert!(!crate::chosen::is_predefined(handle.0));
        CALLS.with_borrow_mut(|calls| calls.push((input.addr(), len)));
    }

    #[test]
    fn large_counts_reach_a_function_that_counts_in_int_in_parts() {
        // SAFETY: the first to enter.
        let mut inside = unsafe { mpi::cs::enter() };
        let cs = inside.section();
        let int = datatype::predefined(Name::MPI_INT);
        let none = datatype::contiguous(Form::Int, 0, int).unwrap();
        let empty = datatype::resized(Form::Int, 0, 2, &none).unwrap();
        let count = c_int::MAX as usize + 5;
        let start = core::ptr::without_provenance_mut::<u8>(16);
        // SAFETY: the function looks at no buffer.
        unsafe {
            let op = create_op(record as *const () as Function, false, true).unwrap();
            op.apply(cs, start, start, count, &empty);
        }
        CALLS.with_borrow(|calls| assert_eq!(*calls, [(16, c_int::MAX), (16 + 2 * c_int::MAX as usize, 5)]));
        assert_eq!(datatype::DATATYPES.get(cs).handles(), [], "what was lent is given back");
    }
}
