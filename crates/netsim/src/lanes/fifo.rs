//! Lists of numbers that are linked through an array, so that moving an element from list to list allocates nothing.

/// No element.
pub(super) const NIL: u32 = u32::MAX;

/// First and last element of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    pub head: u32,
    tail: u32,
}

impl Fifo {
    pub const EMPTY: Fifo = Fifo { head: NIL, tail: NIL };

    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends an element; `links` has the element after each one.
    #[inline]
    pub fn push(&mut self, links: &mut [u32], element: u32) {
        links[element as usize] = NIL;
        if self.tail == NIL {
            self.head = element;
        } else {
            links[self.tail as usize] = element;
        }
        self.tail = element;
    }

    /// Puts an element before all others.
    #[inline]
    pub fn push_front(&mut self, links: &mut [u32], element: u32) {
        links[element as usize] = self.head;
        if self.tail == NIL {
            self.tail = element;
        }
        self.head = element;
    }

    /// Takes the first element.
    #[inline]
    pub fn pop(&mut self, links: &[u32]) -> Option<u32> {
        let first = self.head;
        if first == NIL {
            return None;
        }
        self.head = links[first as usize];
        if self.head == NIL {
            self.tail = NIL;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_out_in_order() {
        let (mut links, mut list) = ([NIL; 4], Fifo::EMPTY);
        list.push(&mut links, 2);
        list.push(&mut links, 0);
        list.push_front(&mut links, 3);
        assert_eq!([list.pop(&links), list.pop(&links), list.pop(&links)], [Some(3), Some(2), Some(0)]);
        assert!(list.is_empty() && list.pop(&links).is_none());
        list.push_front(&mut links, 1);
        list.push(&mut links, 2);
        assert_eq!([list.pop(&links), list.pop(&links)], [Some(1), Some(2)]);
    }
}
