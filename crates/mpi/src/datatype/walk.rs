//! Visits the runs of a range of packed bytes, in order.
//!
//! A range is located by division in loops and by binary search in lists: O(depth · log blocks), nothing allocated.

use super::Datatype;
use super::shape::Shape;

/// Receives runs in packed order; `at` is relative to the buffer's address.
pub(super) trait Sink {
    /// One run.
    fn run(&mut self, at: isize, len: usize);

    /// `count` runs of `len` bytes, `stride` apart.
    #[inline]
    fn strided(&mut self, at: isize, count: usize, len: usize, stride: isize) {
        for i in 0..count as isize {
            self.run(at.wrapping_add(i.wrapping_mul(stride)), len);
        }
    }

    /// Runs of `len` bytes at `at + disps[i]`.
    #[inline]
    fn listed(&mut self, at: isize, len: usize, disps: &[isize]) {
        for disp in disps {
            self.run(at.wrapping_add(*disp), len);
        }
    }
}

/// Visits all of `shape`, placed at `at`.
pub(super) fn walk_all<S: Sink>(shape: &Shape, at: isize, sink: &mut S) {
    match *shape {
        Shape::Empty => {}
        Shape::Run(len) => sink.run(at, len),
        Shape::Strided { count, len, stride } => sink.strided(at, count, len, stride),
        Shape::Loop { count, stride, ref child } => {
            for i in 0..count as isize {
                walk_all(child, at.wrapping_add(i.wrapping_mul(stride)), sink);
            }
        }
        Shape::Listed { len, ref disps } => sink.listed(at, len, disps),
        Shape::Blocks { ref disps, ref ends } => {
            let mut start = 0;
            for (disp, end) in disps.iter().zip(ends) {
                sink.run(at.wrapping_add(*disp), end - start);
                start = *end;
            }
        }
        Shape::Sequence { ref parts, .. } => {
            for part in parts {
                walk_all(&part.shape, at.wrapping_add(part.disp), sink);
            }
        }
    }
}

/// A byte range cut at the borders of equal units.
struct Cut {
    /// Unit in which the range starts inside, and the range within it.
    head: Option<(usize, usize, usize)>,
    /// Whole units: first, number.
    whole: (usize, usize),
    /// Unit in which the range ends inside, and its number of bytes.
    tail: Option<(usize, usize)>,
}

impl Cut {
    fn new(from: usize, to: usize, unit: usize) -> Cut {
        let (mut first, skip) = (from / unit, from % unit);
        let (last, rest) = (to / unit, to % unit);
        let mut head = None;
        if skip != 0 {
            if first == last {
                return Cut { head: Some((first, skip, rest)), whole: (0, 0), tail: None };
            }
            head = Some((first, skip, unit));
            first += 1;
        }
        Cut { head, whole: (first, last - first), tail: (rest != 0).then_some((last, rest)) }
    }
}

/// Visits packed bytes `from..to` of `shape`; requires `from <= to <= size`.
pub(super) fn walk_range<S: Sink>(shape: &Shape, at: isize, from: usize, to: usize, sink: &mut S) {
    if from >= to {
        return;
    }
    match *shape {
        Shape::Empty => {}
        Shape::Run(_) => sink.run(at.wrapping_add(from as isize), to - from),
        Shape::Strided { len, stride, .. } => {
            let start = |unit: usize| at.wrapping_add((unit as isize).wrapping_mul(stride));
            let cut = Cut::new(from, to, len);
            if let Some((unit, a, b)) = cut.head {
                sink.run(start(unit).wrapping_add(a as isize), b - a);
            }
            if cut.whole.1 != 0 {
                sink.strided(start(cut.whole.0), cut.whole.1, len, stride);
            }
            if let Some((unit, b)) = cut.tail {
                sink.run(start(unit), b);
            }
        }
        Shape::Loop { stride, ref child, .. } => walk_loop(child, at, stride, from, to, sink),
        Shape::Listed { len, ref disps } => {
            let cut = Cut::new(from, to, len);
            if let Some((unit, a, b)) = cut.head {
                sink.run(at.wrapping_add(disps[unit]).wrapping_add(a as isize), b - a);
            }
            sink.listed(at, len, &disps[cut.whole.0..cut.whole.0 + cut.whole.1]);
            if let Some((unit, b)) = cut.tail {
                sink.run(at.wrapping_add(disps[unit]), b);
            }
        }
        Shape::Blocks { ref disps, ref ends } => in_list(ends, from, to, |i, a, b, _| {
            sink.run(at.wrapping_add(disps[i]).wrapping_add(a as isize), b - a);
        }),
        Shape::Sequence { ref parts, ref ends } => in_list(ends, from, to, |i, a, b, whole| {
            let at = at.wrapping_add(parts[i].disp);
            if whole { walk_all(&parts[i].shape, at, sink) } else { walk_range(&parts[i].shape, at, a, b, sink) }
        }),
    }
}

/// Calls `visit(index, from, to, whole)` for each list entry that the range `from..to` touches.
fn in_list(ends: &[usize], from: usize, to: usize, mut visit: impl FnMut(usize, usize, usize, bool)) {
    let mut i = ends.partition_point(|end| *end <= from);
    let mut start = if i == 0 { 0 } else { ends[i - 1] };
    while start < to {
        let (a, b) = (from.max(start), to.min(ends[i]));
        visit(i, a - start, b - start, a == start && b == ends[i]);
        start = ends[i];
        i += 1;
    }
}

fn walk_loop<S: Sink>(child: &Shape, at: isize, stride: isize, from: usize, to: usize, sink: &mut S) {
    let start = |unit: usize| at.wrapping_add((unit as isize).wrapping_mul(stride));
    let cut = Cut::new(from, to, child.size());
    if let Some((unit, a, b)) = cut.head {
        walk_range(child, start(unit), a, b, sink);
    }
    for unit in cut.whole.0..cut.whole.0 + cut.whole.1 {
        walk_all(child, start(unit), sink);
    }
    if let Some((unit, b)) = cut.tail {
        walk_range(child, start(unit), 0, b, sink);
    }
}

/// Visits packed bytes `from..to` of `count` items of `dt`.
pub(super) fn walk_items<S: Sink>(dt: &Datatype, count: usize, from: usize, to: usize, sink: &mut S) {
    if from >= to {
        return;
    }
    let (shape, disp, extent) = (&*dt.place.shape, dt.place.disp, dt.extent);
    if from != 0 || to != dt.size * count {
        return match *shape {
            _ if count == 1 => walk_range(shape, disp, from, to, sink),
            Shape::Run(len) => walk_range(&Shape::Strided { count, len, stride: extent }, disp, from, to, sink),
            _ => walk_loop(shape, disp, extent, from, to, sink),
        };
    }
    match *shape {
        Shape::Run(len) if len as isize == extent => sink.run(disp, len * count),
        Shape::Run(len) => sink.strided(disp, count, len, extent),
        Shape::Strided { count: inner, len, stride } if (inner as isize).wrapping_mul(stride) == extent => {
            sink.strided(disp, count * inner, len, stride);
        }
        _ => {
            for i in 0..count as isize {
                walk_all(shape, disp.wrapping_add(i.wrapping_mul(extent)), sink);
            }
        }
    }
}
