//! Categories (MPI-5.0, 15.3.9): the modules of the settings, the counters, the messages, the queues and the collectives.

use super::{at, cvar, event, pvar};
use base::{Result, fail};
use std::sync::OnceLock;

/// A group of variables and event types, by their indices.
#[derive(Default)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// What belongs to it.
    pub description: String,
    /// Control variables.
    pub cvars: Vec<i32>,
    /// Performance variables.
    pub pvars: Vec<i32>,
    /// Event types.
    pub events: Vec<i32>,
    /// Categories within it.
    pub categories: Vec<i32>,
}

/// All of them; `settings` contains those of the modules.
pub fn all() -> &'static [Category] {
    static ALL: OnceLock<Vec<Category>> = OnceLock::new();
    ALL.get_or_init(|| {
        let indices = |all: usize, belongs: &dyn Fn(usize) -> bool| {
            (0..all).filter(|i| belongs(*i)).map(|i| i as i32).collect::<Vec<i32>>()
        };
        let mut modules: Vec<&str> = cvar::all().iter().map(|cvar| cvar.module).collect();
        modules.dedup();
        let mut all = vec![Category {
            name: "settings".into(),
            description: "settings of this process, by module".into(),
            categories: (1..=modules.len() as i32).collect(),
            ..Category::default()
        }];
        all.extend(modules.into_iter().map(|module| Category {
            name: format!("settings.{module}"),
            description: format!("settings of the module {module}"),
            cvars: indices(cvar::all().len(), &|i| cvar::all()[i].module == module),
            ..Category::default()
        }));
        let (name, description) = ("counters".into(), "what has happened in this process".into());
        let counted = indices(event::all().len(), &|i| event::all()[i].is_counted());
        let counters = indices(pvar::all().len(), &|i| pvar::all()[i].is_counter() && !pvar::all()[i].is_of_messages());
        all.push(Category { name, description, pvars: counters, events: counted, ..Category::default() });
        let (name, description) = ("messages".into(), "messages, observed only while somebody asks".into());
        let (observed, events) = (
            indices(pvar::all().len(), &|i| pvar::all()[i].is_of_messages()),
            indices(event::all().len(), &|i| event::all()[i].is_of_messages()),
        );
        all.push(Category { name, description, pvars: observed, events, ..Category::default() });
        let (name, description) = ("queues".into(), "what waits in this process".into());
        let lengths = indices(pvar::all().len(), &|i| !pvar::all()[i].is_counter());
        all.push(Category { name, description, pvars: lengths, ..Category::default() });
        let (name, description) = ("collectives".into(), "collectives that begin and end".into());
        let events = indices(event::all().len(), &|i| {
            let event = &event::all()[i];
            !event.is_counted() && !event.is_of_messages()
        });
        all.push(Category { name, description, events, ..Category::default() });
        all
    })
}

/// A category by its index.
pub fn from_index(index: i32) -> Result<&'static Category> {
    at(all(), index)
}

/// The index of a name.
pub fn index_of(name: &[u8]) -> Result<i32> {
    match all().iter().position(|category| category.name.as_bytes() == name) {
        Some(index) => Ok(index as i32),
        None => fail!(T_ERR_INVALID_NAME, "no such category"),
    }
}
