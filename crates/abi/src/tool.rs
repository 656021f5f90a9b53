//! How the tool interface lies in the program's memory (MPI-5.0, 15.3): constants, texts, values, functions for events.

use crate::chosen::{Chosen, TOOL};
use crate::convert::{Abi, number};
use crate::ctypes::{CComm, CInfo, CType};
use crate::lookup;
use base::{Error, Result, ensure};
use core::ffi::{CStr, c_char, c_int, c_void};
use mpi::comm::Comm;
use mpi::cs::Section;
use mpi::datatype::Name;
use mpi::tool::cvar::{Cvar, Value};
use mpi::tool::event::{self, Callback, Dropped, Element, Instance, Source};
use mpi::tool::{Bind, Type};
use std::rc::Rc;

/// The constants of an ABI that the tool interface needs.
pub struct Numbers {
    /// `MPI_T_VERBOSITY_USER_DETAIL`.
    pub user_detail: c_int,
    /// `MPI_T_VERBOSITY_TUNER_DETAIL`.
    pub tuner_detail: c_int,
    /// `MPI_T_BIND_NO_OBJECT`.
    pub no_object: c_int,
    /// `MPI_T_BIND_MPI_COMM`.
    pub comm: c_int,
    /// `MPI_T_SCOPE_ALL_EQ`.
    pub all_equal: c_int,
    /// `MPI_T_PVAR_CLASS_LEVEL`.
    pub level: c_int,
    /// `MPI_T_PVAR_CLASS_COUNTER`.
    pub counter: c_int,
    /// `MPI_T_SOURCE_ORDERED`.
    pub ordered: c_int,
    /// `MPI_T_CB_REQUIRE_NONE` …, from the lowest.
    pub safety: [c_int; event::LEVELS],
}

const BYTES_OF_INT: usize = size_of::<c_int>();

/// Writes a result where the program wants one.
///
/// # Safety
/// `place` is null or has room.
pub unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: by the caller.
        unsafe { place.write(value) }
    }
}

/// A result that the program has to want.
pub fn wanted<T>(place: *mut T) -> Result<*mut T> {
    ensure!(!place.is_null(), T_ERR_INVALID, "null pointer for a result");
    Ok(place)
}

/// Writes a text and its length as the standard says (15.3.3): without room, only the length that it needs.
///
/// # Safety
/// `len` is null or valid; `place` is null or has room for `*len` bytes.
pub unsafe fn put_text(place: *mut c_char, len: *mut c_int, text: &str) {
    if len.is_null() {
        return;
    }
    // SAFETY: by the caller.
    let room = usize::try_from(unsafe { *len }).unwrap_or(0);
    let copied = if place.is_null() || room == 0 {
        text.len()
    } else {
        let copied = text.len().min(room - 1);
        // SAFETY: `copied + 1 <= room`.
        unsafe {
            place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied);
            place.add(copied).write(0);
        }
        copied
    };
    // SAFETY: by the caller.
    unsafe { len.write(copied as c_int + 1) }
}

/// Writes indices: at most `len` of them.
///
/// # Safety
/// `place` has room for `len`.
pub unsafe fn put_indices(place: *mut c_int, len: c_int, indices: &[i32]) -> Result {
    ensure!(len == 0 || !place.is_null(), T_ERR_INVALID, "null pointer for indices");
    let count = usize::try_from(len).unwrap_or(0).min(indices.len());
    // SAFETY: by the caller.
    unsafe { place.copy_from_nonoverlapping(indices.as_ptr(), if place.is_null() { 0 } else { count }) };
    Ok(())
}

