//! The loaded library, contexts, and memory that they make known to devices.

use crate::raw::{self, Functions, MemMapParams, Params, RawStatus};
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;
use sys::library::Library;

/// An error of UCX (`ucs_status_t`), with its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The number, negative.
    pub code: i8,
    text: &'static str,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// Version of a library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Versions of different numbers are not compatible.
    pub major: u32,
    /// Feature release.
    pub minor: u32,
    /// Correction release.
    pub release: u32,
}

impl Version {
    /// Whether this crate knows the version: 1.13 to 1.22.
    pub fn is_supported(self) -> bool {
        self.major == 1 && (13..=22).contains(&self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

/// The loaded library.
#[derive(Clone, Copy)]
pub struct Ucx {
    pub(crate) functions: &'static Functions,
    version: Version,
}

impl fmt::Debug for Ucx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "libucp {}", self.version)
    }
}

impl Ucx {
    /// Loads the library `file`, a path or a name that the dynamic linker knows; refuses versions that this crate doesn't know.
    pub fn load(file: &str) -> Result<Ucx, String> {
        let library = Library::open(file)?;
        let functions: &'static Functions = Box::leak(Box::new(Functions::of(&library)?));
        let (mut major, mut minor, mut release): (c_uint, c_uint, c_uint) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (functions.version)(&raw mut major, &raw mut minor, &raw mut release) };
        let version = Version { major, minor, release };
        match version.is_supported() {
            true => Ok(Ucx { functions, version }),
            false => Err(format!("{file} is UCX {version}; supported are 1.13 to 1.22")),
        }
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The error behind a status.
    pub(crate) fn status(&self, code: RawStatus) -> Status {
        status_of(self.functions, code)
    }

    pub(crate) fn check(&self, code: RawStatus) -> Result<(), Status> {
        if code == raw::OK { Ok(()) } else { Err(self.status(code)) }
    }
}

pub(crate) fn status_of(functions: &'static Functions, code: RawStatus) -> Status {
    // SAFETY: any number is fine; the text is a constant of the library, which is never unloaded, or null.
    let text = unsafe {
        let text = (functions.status_string)(c_int::from(code));
        if text.is_null() { c"unknown status" } else { CStr::from_ptr(text) }
    };
    Status { code, text: text.to_str().unwrap_or("unknown status") }
}

/// Devices and transports of this process under one set of settings.
#[derive(Debug)]
pub struct Context {
    pub(crate) ucx: Ucx,
    pub(crate) raw: NonNull<c_void>,
}

impl Context {
    /// Opens what `settings` allow, pairs of a name of UCX's configuration without `UCX_` and a value. They come before the environment's.
    pub fn open(ucx: Ucx, settings: &[(&str, String)]) -> Result<Rc<Context>, String> {
        let functions = ucx.functions;
        let mut config = null_mut();
        // SAFETY: null stands for the standard prefix and file.
        ucx.check(unsafe { (functions.config_read)(null(), null(), &raw mut config) }).map_err(|e| e.to_string())?;
        let opened = settings.iter().try_for_each(|(name, value)| set(&ucx, config, name, value)).and_then(|()| {
            let params = Params { field_mask: raw::PARAM_FEATURES, features: raw::FEATURES, ..Params::default() };
            let mut context = null_mut();
            // SAFETY: the structure is that of interface 1.13, which later versions accept; it is only read.
            let code = unsafe { (functions.init)(1, 13, &raw const params, config, &raw mut context) };
            ucx.check(code).map_err(|e| e.to_string())?;
            NonNull::new(context).ok_or_else(|| "ucp_init gave no context".to_string())
        });
        // SAFETY: read above and not used any more.
        unsafe { (functions.config_release)(config) };
        Ok(Rc::new(Context { ucx, raw: opened? }))
    }

    /// Makes memory known to the devices, so that peers may read and write it.
    ///
    /// # Safety
    /// The memory stays readable and writable until the mapping is dropped, and the program expects peers to change it.
    pub unsafe fn map(self: &Rc<Context>, at: *mut u8, len: usize) -> Result<Mapping, Status> {
        let params = MemMapParams {
            field_mask: raw::MEM_MAP_PARAMS,
            address: at.expose_provenance(),
            length: len,
            ..Default::default()
        };
        let mut memory = null_mut();
        // SAFETY: the context lives; the memory is promised by the caller.
        let code = unsafe { (self.ucx.functions.mem_map)(self.raw.as_ptr(), &raw const params, &raw mut memory) };
        self.ucx.check(code)?;
        Ok(Mapping { context: Rc::clone(self), raw: memory })
    }
}

fn set(ucx: &Ucx, config: *mut c_void, name: &str, value: &str) -> Result<(), String> {
    let (key, text) = (CString::new(name), CString::new(value));
    let (Ok(key), Ok(text)) = (key, text) else { return Err(format!("UCX_{name} has a byte 0")) };
    // SAFETY: the configuration is open; the texts are copied.
    let code = unsafe { (ucx.functions.config_modify)(config, key.as_ptr(), text.as_ptr()) };
    ucx.check(code).map_err(|e| format!("UCX_{name}={value}: {e}"))
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: workers and mappings hold the context, so none of them is left.
        unsafe { (self.ucx.functions.cleanup)(self.raw.as_ptr()) };
    }
}

/// Memory that the devices of a context know.
#[derive(Debug)]
pub struct Mapping {
    context: Rc<Context>,
    raw: *mut c_void,
}

impl Mapping {
    /// What a peer needs to reach the memory ([`crate::Worker::unpack`]).
    pub fn packed_key(&self) -> Result<Vec<u8>, Status> {
        let functions = self.context.ucx.functions;
        let (mut bytes, mut len) = (null_mut(), 0);
        // SAFETY: context and mapping live. The buffer has `len` bytes and is released once.
        unsafe {
            let code = (functions.key_pack)(self.context.raw.as_ptr(), self.raw, &raw mut bytes, &raw mut len);
            self.context.ucx.check(code)?;
            let key = std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec();
            (functions.key_release)(bytes);
            Ok(key)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this context, and unmapped once.
        unsafe { (self.context.ucx.functions.mem_unmap)(self.context.raw.as_ptr(), self.raw) };
    }
}
