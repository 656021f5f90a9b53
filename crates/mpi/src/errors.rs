//! Error codes, classes and strings (MPI-5.0, 9.4 and 9.5).
//!
//! The codes that Ferrule itself returns are the error classes. A program may add classes and codes: their numbers come
//! from one counter above [`Class::ERR_LASTCODE`] and are not given out again. A code has the type of a class here.

use crate::cs::Section;
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
pub fn last_used_code(cs: &Section) -> Class {
    REGISTRY.get(cs).last_used.get()
}

fn is_predefined(code: Class) -> bool {
    code.text().is_some()
}

fn add(cs: &Section, class: Option<Class>) -> Result<Class> {
    let code = REGISTRY.get(cs).next.get();
    ensure!(code.0 < i32::MAX, ERR_OTHER, "no error code is left");
    REGISTRY.get(cs).next.set(Class(code.0 + 1));
    let class = class.unwrap_or(code);
    REGISTRY.get(cs).added.borrow_mut().insert(code, Added { class, text: Vec::new() });
    update_last_used(cs);
    Ok(code)
}

fn update_last_used(cs: &Section) {
    let last = REGISTRY.get(cs).added.borrow().last_key_value().map_or(Class::ERR_LASTCODE, |(code, _)| *code);
    REGISTRY.get(cs).last_used.set(last);
}

/// `MPI_Add_error_class`.
pub fn add_class(cs: &Section) -> Result<Class> {
    add(cs, None)
}

/// `MPI_Add_error_code`.
pub fn add_code(cs: &Section, class: Class) -> Result<Class> {
    let known = is_predefined(class) || REGISTRY.get(cs).added.borrow().get(&class).is_some_and(|a| a.class == class);
    ensure!(known, ERR_ARG, "not an error class");
    add(cs, Some(class))
}

/// `MPI_Add_error_string`; an empty text removes the string. Predefined codes keep theirs.
pub fn add_string(cs: &Section, code: Class, text: &[u8]) -> Result {
    ensure!(text.len() < MAX_ERROR_STRING, ERR_ARG, "error string is too long");
    ensure!(!is_predefined(code), ERR_ARG, "predefined error codes keep their strings");
    match REGISTRY.get(cs).added.borrow_mut().get_mut(&code) {
        Some(added) => added.text = text.to_vec(),
        None => fail!(ERR_ARG, "no such error code"),
    }
    Ok(())
}

/// `MPI_Remove_error_class`: neither a code of the class nor its string may be left.
pub fn remove_class(cs: &Section, class: Class) -> Result {
    let mut added = REGISTRY.get(cs).added.borrow_mut();
    ensure!(added.get(&class).is_some_and(|a| a.class == class), ERR_ARG, "not an added error class");
    let used = added.iter().any(|(code, a)| *code != class && a.class == class);
    ensure!(!used, ERR_ARG, "error class still has codes");
    ensure!(added[&class].text.is_empty(), ERR_ARG, "error class still has a string");
    added.remove(&class);
    drop(added);
    update_last_used(cs);
    Ok(())
}

/// `MPI_Remove_error_code`: its string must have been removed.
pub fn remove_code(cs: &Section, code: Class) -> Result {
    let mut added = REGISTRY.get(cs).added.borrow_mut();
    ensure!(added.get(&code).is_some_and(|a| a.class != code), ERR_ARG, "not an added error code");
    ensure!(added[&code].text.is_empty(), ERR_ARG, "error code still has a string");
    added.remove(&code);
    drop(added);
    update_last_used(cs);
    Ok(())
}

/// `MPI_Remove_error_string`.
pub fn remove_string(cs: &Section, code: Class) -> Result {
    ensure!(!is_predefined(code), ERR_ARG, "predefined error codes keep their strings");
    match REGISTRY.get(cs).added.borrow_mut().get_mut(&code) {
        Some(added) if !added.text.is_empty() => added.text.clear(),
        _ => fail!(ERR_ARG, "error code has no string"),
    }
    Ok(())
}

/// `MPI_Error_class`.
pub fn class_of(cs: &Section, code: Class) -> Result<Class> {
    if is_predefined(code) {
        return Ok(code);
    }
    match REGISTRY.get(cs).added.borrow().get(&code) {
        Some(added) => Ok(added.class),
        None => fail!(ERR_ARG, "no such error code"),
    }
}

/// `MPI_Error_string`.
pub fn string_of(cs: &Section, code: Class) -> Result<Vec<u8>> {
    if let Some(text) = code.text() {
        return Ok(text.as_bytes().to_vec());
    }
    match REGISTRY.get(cs).added.borrow().get(&code) {
        Some(added) => Ok(added.text.clone()),
        None => fail!(ERR_ARG, "no such error code"),
    }
}

/// The text of any code, for a log line.
pub fn describe(cs: &Section, code: Class) -> String {
    match string_of(cs, code) {
        Ok(text) if !text.is_empty() => String::from_utf8_lossy(&text).into_owned(),
        _ => format!("error code {}", code.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_codes_have_classes_and_strings() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        let class = add_class(cs).unwrap();
        assert!(class > Class::ERR_LASTCODE);
        let code = add_code(cs, class).unwrap();
        assert_eq!(class_of(cs, code), Ok(class));
        assert_eq!(string_of(cs, code).unwrap(), b"");
        add_string(cs, code, b"overheated").unwrap();
        assert_eq!(string_of(cs, code).unwrap(), b"overheated");
        assert!(add_code(cs, code).is_err());
        assert!(remove_class(cs, class).is_err());
        assert!(remove_code(cs, code).is_err());
        remove_string(cs, code).unwrap();
        assert!(remove_string(cs, code).is_err());
        remove_code(cs, code).unwrap();
        assert!(remove_code(cs, code).is_err());
        remove_class(cs, class).unwrap();
        assert_eq!(class_of(cs, class).unwrap_err().class, Class::ERR_ARG);
        let other = add_code(cs, Class::ERR_RANK).unwrap();
        assert!(other > code);
        assert_eq!(class_of(cs, other), Ok(Class::ERR_RANK));
        assert_eq!(last_used(cs), other);
        remove_code(cs, other).unwrap();
    }

    fn last_used(cs: &Section) -> Class {
        REGISTRY.get(cs).last_used.get()
    }

    #[test]
    fn predefined_codes_are_fixed() {
        let mut inside = crate::cs::enter_test();
        let cs = inside.section();
        assert_eq!(class_of(cs, Class::ERR_TRUNCATE), Ok(Class::ERR_TRUNCATE));
        assert!(add_string(cs, Class::ERR_TRUNCATE, b"x").is_err());
        assert!(remove_class(cs, Class::ERR_TRUNCATE).is_err());
        assert_eq!(class_of(cs, Class(-1)).unwrap_err().class, Class::ERR_ARG);
        assert!(string_of(cs, Class::ERR_TRUNCATE).unwrap().starts_with(b"MPI_ERR_TRUNCATE"));
    }
}
