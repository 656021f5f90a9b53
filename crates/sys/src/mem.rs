//! Anonymous shared memory: memfds that cannot change size, and mappings of them.
//!
//! Nothing here ever has a name, neither in `/dev/shm` nor elsewhere: a memfd lives as long as somebody holds a
//! descriptor or a mapping of it. The size is sealed, so that a peer can't shrink the file and kill us by SIGBUS.

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The seals that [`sealed_memfd`] sets and [`fixed_size`] demands.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Bytes of a page.
pub fn page_bytes() -> usize {
    // SAFETY: sysconf has no precondition.
    let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(n).unwrap_or(4096)
}

/// Turns the -1 convention into a `Result`.
fn check(value: i32) -> io::Result<i32> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// The seals of [`growing_memfd`].
const GROWING: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// An empty memfd.
fn memfd(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: `name` is a valid C string; the call returns a new descriptor or -1.
    let create = |flags| check(unsafe { libc::memfd_create(name.as_ptr(), flags) });
    // Kernels before 6.3 don't know the flag; later ones may insist on it.
    let fd = create(flags | libc::MFD_NOEXEC_SEAL).or_else(|_| create(flags))?;
    // SAFETY: `fd` was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A zeroed memfd of `len` bytes that nobody can resize. Pages are allocated when they are touched.
pub fn sealed_memfd(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = memfd(name)?;
    let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open.
    check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
    Ok(fd)
}

/// An empty memfd that can become larger ([`allocate`]), but never smaller.
pub fn growing_memfd(name: &CStr) -> io::Result<OwnedFd> {
    let fd = memfd(name)?;
    // SAFETY: the descriptor is open.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, GROWING) })?;
    Ok(fd)
}

/// Takes the pages of a range of bytes of a file now, and makes the file larger if needed: an error if there is not so much memory.
pub fn allocate(fd: BorrowedFd<'_>, range: Range<u64>) -> io::Result<()> {
    fallocate(fd, 0, range)
}

/// Gives the pages of a range of bytes of a file back; they read as zeroes from then on.
pub fn give_back(fd: BorrowedFd<'_>, range: Range<u64>) -> io::Result<()> {
    fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, range)
}

fn fallocate(fd: BorrowedFd<'_>, mode: i32, range: Range<u64>) -> io::Result<()> {
    let offset = libc::off_t::try_from(range.start).map_err(|_| io::ErrorKind::InvalidInput)?;
    let end = libc::off_t::try_from(range.end).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: the descriptor is open; no memory is passed.
        match check(unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset, end - offset) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done.map(drop),
        }
    }
}

/// The size of the memfd `fd`; an error if it isn't a memfd whose size is sealed.
pub fn fixed_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    sealed_size(fd, SEALS)
}

/// The size of the memfd `fd`; an error if it doesn't have these seals.
fn sealed_size(fd: BorrowedFd<'_>, wanted: i32) -> io::Result<usize> {
    // SAFETY: the descriptor is open.
    let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
    if seals & wanted != wanted {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "size of shared memory is not sealed"));
    }
    // SAFETY: `stat` is plain data, all zeroes are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable and the descriptor is open.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
    usize::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A shared, readable and writable mapping; unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; it is only reached through raw pointers.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a memfd of fixed size; an error if it is smaller.
    pub fn shared(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        if len == 0 || fixed_size(fd)? < len {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory is smaller than it should be"));
        }
        Mapping::of(fd, 0, len)
    }

    /// Maps `len` bytes from `offset`, a multiple of the page, of a memfd of [`growing_memfd`]; an error if it has less.
    pub fn of_growing(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        let size = sealed_size(fd, GROWING)? as u64;
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= size);
        if len == 0 || !fits || !offset.is_multiple_of(page_bytes() as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no such part of the shared memory"));
        }
        Mapping::of(fd, offset, len)
    }

    /// Maps all of a regular file. Whoever may write the file can shrink it, and then who touches the mapping gets SIGBUS: only for
    /// files of [`crate::shared_file`], which belong to this user alone.
    pub fn of_file(file: &std::fs::File) -> io::Result<Mapping> {
        let meta = file.metadata()?;
        let len = usize::try_from(meta.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        if !meta.is_file() || len == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory is not in a file, or it is empty"));
        }
        use std::os::fd::AsFd;
        Mapping::of(file.as_fd(), 0, len)
    }

    /// Maps `len` bytes from `offset` of a file that is not this user's alone: memory that a hypervisor shares between kernels, or a file that
    /// somebody has named for that. The same warning holds; a device's memory has a fixed size.
    pub fn of_part(file: &std::fs::File, offset: u64, len: usize) -> io::Result<Mapping> {
        let meta = file.metadata()?;
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= meta.len());
        if !meta.is_file() || len == 0 || !fits || !offset.is_multiple_of(page_bytes() as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no such part of the shared memory"));
        }
        use std::os::fd::AsFd;
        Mapping::of(file.as_fd(), offset, len)
    }

    fn of(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast()).map(|at| Mapping { at, len }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// First byte; page aligned. Valid for [`Mapping::len`] bytes as long as `self` lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Makes the kernel take new pages of the memory, whoever touches them first, from NUMA node `node` as long as it has some.
    pub fn prefer_node(&self, node: usize) -> io::Result<()> {
        let mut nodes = [0u64; 16];
        *nodes.get_mut(node / 64).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % 64);
        // The kernel takes one bit less than it is told.
        let bits = 64 * nodes.len() + 1;
        // SAFETY: the range is this mapping, and `nodes` is readable for so many bits; no memory is changed.
        let n = unsafe {
            libc::syscall(libc::SYS_mbind, self.at.as_ptr(), self.len, libc::MPOL_PREFERRED, nodes.as_ptr(), bits, 0)
        };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Allocates the pages of a range of bytes as if this thread wrote to them; what is there already stays.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, libc::MADV_POPULATE_WRITE)
    }

    /// Gives the pages of a range of bytes back to the kernel, for all who have mapped them; they read as zeroes from then on.
    pub fn remove(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, libc::MADV_REMOVE)
    }

    fn advise(&self, range: Range<usize>, advice: i32) -> io::Result<()> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is in this mapping, which is only reached through raw pointers.
        check(unsafe { libc::madvise(self.at.as_ptr().add(range.start).cast(), range.len(), advice) }).map(drop)
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty mapping can't be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `of`, and whoever kept a pointer promised not to use it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Memory of this process alone, in whole pages, which can be given back while the addresses stay; unmapped on drop.
#[derive(Debug)]
pub struct Private {
    at: NonNull<u8>,
    len: usize,
}

