//! Typed ranges of memory, as the algorithms see them.

/// What a builder needs to know of a datatype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Index in the schedule's list of types; meaningless for a contiguous type.
    pub datatype: u32,
    /// Whether any number of items is one run of bytes.
    pub contiguous: bool,
    /// Bytes of data of an item.
    pub size: usize,
    /// Distance of items in bytes.
    pub extent: isize,
    /// Offset of an item's first data byte.
    pub true_lb: isize,
    /// Distance from an item's first to its last data byte.
    pub true_extent: isize,
}

/// Plain bytes.
pub const BYTES: Shape = Shape { datatype: u32::MAX, contiguous: true, size: 1, extent: 1, true_lb: 0, true_extent: 1 };

/// `count` items of some type at `ptr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Origin of the first item, as the program gave it: data may start elsewhere.
    pub ptr: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Their type.
    pub shape: Shape,
}

impl Span {
    /// No memory at all.
    pub const EMPTY: Span = Span { ptr: std::ptr::null_mut(), count: 0, shape: BYTES };

    /// Bytes of data.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.count * self.shape.size
    }

    /// The first data byte of a contiguous span.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.ptr.wrapping_offset(self.shape.true_lb)
    }

    /// Items `first .. first + count`, which may lie outside of this span.
    #[inline]
    pub fn slice(&self, first: usize, count: usize) -> Span {
        Span {
            ptr: self.ptr.wrapping_offset((first as isize).wrapping_mul(self.shape.extent)),
            count,
            shape: self.shape,
        }
    }

    /// `count` items at a displacement in units of the extent.
    #[inline]
    pub fn displaced(&self, displacement: isize, count: usize) -> Span {
        Span { ptr: self.ptr.wrapping_offset(displacement.wrapping_mul(self.shape.extent)), count, shape: self.shape }
    }

    /// The same memory as bytes; only for contiguous spans.
    #[inline]
    pub fn as_bytes(&self) -> Span {
        Span { ptr: self.start(), count: self.bytes(), shape: BYTES }
    }

    /// Part `i` of `n` nearly equal parts.
    #[inline]
    pub fn part(&self, i: usize, n: usize) -> Span {
        let (from, to) = (part_start(self.count, i, n), part_start(self.count, i + 1, n));
        self.slice(from, to - from)
    }

    /// Parts `i .. j` of `n` nearly equal parts.
    #[inline]
    pub fn parts(&self, i: usize, j: usize, n: usize) -> Span {
        let (from, to) = (part_start(self.count, i, n), part_start(self.count, j, n));
        self.slice(from, to - from)
    }
}

/// Where part `i` of `n` nearly equal parts of `count` items begins; part `n` begins at the end.
#[inline]
pub fn part_start(count: usize, i: usize, n: usize) -> usize {
    let (each, extra) = (count / n, count % n);
    i * each + i.min(extra)
}
