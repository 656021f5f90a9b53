//! Memory of this process that ranks under its kernel map: parts of one memfd, whose descriptor goes to them with that of the inbox.
//!
//! One descriptor serves all windows of a process, whenever they are made: the file grows, and never shrinks, so that nobody who has mapped a part is
//! killed by its end. What is freed is given back to the kernel, and used again.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::mem::{self, Mapping};

/// The memory that a process shares by parts.
#[derive(Debug)]
pub struct Heap {
    fd: OwnedFd,
    /// Bytes of the file.
    end: u64,
    /// Parts that are free, in order; no two touch.
    free: Vec<Range<u64>>,
}

/// A part of a process's [`Heap`]; whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Part {
    fn range(self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}

impl Heap {
    /// A heap without parts.
    pub fn create() -> io::Result<Heap> {
        Ok(Heap { fd: mem::growing_memfd(c"ferrule-windows")?, end: 0, free: Vec::new() })
    }

    /// What peers need to map parts.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A zeroed part of at least `len` bytes, all of which are there: an error if memory doesn't suffice.
    pub fn allocate(&mut self, len: usize) -> io::Result<Part> {
        let page = mem::page_bytes() as u64;
        let len = (len as u64).max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let place = self.free.iter().position(|range| range.end - range.start >= len);
        let offset = place.map_or(self.end, |place| self.free[place].start);
        let end = offset.checked_add(len).ok_or(io::ErrorKind::OutOfMemory)?;
        if let Err(error) = mem::allocate(self.fd.as_fd(), offset..end) {
            // A part of the pages may be there.
            let _ = mem::give_back(self.fd.as_fd(), offset..end);
            return Err(error);
        }
        match place {
            Some(place) if self.free[place].end == end => drop(self.free.remove(place)),
            Some(place) => self.free[place].start = end,
            None => self.end = end,
        }
        Ok(Part { offset, len })
    }

    /// Frees a part that [`Heap::allocate`] gave. Who still maps it finds zeroes.
    pub fn free(&mut self, part: Part) {
        let _ = mem::give_back(self.fd.as_fd(), part.range());
        let place = self.free.partition_point(|range| range.start < part.offset);
        self.free.insert(place, part.range());
        self.free.dedup_by(|next, before| {
            let touch = before.end == next.start;
            if touch {
                before.end = next.end;
            }
            touch
        });
    }

    /// Maps a part of this process's own heap.
    pub fn map(&self, part: Part) -> io::Result<Mapping> {
        map(self.fd(), part)
    }
}

/// Maps a part of the heap behind a descriptor.
pub fn map(fd: BorrowedFd<'_>, part: Part) -> io::Result<Mapping> {
    let len = usize::try_from(part.len).map_err(|_| io::ErrorKind::InvalidInput)?;
    Mapping::of_growing(fd, part.offset, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_used_again() {
        let page = mem::page_bytes() as u64;
        let mut heap = Heap::create().unwrap();
        let parts: Vec<Part> = (0..4).map(|_| heap.allocate(5000).unwrap()).collect();
        assert!(parts.iter().enumerate().all(|(i, part)| part.offset == part.len * i as u64));
        let last = heap.map(parts[3]).unwrap();
        // SAFETY: the part has so many bytes.
        unsafe { last.as_ptr().add(4999).write_volatile(1) };
        heap.free(parts[0]);
        heap.free(parts[2]);
        heap.free(parts[1]);
        assert_eq!(heap.free, [Range { start: 0, end: parts[3].offset }]);
        assert_eq!(heap.allocate(1).unwrap(), Part { offset: 0, len: page });
        assert_eq!(heap.allocate(parts[3].offset as usize).unwrap().offset, parts[3].offset + parts[3].len);
        assert!(heap.allocate(usize::MAX).is_err() && heap.allocate(isize::MAX as usize).is_err());
        // SAFETY: as above.
        assert_eq!(unsafe { last.as_ptr().add(4999).read_volatile() }, 1);
        assert!(map(heap.fd(), Part { offset: 1 << 40, len: page }).is_err());
    }
}
