//! The byte layout of one item in normal form: what packing loops over.
//!
//! Runs are in typemap order and never reordered. Neighbours that touch are one run; regular patterns are loops; a list of
//! displacements appears only where nothing regular was found. Offsets are relative to the buffer's address.

use std::rc::Rc;

/// Up to this many runs, a sequence of parts is flattened into a plain list of runs.
const FLATTEN_RUNS_MAX: usize = 256;

/// A layout without a position.
#[derive(PartialEq, Debug)]
pub(super) enum Shape {
    /// No bytes.
    Empty,
    /// One run of bytes.
    Run(usize),
    /// `count` runs of `len` bytes, `stride` bytes from start to start.
    Strided { count: usize, len: usize, stride: isize },
    /// `count` times `child`, `stride` bytes apart.
    Loop { count: usize, stride: isize, child: Rc<Shape> },
    /// Runs of equal length.
    Listed { len: usize, disps: Box<[isize]> },
    /// Runs of different lengths; `ends[i]` is the packed position after run `i`.
    Blocks { disps: Box<[isize]>, ends: Box<[usize]> },
    /// Anything else, one after the other; `ends` as above.
    Sequence { parts: Box<[Placed]>, ends: Box<[usize]> },
}

/// A shape at a displacement.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    pub disp: isize,
    pub shape: Rc<Shape>,
}

impl Shape {
    /// Bytes of data.
    pub fn size(&self) -> usize {
        match self {
            Shape::Empty => 0,
            Shape::Run(len) => *len,
            Shape::Strided { count, len, .. } => count * len,
            Shape::Loop { count, child, .. } => count * child.size(),
            Shape::Listed { len, disps } => len * disps.len(),
            Shape::Blocks { ends, .. } | Shape::Sequence { ends, .. } => ends.last().copied().unwrap_or(0),
        }
    }

    /// Number of runs, saturating.
    pub fn runs(&self) -> usize {
        match self {
            Shape::Empty => 0,
            Shape::Run(_) => 1,
            Shape::Strided { count, .. } => *count,
            Shape::Loop { count, child, .. } => count.saturating_mul(child.runs()),
            Shape::Listed { disps, .. } | Shape::Blocks { disps, .. } => disps.len(),
            Shape::Sequence { parts, .. } => {
                parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.shape.runs()))
            }
        }
    }
}

impl Placed {
    pub fn empty() -> Placed {
        Placed { disp: 0, shape: Rc::new(Shape::Empty) }
    }

    pub fn run(disp: isize, len: usize) -> Placed {
        if len == 0 { Placed::empty() } else { Placed { disp, shape: Rc::new(Shape::Run(len)) } }
    }

    /// The single run that this is, if it is one.
    pub fn as_run(&self) -> Option<(isize, usize)> {
        match *self.shape {
            Shape::Run(len) => Some((self.disp, len)),
            _ => None,
        }
    }

    /// `count` copies, `stride` bytes apart. The caller has checked that every displacement fits.
    pub fn repeat(&self, count: usize, stride: isize) -> Placed {
        if count == 0 || matches!(*self.shape, Shape::Empty) {
            return Placed::empty();
        }
        if count == 1 {
            return self.clone();
        }
        let shape = match *self.shape {
            Shape::Run(len) if stride == len as isize => Shape::Run(len * count),
            Shape::Run(len) => Shape::Strided { count, len, stride },
            Shape::Strided { count: inner, len, stride: step } if continues(stride, inner, step) => {
                Shape::Strided { count: inner * count, len, stride: step }
            }
            Shape::Loop { count: inner, stride: step, ref child } if continues(stride, inner, step) => {
                Shape::Loop { count: inner * count, stride: step, child: child.clone() }
            }
            _ => Shape::Loop { count, stride, child: self.shape.clone() },
        };
        Placed { disp: self.disp, shape: Rc::new(shape) }
    }

    /// All `parts`, in order.
    pub fn sequence(mut parts: Vec<Placed>) -> Placed {
        parts.retain(|part| !matches!(*part.shape, Shape::Empty));
        if parts.len() <= 1 {
            return parts.pop().unwrap_or_else(Placed::empty);
        }
        let total = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.shape.runs()));
        if total <= FLATTEN_RUNS_MAX || parts.iter().all(|part| part.as_run().is_some()) {
            let mut list = RunList::default();
            for part in &parts {
                super::walk::walk_all(&part.shape, part.disp, &mut list);
            }
            return list.into_placed();
        }
        if let Some(stride) = regular(&parts) {
            return parts[0].repeat(parts.len(), stride);
        }
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.shape.size();
            end
        });
        let ends = ends.collect();
        Placed { disp: 0, shape: Rc::new(Shape::Sequence { parts: parts.into_boxed_slice(), ends }) }
    }
}

/// Whether an outer loop with `stride` goes on where an inner loop of `count` steps ends.
fn continues(stride: isize, count: usize, step: isize) -> bool {
    (count as isize).checked_mul(step) == Some(stride)
}

/// The constant distance of parts of one shape.
fn regular(parts: &[Placed]) -> Option<isize> {
    let stride = parts[1].disp.checked_sub(parts[0].disp)?;
    let same = |pair: &[Placed]| {
        Rc::ptr_eq(&pair[0].shape, &pair[1].shape) && pair[1].disp.checked_sub(pair[0].disp) == Some(stride)
    };
    parts.windows(2).all(same).then_some(stride)
}

/// Collects runs in order, merging those that touch.
#[derive(Default)]
pub(super) struct RunList {
    disps: Vec<isize>,
    lens: Vec<usize>,
}

impl RunList {
    pub fn with_capacity(runs: usize) -> RunList {
        RunList { disps: Vec::with_capacity(runs), lens: Vec::with_capacity(runs) }
    }

    pub fn push(&mut self, disp: isize, len: usize) {
        if len == 0 {
            return;
        }
        if let (Some(&last), Some(last_len)) = (self.disps.last(), self.lens.last_mut())
            && last.checked_add(*last_len as isize) == Some(disp)
        {
            *last_len += len;
            return;
        }
        self.disps.push(disp);
        self.lens.push(len);
    }

    /// The smallest shape with these runs.
    pub fn into_placed(self) -> Placed {
        let RunList { disps, lens } = self;
        let Some(&len) = lens.first() else { return Placed::empty() };
        if lens.len() == 1 {
            return Placed::run(disps[0], len);
        }
        if lens.iter().any(|&other| other != len) {
            let mut end = 0;
            let ends = lens.iter().map(|len| {
                end += len;
                end
            });
            let ends = ends.collect();
            return Placed { disp: 0, shape: Rc::new(Shape::Blocks { disps: disps.into_boxed_slice(), ends }) };
        }
        let stride = disps[1].checked_sub(disps[0]);
        match stride {
            Some(stride) if disps.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride)) => {
                Placed::run(disps[0], len).repeat(disps.len(), stride)
            }
            _ => Placed { disp: 0, shape: Rc::new(Shape::Listed { len, disps: disps.into_boxed_slice() }) },
        }
    }
}

impl super::walk::Sink for RunList {
    fn run(&mut self, at: isize, len: usize) {
        self.push(at, len);
    }
}
