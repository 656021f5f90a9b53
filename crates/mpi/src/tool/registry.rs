//! Handles of the tool interface. No number is used twice, so a stale handle is an error.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Live objects of one kind. Their numbers begin above the predefined handles (null, `MPI_T_PVAR_ALL_HANDLES`).
pub struct Registry<T> {
    last: usize,
    live: BTreeMap<usize, Rc<T>>,
}

impl<T> Registry<T> {
    pub const fn new() -> Registry<T> {
        Registry { last: 0xff, live: BTreeMap::new() }
    }

    pub fn enter(&mut self, object: T) -> usize {
        self.last += 1;
        self.live.insert(self.last, Rc::new(object));
        self.last
    }

    pub fn find(&self, handle: usize) -> Option<Rc<T>> {
        self.live.get(&handle).cloned()
    }

    pub fn remove(&mut self, handle: usize) -> Option<Rc<T>> {
        self.live.remove(&handle)
    }

    pub fn all(&self) -> Vec<(usize, Rc<T>)> {
        self.live.iter().map(|(handle, object)| (*handle, Rc::clone(object))).collect()
    }

    pub fn clear(&mut self) {
        self.live.clear();
    }
}
