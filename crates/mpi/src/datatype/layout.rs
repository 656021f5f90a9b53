//! The algebra of typemaps: bytes, bounds and signature of a repeated, shifted or concatenated type (MPI-5.0, 5.1.1 to 5.1.7).
//!
//! Bounds follow the standard: `lb` and `ub` span the data unless the typemap holds markers (made by `resized`, `subarray`
//! and `darray`); then only the markers count, also when the type is nested. The padding to the strictest alignment belongs
//! to structures and goes along when they are nested. All arithmetic is checked.

use std::rc::Rc;

use base::{Class, Error, Result, ensure};

use super::builtin::Builtin;
use super::shape::{Placed, RunList, Shape};
use super::signature::Signature;

/// What a typemap means.
#[derive(Clone)]
pub(super) struct Layout {
    pub size: usize,
    pub lb: i64,
    pub ub: i64,
    /// Whether `lb` and `ub` come from markers.
    pub marked: bool,
    /// First byte and end of the data; none without data.
    pub data: Option<(i64, i64)>,
    /// Strictest alignment of a basic element.
    pub align: usize,
    pub place: Placed,
    pub signature: Rc<Signature>,
}

const OVERFLOW: Error = Error::new(Class::ERR_ARG, "datatype does not fit the address space");

/// Takes a wide intermediate result back to an address.
pub(super) fn narrow(value: i128) -> Result<i64> {
    i64::try_from(value).map_err(|_| OVERFLOW)
}

/// `a * b` as an address.
pub(super) fn product(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or(OVERFLOW)
}

/// Checks an element count or block length.
pub(super) fn natural(count: i64) -> Result<i64> {
    ensure!(count >= 0, ERR_COUNT, "negative count");
    Ok(count)
}

/// Smallest and largest bounds of several parts.
#[derive(Default)]
struct Span {
    all: Option<(i64, i64)>,
    marks: Option<(i64, i64)>,
    data: Option<(i64, i64)>,
    size: i128,
    align: usize,
}

