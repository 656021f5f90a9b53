//! Values under small reusable numbers.

/// A vector with holes; the number of a removed value is used again.
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

enum Entry<T> {
    Free(u32),
    Used(T),
}

const NONE: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its number.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> u32 {
        // The value is named once, so that its fields go straight to their places.
        if self.free == NONE {
            self.make_room();
        }
        let at = self.free;
        let Some(entry @ &mut Entry::Free(next)) = self.entries.get_mut(at as usize) else {
            unreachable!("the free list names a free entry")
        };
        (self.free, self.len) = (next, self.len + 1);
        // A free entry has nothing to be dropped.
        std::mem::forget(std::mem::replace(entry, Entry::Used(value)));
        at
    }

    #[cold]
    fn make_room(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry::Free(NONE));
    }

    /// The number that the next value gets.
    #[inline]
    pub fn next(&self) -> u32 {
        if self.free == NONE { self.entries.len() as u32 } else { self.free }
    }

    /// Takes the value out; `None` if there is none.
    #[inline]
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let entry = self.entries.get_mut(at as usize)?;
        if matches!(entry, Entry::Free(_)) {
            return None;
        }
        let Entry::Used(value) = std::mem::replace(entry, Entry::Free(self.free)) else { return None };
        self.free = at;
        self.len -= 1;
        Some(value)
    }

    /// Drops the value, if there is one.
    #[inline]
    pub fn discard(&mut self, at: u32) {
        if let Some(entry @ Entry::Used(_)) = self.entries.get_mut(at as usize) {
            *entry = Entry::Free(self.free);
            self.free = at;
            self.len -= 1;
        }
    }

    /// Gives memory back if there is no value, and room for more than `most`.
    #[inline]
    pub fn shrink(&mut self, most: usize) {
        if self.len == 0 && self.entries.capacity() > most {
            *self = Slab::default();
        }
    }

    /// The value with this number.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        match self.entries.get(at as usize) {
            Some(Entry::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// The value with this number.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.entries.get_mut(at as usize) {
            Some(Entry::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(i, e)| match e {
            Entry::Used(value) => Some((i as u32, value)),
            Entry::Free(_) => None,
        })
    }

    /// All values with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(i, e)| match e {
            Entry::Used(value) => Some((i as u32, value)),
            Entry::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused() {
        let mut s = Slab::default();
        let a = s.insert('a');
        let b = s.insert('b');
        assert_eq!(s.remove(a), Some('a'));
        assert_eq!(s.remove(a), None);
        assert_eq!(s.next(), a);
        assert_eq!(s.insert('c'), a);
        assert_eq!(s.next(), 2);
        assert_eq!(s.get(b), Some(&'b'));
        assert_eq!(s.len(), 2);
        s.discard(b);
        s.discard(b);
        assert_eq!((s.len(), s.insert('b')), (1, b));
        assert_eq!(s.iter().map(|(_, v)| *v).collect::<String>(), "cb");
        s.shrink(0);
        assert_eq!(s.len(), 2);
        s.discard(a);
        s.discard(b);
        s.shrink(1000);
        assert_ne!(s.entries.capacity(), 0);
        s.shrink(0);
        assert_eq!((s.entries.capacity(), s.next(), s.insert('d')), (0, 0, 0));
    }
}
