//! Error codes, classes and strings (MPI-5.0, 9.4 and 9.5).
//!
//! The codes that Ferrule itself returns are the error classes. A program may add classes and codes: their numbers come
//! from one counter above [`Class::ERR_LASTCODE`] and are not given out again. A code has the type of a class here.

use crate::inside::Inside;
use base::{Class, Result, ensure, fail};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// `MPI_MAX_ERROR_STRING`, with the terminating zero.
pub const MAX_ERROR_STRING: usize = 512;

struct Added {
    /// The class of this code; a class is its own.
    class: Class,
    text: Vec<u8>,
}

struct Registry {
    added: RefCell<BTreeMap<Class, Added>>,
    next: Cell<Class>,
    last_used: Cell<Class>,
}

static REGISTRY: Inside<Registry> = Inside::new(Registry {
    added: RefCell::new(BTreeMap::new()),
    next: Cell::new(Class(Class::ERR_LASTCODE.0 + 1)),
    last_used: Cell::new(Class::ERR_LASTCODE),
});

/// The attribute `MPI_LASTUSEDCODE`.
pub fn last_used_code() -> Class {
    REGISTRY.last_used.get()
}

fn is_predefined(code: Class) -> bool {
    code.text().is_some()
}

fn add(class: Option<Class>) -> Result<Class> {
    let code = REGISTRY.next.get();
    ensure!(code.0 < i32::MAX, ERR_OTHER, "no error code is left");
    REGISTRY.next.set(Class(code.0 + 1));
    let class = class.unwrap_or(code);
    REGISTRY.added.borrow_mut().insert(code, Added { class, text: Vec::new() });
    update_last_used();
    Ok(code)
}

fn update_last_used() {
    let last = REGISTRY.added.borrow().last_key_value().map_or(Class::ERR_LASTCODE, |(code, _)| *code);
    REGISTRY.last_used.set(last);
}

/// `MPI_Add_error_class`.
pub fn add_class() -> Result<Class> {
    add(None)
}

/// `MPI_Add_error_code`.
pub fn add_code(class: Class) -> Result<Class> {
    let known = is_predefined(class) || REGISTRY.added.borrow().get(&class).is_some_and(|a| a.class == class);
    ensure!(known, ERR_ARG, "not an error class");
    add(Some(class))
}

/// `MPI_Add_error_string`; an empty text removes the string. Predefined codes keep theirs.
pub fn add_string(code: Class, text: &[u8]) -> Result {
    ensure!(text.len() < MAX_ERROR_STRING, ERR_ARG, "error string is too long");
    ensure!(!is_predefined(code), ERR_ARG, "predefined error codes keep their strings");
    match REGISTRY.added.borrow_mut().get_mut(&code) {
        Some(added) => added.text = text.to_vec(),
        None => fail!(ERR_ARG, "no such error code"),
    }
    Ok(())
}

/// `MPI_Remove_error_class`: neither a code of the class nor its string may be left.
pub fn remove_class(class: Class) -> Result {
    let mut added = REGISTRY.added.borrow_mut();
    ensure!(added.get(&class).is_some_and(|a| a.class == class), ERR_ARG, "not an added error class");
    let used = added.iter().any(|(code, a)| *code != class && a.class == class);
    ensure!(!used, ERR_ARG, "error class still has codes");
    ensure!(added[&class].text.is_empty(), ERR_ARG, "error class still has a string");
    added.remove(&class);
    drop(added);
    update_last_used();
    Ok(())
}

/// `MPI_Remove_error_code`: its string must have been removed.
pub fn remove_code(code: Class) -> Result {
    let mut added = REGISTRY.added.borrow_mut();
    ensure!(added.get(&code).is_some_and(|a| a.class != code), ERR_ARG, "not an added error code");
    ensure!(added[&code].text.is_empty(), ERR_ARG, "error code still has a string");
    added.remove(&code);
    drop(added);
    update_last_used();
    Ok(())
}

/// `MPI_Remove_error_string`.
pub fn remove_string(code: Class) -> Result {
    ensure!(!is_predefined(code), ERR_ARG, "predefined error codes keep their strings");
    match REGISTRY.added.borrow_mut().get_mut(&code) {
        Some(added) if !added.text.is_empty() => added.text.clear(),
        _ => fail!(ERR_ARG, "error code has no string"),
    }
    Ok(())
}

/// `MPI_Error_class`.
pub fn class_of(code: Class) -> Result<Class> {
    if is_predefined(code) {
        return Ok(code);
    }
    match REGISTRY.added.borrow().get(&code) {
        Some(added) => Ok(added.class),
        None => fail!(ERR_ARG, "no such error code"),
    }
}

/// `MPI_Error_string`.
pub fn string_of(code: Class) -> Result<Vec<u8>> {
    if let Some(text) = code.text() {
        return Ok(text.as_bytes().to_vec());
    }
    match REGISTRY.added.borrow().get(&code) {
        Some(added) => Ok(added.text.clone()),
        None => fail!(ERR_ARG, "no such error code"),
    }
}

/// The text of any code, for a log line.
pub fn describe(code: Class) -> String {
    match string_of(code) {
        Ok(text) if !text.is_empty() => String::from_utf8_lossy(&text).into_owned(),
        _ => format!("error code {}", code.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_codes_have_classes_and_strings() {
        let _guard = crate::cs::enter();
        let class = add_class().unwrap();
        assert!(class > Class::ERR_LASTCODE);
        let code = add_code(class).unwrap();
        assert_eq!(class_of(code), Ok(class));
        assert_eq!(string_of(code).unwrap(), b"");
        add_string(code, b"overheated").unwrap();
        assert_eq!(string_of(code).unwrap(), b"overheated");
        assert!(add_code(code).is_err());
        assert!(remove_class(class).is_err());
        assert!(remove_code(code).is_err());
        remove_string(code).unwrap();
        assert!(remove_string(code).is_err());
        remove_code(code).unwrap();
        assert!(remove_code(code).is_err());
        remove_class(class).unwrap();
        assert_eq!(class_of(class).unwrap_err().class, Class::ERR_ARG);
        let other = add_code(Class::ERR_RANK).unwrap();
        assert!(other > code);
        assert_eq!(class_of(other), Ok(Class::ERR_RANK));
        assert_eq!(last_used(), other);
        remove_code(other).unwrap();
    }

    fn last_used() -> Class {
        REGISTRY.last_used.get()
    }

    #[test]
    fn predefined_codes_are_fixed() {
        let _guard = crate::cs::enter();
        assert_eq!(class_of(Class::ERR_TRUNCATE), Ok(Class::ERR_TRUNCATE));
        assert!(add_string(Class::ERR_TRUNCATE, b"x").is_err());
        assert!(remove_class(Class::ERR_TRUNCATE).is_err());
        assert_eq!(class_of(Class(-1)).unwrap_err().class, Class::ERR_ARG);
        assert!(string_of(Class::ERR_TRUNCATE).unwrap().starts_with(b"MPI_ERR_TRUNCATE"));
    }
}
