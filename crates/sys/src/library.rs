//! Shared libraries that are loaded when they are needed (`dlopen`), so that nothing is linked with them.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// A loaded library. It is never unloaded: such libraries have threads, signal handlers and exit handlers of their own.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: NonNull<c_void>,
}

/// The last error of the dynamic linker.
fn linker_error() -> String {
    // SAFETY: dlerror gives null or a text that is valid until the next call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

impl Library {
    /// Loads the library `file`: a path, or a name that the dynamic linker looks for. Its symbols are visible only through this value.
    pub fn open(file: &str) -> Result<Library, String> {
        let file = CString::new(file).map_err(|e| e.to_string())?;
        // SAFETY: the name is terminated. Loading runs the library's constructors; the user or the system has named it.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(|handle| Library { handle }).ok_or_else(linker_error)
    }

    /// The function of this name.
    ///
    /// # Safety
    /// `F` is the type of that function, a function pointer.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer") };
        // SAFETY: the handle is open for ever.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            return Err(format!("it lacks {}", name.to_string_lossy()));
        }
        // SAFETY: the address is that of the function, whose type the caller knows; both have the same size.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        let library = Library::open("libc.so.6").unwrap();
        // SAFETY: the types are those of the C library.
        let (abs, none) = unsafe {
            (
                library.function::<unsafe extern "C" fn(i32) -> i32>(c"abs").unwrap(),
                library.function::<unsafe extern "C" fn()>(c"no_such_function"),
            )
        };
        // SAFETY: any number but the smallest is fine.
        assert_eq!(unsafe { abs(-3) }, 3);
        assert_eq!(none.unwrap_err(), "it lacks no_such_function");
    }

    #[test]
    fn a_missing_library_is_named() {
        assert!(Library::open("libno-such-library.so.7").unwrap_err().contains("libno-such-library"));
        assert!(Library::open("a\0b").is_err());
    }
}