/// The bytes of a name.
///
/// # Safety
/// Null or a C string.
pub unsafe fn name<'a>(text: *const c_char) -> Result<&'a [u8]> {
    ensure!(!text.is_null(), T_ERR_INVALID, "null pointer for a name");
    // SAFETY: by the caller.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The datatype of a variable.
pub fn c_type(of: Type) -> CType {
    let name = match of {
        Type::Int => Name::MPI_INT,
        Type::Unsigned => Name::MPI_UNSIGNED_LONG_LONG,
        Type::Double => Name::MPI_DOUBLE,
        Type::Text => Name::MPI_CHAR,
    };
    CType(number(Chosen::TYPES, name).expect("every ABI has it"))
}

/// `MPI_T_BIND_…`.
pub fn c_bind(bind: Bind) -> c_int {
    match bind {
        Bind::Nothing => TOOL.no_object,
        Bind::Comm => TOOL.comm,
    }
}

/// Whether a class of performance variables is that of counters.
pub fn is_counter(class: c_int) -> Result<bool> {
    let known = class == TOOL.counter || class == TOOL.level;
    ensure!(known, T_ERR_INVALID_NAME, "no performance variable has this class");
    Ok(class == TOOL.counter)
}

/// The communicator at the address that the program binds to.
///
/// # Safety
/// `object` is null or the address of a handle of the right kind.
pub unsafe fn object(cs: &Section, bind: Bind, object: *const c_void) -> Result<Option<Rc<Comm>>> {
    if bind == Bind::Nothing {
        return Ok(None);
    }
    ensure!(!object.is_null(), T_ERR_INVALID_HANDLE, "a communicator is needed");
    ensure!(mpi::life::is_running(), T_ERR_INVALID_HANDLE, "there is no communicator while MPI does not run");
    // SAFETY: by the caller.
    let handle = unsafe { *object.cast::<CComm>() };
    let invalid = Error::new(base::Class::T_ERR_INVALID_HANDLE, "not a live communicator");
    lookup::comm(cs, handle).map(|comm| Some(Rc::clone(&comm))).map_err(|_| invalid)
}

/// Writes a variable's value.
///
/// # Safety
/// `buf` has room for what `MPI_T_cvar_handle_alloc` has told.
pub unsafe fn put_value(buf: *mut c_void, cvar: &Cvar) -> Result {
    ensure!(!buf.is_null(), T_ERR_INVALID, "null pointer for a value");
    // SAFETY: by the caller.
    unsafe {
        match cvar.read() {
            Value::Int(value) => buf.cast::<c_int>().write_unaligned(value),
            Value::Unsigned(value) => buf.cast::<u64>().write_unaligned(value),
            Value::Double(value) => buf.cast::<f64>().write_unaligned(value),
            Value::Text(text) => put_chars(buf.cast(), &text, cvar.count()),
        }
    }
    Ok(())
}

/// # Safety
/// There is room for `room` bytes, at least one.
unsafe fn put_chars(buf: *mut u8, text: &str, room: usize) {
    let count = text.len().min(room - 1);
    // SAFETY: by the caller.
    unsafe {
        buf.copy_from_nonoverlapping(text.as_ptr(), count);
        buf.add(count).write(0);
    }
}

/// The value that the program wants to write.
///
/// # Safety
/// `buf` is null or has as many elements as `MPI_T_cvar_handle_alloc` has told, or a C string.
pub unsafe fn value(buf: *const c_void, cvar: &Cvar) -> Result<Value> {
    ensure!(!buf.is_null(), T_ERR_INVALID, "null pointer for a value");
    // SAFETY: by the caller.
    Ok(unsafe {
        match cvar.of_type() {
            Type::Int => Value::Int(buf.cast::<c_int>().read_unaligned()),
            Type::Unsigned => Value::Unsigned(buf.cast::<u64>().read_unaligned()),
            Type::Double => Value::Double(buf.cast::<f64>().read_unaligned()),
            Type::Text => {
                let text = CStr::from_ptr(buf.cast()).to_bytes();
                ensure!(text.len() < cvar.count(), T_ERR_INVALID, "the text is too long");
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
        }
    })
}

/// Writes an element of an event.
///
/// # Safety
/// `buf` has room for it.
pub unsafe fn put_element(buf: *mut c_void, element: Element) {
    // SAFETY: by the caller.
    unsafe {
        match element {
            Element::Int(value) => buf.cast::<c_int>().write_unaligned(value),
            Element::Unsigned(value) => buf.cast::<u64>().write_unaligned(value),
            Element::Text(text) => put_chars(buf.cast(), text, event::TEXT_BYTES),
        }
    }
}

/// Writes the elements of an event where its type says that they lie.
///
/// # Safety
/// `buf` has room for all.
pub unsafe fn put_event(buf: *mut c_void, event: &Instance) -> Result {
    ensure!(!buf.is_null(), T_ERR_INVALID, "null pointer for an event");
    for (element, (_, at)) in event.elements.iter().zip(event.event.elements()) {
        // SAFETY: by the caller.
        unsafe { put_element(buf.byte_add(*at), *element) };
    }
    Ok(())
}

/// The place of a level among the levels.
pub fn level(safety: c_int) -> Result<usize> {
    let found = TOOL.safety.iter().position(|level| *level == safety);
    found.ok_or(Error::new(base::Class::T_ERR_INVALID, "no such level of safety"))
}

/// The program's function for events.
///
/// # Safety
/// `function` is null or an `MPI_T_event_cb_function`, which may be called with `data` while it is registered.
pub unsafe fn callback(function: *const c_void, data: *mut c_void) -> Option<Callback> {
    type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_void);
    // SAFETY: by the caller.
    let function = unsafe { core::mem::transmute::<*const c_void, Option<Function>>(function) }?;
    Some(Rc::new(move |_cs: &mut Section, instance, registration, level: usize| {
        let pointer = core::ptr::without_provenance_mut::<c_void>;
        // SAFETY: by the caller of `callback`; the section is lent exclusively, so the program may call MPI.
        unsafe { function(pointer(instance), pointer(registration), TOOL.safety[level], data) }
    }))
}

/// The program's function for dropped events; it gets the data of the first function that is registered.
///
/// # Safety
/// As [`callback`] for an `MPI_T_event_dropped_cb_function`.
pub unsafe fn dropped(function: *const c_void, data: *mut c_void) -> Option<Dropped> {
    type Function = unsafe extern "C" fn(i64, *mut c_void, c_int, c_int, *mut c_void);
    // SAFETY: by the caller.
    let function = unsafe { core::mem::transmute::<*const c_void, Option<Function>>(function) }?;
    Some(Rc::new(move |_cs: &mut Section, count: u64, registration, source: Source, level: usize| {
        let registration = core::ptr::without_provenance_mut::<c_void>(registration);
        // SAFETY: as in `callback`.
        unsafe { function(count as i64, registration, source.index(), TOOL.safety[level], data) }
    }))
}

/// Tells the program that a registration is gone.
///
/// # Safety
/// `function` is null or an `MPI_T_event_free_cb_function` that may be called with `data`.
pub unsafe fn tell_freed(_cs: &mut Section, function: *const c_void, registration: *mut c_void, data: *mut c_void) {
    type Function = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void);
    // SAFETY: by the caller; the section is lent exclusively.
    unsafe {
        if let Some(function) = core::mem::transmute::<*const c_void, Option<Function>>(function) {
            function(registration, TOOL.safety[0], data);
        }
    }
}

/// A new info object without keys, where the program wants one.
///
/// # Safety
/// `place` is null or has room.
pub unsafe fn put_info(cs: &Section, place: *mut CInfo) -> Result {
    if !place.is_null() {
        mpi::info::ensure_room(cs)?;
        let info = CInfo::of(mpi::info::enter(cs, mpi::info::Info::new()));
        // SAFETY: by the caller.
        unsafe { place.write(info) }
    }
    Ok(())
}

const _: () = assert!(BYTES_OF_INT == 4, "the places of an event's elements");
