//! Arrays of counts and displacements as the program holds them: `int[]`, `MPI_Aint[]` or `MPI_Count[]`.

/// A read-only view of one array argument of a collective. Nothing is copied.
#[derive(Clone, Copy, Debug)]
pub enum Ints<'a> {
    /// `int[]`
    I32(&'a [i32]),
    /// `MPI_Aint[]` or `MPI_Count[]`
    I64(&'a [i64]),
}

impl<'a> Ints<'a> {
    /// A view of `len` C integers; an empty view for a null pointer.
    ///
    /// # Safety
    /// `array` is null or points at `len` integers that stay unchanged for `'a`.
    pub unsafe fn from_i32(array: *const i32, len: usize) -> Ints<'a> {
        if array.is_null() {
            return Ints::I32(&[]);
        }
        // SAFETY: by the contract of this function.
        Ints::I32(unsafe { std::slice::from_raw_parts(array, len) })
    }

    /// A view of `len` 64-bit integers; an empty view for a null pointer.
    ///
    /// # Safety
    /// `array` is null or points at `len` integers that stay unchanged for `'a`.
    pub unsafe fn from_i64(array: *const i64, len: usize) -> Ints<'a> {
        if array.is_null() {
            return Ints::I64(&[]);
        }
        // SAFETY: by the contract of this function.
        Ints::I64(unsafe { std::slice::from_raw_parts(array, len) })
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Ints::I32(s) => s.len(),
            Ints::I64(s) => s.len(),
        }
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `i`, which must be in range.
    #[inline]
    pub fn get(&self, i: usize) -> isize {
        match self {
            Ints::I32(s) => s[i] as isize,
            Ints::I64(s) => s[i] as isize,
        }
    }

    /// Entry `i` as a count; entries have been checked not to be negative.
    #[inline]
    pub fn count(&self, i: usize) -> usize {
        self.get(i).max(0) as usize
    }

    /// All entries.
    pub fn iter(self) -> impl Iterator<Item = isize> + 'a {
        (0..self.len()).map(move |i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_read_alike() {
        let (a, b) = ([1i32, -2, 3], [1i64, -2, 3]);
        let all = |v: Ints<'_>| v.iter().collect::<Vec<_>>();
        assert_eq!(all(Ints::I32(&a)), all(Ints::I64(&b)));
        assert_eq!(Ints::I32(&a).count(1), 0);
        // SAFETY: a null pointer is an empty array.
        assert!(unsafe { Ints::from_i32(std::ptr::null(), 3) }.is_empty());
    }
}
