//! Info objects (MPI-5.0, chapter 10): ordered lists of key and value.
//!
//! Keys and values are bytes without zero; the order is that of the first insertion.

use crate::cs::Section;
use crate::handle::{Handle, Kind, Named, Table};
use crate::inside::Inside;
use crate::{job, life};
use base::{Result, ensure, fail};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// `MPI_MAX_INFO_KEY`, with the terminating zero.
pub const MAX_INFO_KEY: usize = 256;
/// `MPI_MAX_INFO_VAL`, with the terminating zero.
pub const MAX_INFO_VAL: usize = 1024;

/// Kinds of memory that messages may lie in (MPI-5.0, 12.4.3): all that Ferrule supports.
pub const MEMORY_KINDS: &str = "system,mpi";

/// Keys with values.
#[derive(Default)]
pub struct Info {
    handle: Cell<Handle>,
    read_only: bool,
    entries: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Named for Info {
    fn handle_cell(&self) -> &Cell<Handle> {
        &self.handle
    }
}

static INFOS: Inside<Table<Rc<Info>>> = Inside::new(Table::new(Kind::Info));
static ENVIRONMENT: Inside<OnceCell<Rc<Info>>> = Inside::new(OnceCell::new());

/// The object of a live handle, `MPI_INFO_ENV` included.
pub fn from_handle(cs: &Section, handle: Handle) -> Result<Rc<Info>> {
    if handle == Handle::INFO_ENV {
        return Ok(environment(cs));
    }
    match INFOS.get(cs).get(handle) {
        Some(info) => Ok(info),
        None => fail!(ERR_INFO, "no such info object"),
    }
}

/// As [`from_handle`], where `MPI_INFO_NULL` is allowed.
pub fn from_handle_or_null(cs: &Section, handle: Handle) -> Result<Option<Rc<Info>>> {
    if handle == Handle::NONE { Ok(None) } else { from_handle(cs, handle).map(Some) }
}

/// Whether one more has room.
pub fn ensure_room(cs: &Section) -> Result {
    INFOS.get(cs).ensure_room()
}

/// Gives a new object to the program.
pub fn enter(cs: &Section, info: Info) -> Handle {
    INFOS.get(cs).enter(Rc::new(info))
}

/// `MPI_Info_free`.
pub fn free(cs: &Section, handle: Handle) -> Result {
    ensure!(INFOS.get(cs).remove(handle).is_some(), ERR_INFO, "no such info object, or a predefined one");
    Ok(())
}

/// `MPI_INFO_ENV`.
pub fn environment(cs: &Section) -> Rc<Info> {
    let has_begun = life::is_initialized() || life::is_running();
    let make = || {
        let entries = entries_of_process();
        if has_begun {
            put(&entries, "thread_level", life::thread_level(cs).name());
        }
        Rc::new(Info { handle: Cell::new(Handle::INFO_ENV), read_only: true, ..entries })
    };
    // Before MPI has begun it is not the last word.
    if has_begun { Rc::clone(ENVIRONMENT.get(cs).get_or_init(make)) } else { make() }
}

/// `MPI_Info_create_env`: what is known of the way this process was started. The program's arguments could only repeat it.
pub fn create_environment(cs: &Section) -> Info {
    job::look(cs);
    entries_of_process()
}

/// The reserved keys (11.2.3) that are known.
fn entries_of_process() -> Info {
    let info = Info::new();
    let put = |key: &str, value: &str| put(&info, key, value);
    let arguments: Vec<String> = match job::current() {
        Some(job) => job.command.clone(),
        None => std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
    };
    if let Some((command, arguments)) = arguments.split_first() {
        put("command", command);
        put("argv", &arguments.join(" "));
    }
    put("arch", std::env::consts::ARCH);
    if let Some(job) = job::current() {
        put("maxprocs", &job::world_size().to_string());
        put("soft", &job::world_size().to_string());
        put("host", &job.host);
        put("wdir", &job.working_directory);
    }
    put("mpi_memory_alloc_kinds", MEMORY_KINDS);
    info
}

/// Sets a key unless its value is empty.
fn put(info: &Info, key: &str, value: &str) {
    let value = &value.as_bytes()[..value.len().min(MAX_INFO_VAL - 1)];
    if !value.is_empty() {
        info.put(key, value);
    }
}

fn check_key(key: &[u8]) -> Result {
    ensure!(!key.is_empty() && key.len() < MAX_INFO_KEY, ERR_INFO_KEY, "info key is empty or too long");
    Ok(())
}

impl Info {
    /// `MPI_Info_create`.
    pub fn new() -> Info {
        Info::default()
    }