fn hull(into: &mut Option<(i64, i64)>, low: i64, high: i64) {
    *into = Some(into.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
}

impl Span {
    /// Adds `n` copies of `part`, `stride` apart, the first moved by `disp`.
    fn add(&mut self, part: &Layout, disp: i64, n: i64, stride: i64) -> Result<()> {
        if n == 0 || part.is_void() {
            return Ok(());
        }
        let last = i128::from(n - 1) * i128::from(stride);
        let (down, up) = (i128::from(disp) + last.min(0), i128::from(disp) + last.max(0));
        let moved = |low: i64, high: i64| Ok((narrow(i128::from(low) + down)?, narrow(i128::from(high) + up)?));
        let (lb, ub) = moved(part.lb, part.ub)?;
        narrow(i128::from(ub) - i128::from(lb))?;
        if part.marked {
            hull(&mut self.marks, lb, ub);
        }
        hull(&mut self.all, lb, ub);
        if let Some((low, high)) = part.data {
            let (low, high) = moved(low, high)?;
            hull(&mut self.data, low, high);
        }
        self.size += i128::from(n) * part.size as i128;
        self.align = self.align.max(part.align);
        narrow(self.size)?;
        Ok(())
    }

    fn into_layout(self, place: Placed, signature: Rc<Signature>) -> Result<Layout> {
        let (lb, ub) = self.marks.or(self.all).unwrap_or((0, 0));
        narrow(i128::from(ub) - i128::from(lb))?;
        if let Some((low, high)) = self.data {
            narrow(i128::from(high) - i128::from(low))?;
        }
        let size = narrow(self.size)? as usize;
        Ok(Layout {
            size,
            lb,
            ub,
            marked: self.marks.is_some(),
            data: self.data,
            align: self.align.max(1),
            place,
            signature,
        })
    }
}

impl Layout {
    /// The empty typemap.
    pub fn void() -> Layout {
        Layout {
            size: 0,
            lb: 0,
            ub: 0,
            marked: false,
            data: None,
            align: 1,
            place: Placed::empty(),
            signature: Rc::new(Signature::empty()),
        }
    }

    /// One element of a predefined type.
    pub fn builtin(builtin: Builtin) -> Layout {
        let mut runs = RunList::with_capacity(2);
        runs.push(0, builtin.size() - builtin.index.map_or(0, |index| index.size()));
        runs.push(builtin.index_offset() as isize, builtin.index.map_or(0, |index| index.size()));
        let end = builtin.index.map_or(builtin.size(), |index| builtin.index_offset() + index.size());
        Layout {
            size: builtin.size(),
            lb: 0,
            ub: builtin.extent() as i64,
            marked: false,
            data: Some((0, end as i64)),
            align: builtin.align(),
            place: runs.into_placed(),
            signature: Rc::new(Signature::run(builtin, 1)),
        }
    }

    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// Whether the typemap has no entries, not even markers.
    pub fn is_void(&self) -> bool {
        self.data.is_none() && !self.marked
    }

    /// `n >= 0` copies, `stride` bytes apart.
    pub fn repeat(&self, n: i64, stride: i64) -> Result<Layout> {
        if n == 0 || self.is_void() {
            return Ok(Layout::void());
        }
        let mut span = Span::default();
        span.add(self, 0, n, stride)?;
        let place = self.place.repeat(n as usize, stride as isize);
        span.into_layout(place, Signature::repeat(&self.signature, n as usize))
    }

    /// The same, `disp` bytes further on.
    pub fn shift(&self, disp: i64) -> Result<Layout> {
        let mut span = Span::default();
        span.add(self, disp, 1, 0)?;
        let place = self.moved_place(disp);
        span.into_layout(place, self.signature.clone())
    }

    /// The place moved by a displacement that `Span::add` has checked.
    fn moved_place(&self, disp: i64) -> Placed {
        Placed { disp: self.place.disp.wrapping_add(disp as isize), shape: self.place.shape.clone() }
    }

    /// Several typemaps one after the other.
    pub fn concat(parts: &[Layout]) -> Result<Layout> {
        let mut span = Span::default();
        for part in parts {
            span.add(part, 0, 1, 0)?;
        }
        let place = Placed::sequence(parts.iter().map(|part| part.place.clone()).collect());
        let signature = Signature::sequence(parts.iter().map(|part| &part.signature));
        span.into_layout(place, signature)
    }

    /// Blocks of consecutive copies of `self`: (displacement in bytes, number of copies) each.
    pub fn blocks(&self, blocks: &[(i64, i64)]) -> Result<Layout> {
        let extent = self.extent();
        let mut span = Span::default();
        let mut copies = 0i128;
        for &(disp, n) in blocks {
            span.add(self, disp, n, extent)?;
            copies += i128::from(n);
        }
        if span.all.is_none() {
            return Ok(Layout::void());
        }
        let place = match *self.place.shape {
            Shape::Run(len) if len as i64 == extent => {
                let mut runs = RunList::with_capacity(blocks.len());
                for &(disp, n) in blocks {
                    runs.push(self.place.disp.wrapping_add(disp as isize), len * n as usize);
                }
                runs.into_placed()
            }
            _ => self.block_sequence(blocks),
        };
        span.into_layout(place, Signature::repeat(&self.signature, narrow(copies)? as usize))
    }

    /// The general case of [`Layout::blocks`]: equal block lengths share one shape.
    fn block_sequence(&self, blocks: &[(i64, i64)]) -> Placed {
        let mut previous: Option<(i64, Placed)> = None;
        let mut parts = Vec::with_capacity(blocks.len());
        for &(disp, n) in blocks {
            let block = match previous.take() {
                Some((length, block)) if length == n => block,
                _ => self.place.repeat(n as usize, self.extent() as isize),
            };
            parts.push(Placed { disp: block.disp.wrapping_add(disp as isize), shape: block.shape.clone() });
            previous = Some((n, block));
        }
        Placed::sequence(parts)
    }

    /// With markers at `lb` and `lb + extent` instead of any others.
    pub fn resized(mut self, lb: i64, extent: i64) -> Result<Layout> {
        self.lb = lb;
        self.ub = lb.checked_add(extent).ok_or(OVERFLOW)?;
        self.marked = true;
        Ok(self)
    }

    /// With `ub` raised so that the extent is a multiple of the strictest alignment, unless markers fix it.
    pub fn padded(mut self) -> Result<Layout> {
        if !self.marked {
            let rest = self.extent() % self.align as i64;
            if rest != 0 {
                self.ub = self.ub.checked_add(self.align as i64 - rest).ok_or(OVERFLOW)?;
                narrow(i128::from(self.ub) - i128::from(self.lb))?;
            }
        }
        Ok(self)
    }
}
