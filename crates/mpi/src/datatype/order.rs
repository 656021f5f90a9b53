//! In which order an item's runs lie in memory: file types must ascend (MPI-5.0, 14.3).

use super::Datatype;
use super::walk::{Sink, walk_all};

/// How the runs of an item follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// No run begins before an earlier one.
    pub ascends: bool,
    /// A run begins before the end of an earlier one.
    pub overlaps: bool,
}

struct Look {
    order: Order,
    begin: isize,
    end: isize,
}

impl Sink for Look {
    fn run(&mut self, at: isize, len: usize) {
        self.order.ascends &= at >= self.begin;
        self.order.overlaps |= at < self.end;
        self.begin = at;
        self.end = self.end.max(at.saturating_add(len as isize));
    }

    fn strided(&mut self, at: isize, count: usize, len: usize, stride: isize) {
        self.run(at, len);
        if count > 1 {
            self.order.ascends &= stride >= 0;
            self.order.overlaps |= stride < len as isize;
            self.run(at.wrapping_add((count as isize - 1).wrapping_mul(stride)), len);
        }
    }
}

impl Datatype {
    /// How the runs of one item follow each other.
    pub fn order(&self) -> Order {
        let mut look = Look { order: Order { ascends: true, overlaps: false }, begin: isize::MIN, end: isize::MIN };
        walk_all(&self.place.shape, self.place.disp, &mut look);
        look.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Form, byte, hindexed, hvector};

    #[test]
    fn order_of_lists_and_strides() {
        let of = |dt: std::rc::Rc<Datatype>| (dt.order().ascends, dt.order().overlaps);
        let listed = |lengths: &[i64], disps: &[i64]| hindexed(Form::Int, lengths, disps, byte()).expect("valid");
        assert_eq!(of(listed(&[1, 2], &[0, 4])), (true, false));
        assert_eq!(of(listed(&[1, 2], &[4, 0])), (false, true));
        assert_eq!(of(listed(&[3, 2], &[0, 2])), (true, true));
        assert_eq!(of(hvector(Form::Int, 3, 2, 5, byte()).expect("valid")), (true, false));
        assert_eq!(of(hvector(Form::Int, 3, 2, 1, byte()).expect("valid")), (true, true));
        assert_eq!(of(hvector(Form::Int, 3, 2, -5, byte()).expect("valid")), (false, true));
    }
}