    /// `MPI_Info_dup`.
    pub fn duplicate(&self) -> Info {
        Info { entries: self.entries.clone(), ..Info::default() }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `MPI_Info_set`.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result {
        ensure!(!self.read_only, ERR_INFO, "the info object is read-only");
        check_key(key)?;
        ensure!(value.len() < MAX_INFO_VAL, ERR_INFO_VALUE, "info value is too long");
        self.insert(key, value);
        Ok(())
    }

    /// Sets a key of our own.
    pub fn put(&self, key: &str, value: &[u8]) {
        self.insert(key.as_bytes(), value);
    }

    fn insert(&self, key: &[u8], value: &[u8]) {
        let mut entries = self.entries.borrow_mut();
        match entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => entries.push((key.to_vec(), value.to_vec())),
        }
    }

    /// The value of a key, if it is defined.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        Ok(self.entries.borrow().iter().find(|(k, _)| k == key).map(|(_, value)| value.clone()))
    }

    /// The value of one of the standard's keys as text; `None` also if it isn't UTF-8.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key.as_bytes()).ok().flatten().and_then(|value| String::from_utf8(value).ok())
    }

    /// `MPI_Info_get_nthkey`.
    pub fn nth_key(&self, n: i32) -> Result<Vec<u8>> {
        match usize::try_from(n).ok().and_then(|n| self.entries.borrow().get(n).map(|(key, _)| key.clone())) {
            Some(key) => Ok(key),
            None => fail!(ERR_ARG, "no info key has this number"),
        }
    }

    /// `MPI_Info_delete`.
    pub fn delete(&self, key: &[u8]) -> Result {
        ensure!(!self.read_only, ERR_INFO, "the info object is read-only");
        check_key(key)?;
        let mut entries = self.entries.borrow_mut();
        match entries.iter().position(|(k, _)| k == key) {
            Some(at) => drop(entries.remove(at)),
            None => fail!(ERR_INFO_NOKEY, "info key is not defined"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn order_is_that_of_first_insertion() {
        let info = Info::new();
        info.set(b"a", b"1").unwrap();
        info.set(b"b", b"2").unwrap();
        info.set(b"a", b"3").unwrap();
        assert_eq!(info.len(), 2);
        assert_eq!(info.nth_key(0).unwrap(), b"a");
        assert_eq!(info.get(b"a").unwrap().unwrap(), b"3");
        let copy = info.duplicate();
        info.delete(b"a").unwrap();
        assert_eq!(info.nth_key(0).unwrap(), b"b");
        assert_eq!(copy.len(), 2);
        assert_eq!(info.get(b"a").unwrap(), None);
    }

    #[test]
    fn limits_have_their_own_classes() {
        let info = Info::new();
        let class = |r: Result| r.unwrap_err().class;
        assert_eq!(class(info.set(b"", b"1")), Class::ERR_INFO_KEY);
        assert_eq!(class(info.set(&[b'k'; MAX_INFO_KEY], b"1")), Class::ERR_INFO_KEY);
        assert_eq!(class(info.set(b"k", &[b'v'; MAX_INFO_VAL])), Class::ERR_INFO_VALUE);
        info.set(&[b'k'; MAX_INFO_KEY - 1], &[b'v'; MAX_INFO_VAL - 1]).unwrap();
        assert_eq!(class(info.delete(b"x")), Class::ERR_INFO_NOKEY);
        assert_eq!(info.nth_key(1).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(info.nth_key(-1).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(info.get(b"").unwrap_err().class, Class::ERR_INFO_KEY);
    }
}
