//! The few functions of the system's PMIx library that a rank needs, loaded when a launcher speaks PMIx (PMIx 4 and 5 standard, C interface).
//!
//! The library is foreign code with a thread of its own: it is loaded only when the environment names a PMIx server.

use crate::library::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{size_of, zeroed};

const NAME_MAX: usize = 256;
/// Stands for the job as a whole.
const WILDCARD: u32 = u32::MAX - 1;
const SCOPE_GLOBAL: u8 = 3;
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    namespace: [c_char; NAME_MAX],
    rank: u32,
}

/// `pmix_value_t`: a type and a union whose largest member has three words.
#[repr(C)]
struct RawValue {
    kind: u16,
    data: [u64; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct RawInfo {
    key: [c_char; 512],
    flags: u32,
    value: RawValue,
}

const _: () = assert!(size_of::<RawValue>() == 32 && size_of::<Proc>() == 260 && size_of::<RawInfo>() == 552);

type Infos = *const c_void;

struct Functions {
    init: unsafe extern "C" fn(*mut Proc, Infos, usize) -> c_int,
    finalize: unsafe extern "C" fn(Infos, usize) -> c_int,
    abort: unsafe extern "C" fn(c_int, *const c_char, *const Proc, usize) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut RawValue) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence: unsafe extern "C" fn(*const Proc, usize, Infos, usize) -> c_int,
    get: unsafe extern "C" fn(*const Proc, *const c_char, Infos, usize, *mut *mut RawValue) -> c_int,
}

/// What PMIx has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Any kind of unsigned number.
    Number(u64),
}

/// A connection to the PMIx server.
pub struct Pmix {
    functions: Functions,
    me: Proc,
}

fn load(file: &str) -> Result<Functions, String> {
    let library = Library::open(file)?;
    // SAFETY: the types are those of the PMIx standard's header.
    unsafe {
        Ok(Functions {
            init: library.function(c"PMIx_Init")?,
            finalize: library.function(c"PMIx_Finalize")?,
            abort: library.function(c"PMIx_Abort")?,
            put: library.function(c"PMIx_Put")?,
            commit: library.function(c"PMIx_Commit")?,
            fence: library.function(c"PMIx_Fence")?,
            get: library.function(c"PMIx_Get")?,
        })
    }
}

fn check(status: c_int, what: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what} failed with status {status}")) }
}

impl Pmix {
    /// Loads the library `file` and connects to the server that the environment names.
    pub fn open(file: &str) -> Result<Pmix, String> {
        let functions = load(file)?;
        // SAFETY: zero bytes are a valid Proc, which the library fills.
        let me = unsafe {
            let mut me: Proc = zeroed();
            check((functions.init)(&raw mut me, std::ptr::null(), 0), "PMIx_Init")?;
            me
        };
        Ok(Pmix { functions, me })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// Stores a text for everybody.
    pub fn put(&self, key: &str, value: &str) -> Result<(), String> {
        let (key, mut text) = (key_of(key)?, CString::new(value).map_err(|e| e.to_string())?.into_bytes_with_nul());
        let mut raw = RawValue { kind: TYPE_STRING, data: [text.as_mut_ptr() as u64, 0, 0] };
        // SAFETY: the library copies key and value before it returns.
        check(unsafe { (self.functions.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut raw) }, "PMIx_Put")
    }

    /// Waits until all processes of the job are here; what they have stored can be read then.
    pub fn fence(&self) -> Result<(), String> {
        // Else some servers know at the second fence what was stored before the first only.
        let value = RawValue { kind: TYPE_BOOL, data: [1, 0, 0] };
        let collect = RawInfo { key: key_of("pmix.collect")?, flags: 0, value };
        // SAFETY: no process list means all of the job; the one info outlives the call.
        unsafe {
            check((self.functions.commit)(), "PMIx_Commit")?;
            check((self.functions.fence)(std::ptr::null(), 0, (&raw const collect).cast(), 1), "PMIx_Fence")
        }
    }

    /// What is stored under `name` by or about `rank`, or about the whole job.
    pub fn get(&self, rank: Option<u32>, name: &str) -> Result<Value, String> {
        let (key, whom) = (key_of(name)?, Proc { rank: rank.unwrap_or(WILDCARD), ..self.me });
        let mut raw: *mut RawValue = std::ptr::null_mut();
        // SAFETY: on success the library gives a value on the C heap that is ours; a string in it is another such block.
        unsafe {
            let status = (self.functions.get)(&raw const whom, key.as_ptr(), std::ptr::null(), 0, &raw mut raw);
            check(
                status,
                &format!("PMIx_Get of {name} of {}", rank.map_or("the job".into(), |r| format!("rank {r}"))),
            )?;
            if raw.is_null() {
                return Err("PMIx_Get gave nothing".into());
            }
            let value = take(&*raw);
            libc::free(raw.cast());
            value.ok_or_else(|| "PMIx_Get gave a value of an unexpected type".into())
        }
    }

    /// Ends the job.
    pub fn abort(&self, code: i32, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: no process list means all of the job.
        unsafe { (self.functions.abort)(code, text.as_ptr(), std::ptr::null(), 0) };
    }

    /// Leaves the server.
    pub fn finalize(self) -> Result<(), String> {
        // SAFETY: `self` is consumed, so that nothing is called afterwards.
        check(unsafe { (self.functions.finalize)(std::ptr::null(), 0) }, "PMIx_Finalize")
    }
}

/// A key with room behind it: some versions copy as many bytes as a key may have.
fn key_of(key: &str) -> Result<[c_char; 512], String> {
    let mut padded = [0; 512];
    if key.len() >= padded.len() {
        return Err("the key is too long".into());
    }
    padded.iter_mut().zip(key.bytes()).for_each(|(to, from)| *to = from as c_char);
    Ok(padded)
}

/// Reads a value and frees what it owns.
///
/// # Safety
/// A string in `raw` must be a block of the C heap that nobody else frees.
unsafe fn take(raw: &RawValue) -> Option<Value> {
    let word = raw.data[0];
    Some(match raw.kind {
        TYPE_STRING => {
            let text = word as *mut c_char;
            if text.is_null() {
                return None;
            }
            // SAFETY: a terminated string, by the caller's promise.
            unsafe {
                let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
                libc::free(text.cast());
                Value::Text(owned)
            }
        }
        // byte, bool, u8, i8
        1 | 2 | 7 | 12 => Value::Number(word & 0xff),
        // u16, i16
        8 | 13 => Value::Number(word & 0xffff),
        // int, i32, unsigned, u32, pid, status, rank
        5 | 6 | 9 | 11 | 14 | 20 | 40 => Value::Number(word & 0xffff_ffff),
        // size, i64, u64
        4 | 10 | 15 => Value::Number(word),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_one_is_named() {
        assert!(Pmix::open("libno-such-pmix.so.2").err().unwrap().contains("libno-such-pmix"));
        assert!(Pmix::open("libc.so.6").err().unwrap().contains("PMIx_Init"));
    }
}
