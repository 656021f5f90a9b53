//! Control variables (MPI-5.0, 15.3.6): the settings of this process, named as in the environment.
//!
//! A setting can be written until somebody has read it, so most of them before `MPI_Init`; every process needs the same value.

use super::registry::Registry;
use super::{Type, at, enums};
use crate::cs::Section;
use crate::inside::Inside;
use base::config::{Kind, Meta, Refused};
use base::{Result, ensure, fail};
use std::cell::RefCell;
use std::sync::OnceLock;

/// The most bytes of a text, with the terminating null.
pub const TEXT_BYTES: usize = 1024;

/// One variable.
pub struct Cvar {
    /// Its name in the environment.
    pub name: String,
    /// The module whose setting it is.
    pub module: &'static str,
    meta: &'static Meta,
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Of a switch.
    Int(i32),
    /// A whole number.
    Unsigned(u64),
    /// A number.
    Double(f64),
    /// A text.
    Text(String),
}

/// All of them.
pub fn all() -> &'static [Cvar] {
    static ALL: OnceLock<Vec<Cvar>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut tables = vec![("topology", sys::topology::TABLE)];
        tables.extend(channel::settings());
        tables.push(("errors", crate::errhandler::TABLE));
        tables.push(("migration", crate::migration::TABLE));
        tables.push(("collectives", crate::coll::select::settings::TABLE));
        let named = |module, meta: &'static Meta| Cvar { name: format!("FERRULE_{}", meta.name), module, meta };
        tables.into_iter().flat_map(|(module, table)| table.iter().map(move |meta| named(module, meta))).collect()
    })
}

/// A variable by its index.
pub fn from_index(index: i32) -> Result<&'static Cvar> {
    at(all(), index)
}

/// The index of a name.
pub fn index_of(name: &[u8]) -> Result<i32> {
    match all().iter().position(|cvar| cvar.name.as_bytes() == name) {
        Some(index) => Ok(index as i32),
        None => fail!(T_ERR_INVALID_NAME, "no such control variable"),
    }
}

impl Cvar {
    /// What it is for, with its unit and values.
    pub fn description(&self) -> String {
        let Meta { doc, unit, range, .. } = self.meta;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{} ({}{unit})", doc.trim(), range())
    }

    /// How it lies in memory.
    pub fn of_type(&self) -> Type {
        match self.meta.kind {
            Kind::Switch => Type::Int,
            Kind::Whole => Type::Unsigned,
            Kind::Real => Type::Double,
            Kind::Text => Type::Text,
        }
    }

    /// The enumeration of its values, if there is one.
    pub fn enumeration(&self) -> Option<usize> {
        (self.meta.kind == Kind::Switch).then(|| enums::handle(enums::SWITCH))
    }

    /// How many elements of its type it has.
    pub fn count(&self) -> usize {
        if self.meta.kind == Kind::Text { TEXT_BYTES } else { 1 }
    }

    /// Its value now.
    pub fn read(&self) -> Value {
        let text = (self.meta.peek)();
        match self.meta.kind {
            Kind::Switch => Value::Int(i32::from(text == "true")),
            Kind::Whole => Value::Unsigned(text.parse().unwrap_or(0)),
            Kind::Real => Value::Double(text.parse().unwrap_or(0.0)),
            Kind::Text => Value::Text(text),
        }
    }

    /// Changes it.
    pub fn write(&self, value: &Value) -> Result {
        let text = match value {
            Value::Int(value) => {
                ensure!((0..=1).contains(value), T_ERR_INVALID, "a switch is 0 or 1");
                value.to_string()
            }
            Value::Unsigned(value) => value.to_string(),
            Value::Double(value) => value.to_string(),
            Value::Text(value) => value.clone(),
        };
        match (self.meta.set)(&text) {
            Ok(()) => Ok(()),
            Err(Refused::InForce) => fail!(T_ERR_CVAR_SET_NOT_NOW, "the setting is in force already"),
            Err(Refused::NoSuchValue) => fail!(T_ERR_INVALID, "the setting can't have this value"),
        }
    }
}

static HANDLES: Inside<RefCell<Registry<&'static Cvar>>> = Inside::new(RefCell::new(Registry::new()));

/// `MPI_T_cvar_handle_alloc`.
pub fn bind(cs: &Section, index: i32) -> Result<(usize, usize)> {
    let cvar = from_index(index)?;
    Ok((HANDLES.get(cs).borrow_mut().enter(cvar), cvar.count()))
}

/// The variable of a handle.
pub fn from_handle(cs: &Section, handle: usize) -> Result<&'static Cvar> {
    match HANDLES.get(cs).borrow().find(handle) {
        Some(found) => Ok(*found),
        None => fail!(T_ERR_INVALID_HANDLE, "no such handle of a control variable"),
    }
}

/// `MPI_T_cvar_handle_free`.
pub fn unbind(cs: &Section, handle: usize) -> Result {
    let removed = HANDLES.get(cs).borrow_mut().remove(handle);
    ensure!(removed.is_some(), T_ERR_INVALID_HANDLE, "no such handle of a control variable");
    Ok(())
}

pub(super) fn clear(cs: &Section) {
    HANDLES.get(cs).borrow_mut().clear();
}