impl Private {
    /// `len` zeroed bytes. Pages are allocated when they are touched.
    pub fn new(len: usize) -> io::Result<Private> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Large pages would be taken and given back as a whole.
        // SAFETY: the range was mapped above.
        unsafe { libc::madvise(at, len, libc::MADV_NOHUGEPAGE) };
        NonNull::new(at.cast()).map(|at| Private { at, len }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// First byte; page aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Gives the pages of a range of bytes back to the kernel; they read as zeroes from then on.
    pub fn give_back(&self, range: Range<usize>) -> io::Result<()> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is in this mapping, which is only reached through raw pointers.
        let done = unsafe { libc::madvise(self.at.as_ptr().add(range.start).cast(), range.len(), libc::MADV_DONTNEED) };
        check(done).map(drop)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and whoever kept a pointer promised not to use it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut out = [0u8; N];
    let mut at = 0;
    while at < N {
        // SAFETY: the range `at..N` of `out` is writable.
        let n = unsafe { libc::getrandom(out[at..].as_mut_ptr().cast(), N - at, 0) };
        match usize::try_from(n) {
            Ok(n) => at += n,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn two_mappings_share_and_size_is_fixed() {
        let fd = sealed_memfd(c"ferrule-test", 8192).unwrap();
        assert_eq!(fixed_size(fd.as_fd()).unwrap(), 8192);
        let (a, b) = (Mapping::shared(fd.as_fd(), 8192).unwrap(), Mapping::shared(fd.as_fd(), 8192).unwrap());
        // SAFETY: both mappings are 8192 bytes long.
        let seen = unsafe {
            a.as_ptr().add(5000).write_volatile(7);
            b.as_ptr().add(5000).read_volatile()
        };
        assert_eq!(seen, 7);
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1, "the seal must hold");
        assert!(Mapping::shared(fd.as_fd(), 8193).is_err());
    }

    #[test]
    fn what_grows_never_shrinks() {
        let fd = growing_memfd(c"ferrule-test").unwrap();
        assert!(Mapping::of_growing(fd.as_fd(), 0, 4096).is_err(), "it is empty");
        allocate(fd.as_fd(), 0..8192).unwrap();
        let mapping = Mapping::of_growing(fd.as_fd(), 4096, 4096).unwrap();
        assert!(Mapping::of_growing(fd.as_fd(), 4096, 8192).is_err() && Mapping::of_growing(fd.as_fd(), 1, 1).is_err());
        // SAFETY: the mapping has so many bytes.
        unsafe { mapping.as_ptr().write_volatile(5) };
        give_back(fd.as_fd(), 4096..8192).unwrap();
        // SAFETY: as above; a hole in the file still reads.
        assert_eq!(unsafe { mapping.as_ptr().read_volatile() }, 0);
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1, "the seal must hold");
        let fixed = sealed_memfd(c"ferrule-test", 4096).unwrap();
        allocate(fixed.as_fd(), 0..8192).unwrap_err();
    }

    #[test]
    fn pages_are_placed_and_allocated() {
        use std::os::unix::fs::MetadataExt;
        let fd = sealed_memfd(c"ferrule-test", 65536).unwrap();
        let file = std::fs::File::from(fd.try_clone().unwrap());
        let mapping = Mapping::shared(fd.as_fd(), 65536).unwrap();
        // Containers deny it, and a kernel may know nothing of nodes; all have node 0.
        if let Err(e) = mapping.prefer_node(0) {
            assert!(matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)), "{e}");
        }
        assert!(mapping.prefer_node(1 << 20).is_err());
        assert_eq!(file.metadata().unwrap().blocks(), 0);
        match mapping.populate(16384..32768) {
            Ok(()) => assert!((32..128).contains(&file.metadata().unwrap().blocks())),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EINVAL), "{e}"),
        }
        assert!(mapping.populate(65536..65537).is_err() && mapping.populate(1..usize::MAX).is_err());
        assert!(mapping.remove(16384..32768).is_ok() && mapping.remove(0..65537).is_err());
        assert_eq!(file.metadata().unwrap().blocks(), 0);
    }

    #[test]
    fn unsealed_files_are_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Mapping::shared(file.as_fd(), 4096).is_err());
    }

    #[test]
    fn random_differs() {
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }
}
