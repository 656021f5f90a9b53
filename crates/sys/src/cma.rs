//! Another process's memory: `process_vm_readv` and `process_vm_writev`, and `pread` on its `/proc/self/mem`.
//!
//! Both can be denied at any moment by seccomp, namespaces or ptrace rules, and a pid can name the wrong process; so
//! callers first read a random word that they know (decision 0020).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A piece of this process's memory to be filled.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// First byte.
    pub at: *mut u8,
    /// Bytes.
    pub len: usize,
}

/// The pid of this process, as this pid namespace counts.
pub fn own_pid() -> i32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() }
}

/// This process's memory as a read-only descriptor for a peer. (A writable one would even let it write read-only pages.)
pub fn own_memory() -> io::Result<OwnedFd> {
    std::fs::File::open("/proc/self/mem").map(OwnedFd::from)
}

/// This process's memory as a descriptor that writes, too. Only for processes of this job that check what they write against what was told them: it even
/// writes pages that are read-only.
pub fn own_writable_memory() -> io::Result<OwnedFd> {
    std::fs::File::options().read(true).write(true).open("/proc/self/mem").map(OwnedFd::from)
}

/// Lets processes of the same user read this one's memory where Yama restricts that to descendants.
/// Harmless where there is no Yama.
pub fn allow_readers() {
    // SAFETY: prctl with integer arguments; EINVAL without Yama.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

fn count(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Copies from `address` in process `pid` to `into`, in order. Fewer bytes than wanted may come.
///
/// # Safety
/// Each piece is writable memory. At most 1024 pieces.
pub unsafe fn read_by_pid(pid: i32, address: u64, into: &[Piece]) -> io::Result<usize> {
    const { assert!(size_of::<Piece>() == size_of::<libc::iovec>()) };
    let len = into.iter().map(|p| p.len).sum();
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: len };
    // SAFETY: `Piece` has the layout of `iovec`; the caller promises that the pieces are writable. The remote address
    // belongs to the other process: the kernel checks it.
    count(unsafe {
        libc::process_vm_readv(pid, into.as_ptr().cast(), into.len() as libc::c_ulong, &raw const remote, 1, 0)
    })
}

/// Copies `len` bytes at `from` to `address` in process `pid`. Fewer bytes than wanted may go.
///
/// # Safety
/// `from` is readable for `len` bytes.
pub unsafe fn write_by_pid(pid: i32, address: u64, from: *const u8, len: usize) -> io::Result<usize> {
    let local = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: len };
    // SAFETY: the caller promises the source. The remote address belongs to the other process: the kernel checks it.
    count(unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Copies `len` bytes at `address` of the process whose memory is `memory` to `into`. Fewer bytes may come; 0 means that
/// the process is gone.
///
/// # Safety
/// `into` is writable for `len` bytes.
pub unsafe fn read_by_fd(memory: BorrowedFd<'_>, address: u64, into: *mut u8, len: usize) -> io::Result<usize> {
    let Ok(offset) = libc::off_t::try_from(address) else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: the caller promises the destination; the kernel checks the address.
    count(unsafe { libc::pread(memory.as_raw_fd(), into.cast(), len, offset) })
}

/// Copies `address ..` of process `pid` to all of `into`.
pub fn read_exact_by_pid(pid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    all(into.len(), |done| {
        let piece = Piece { at: into[done..].as_mut_ptr(), len: into.len() - done };
        // SAFETY: the rest of the slice is writable.
        unsafe { read_by_pid(pid, address.wrapping_add(done as u64), &[piece]) }
    })
}

/// Copies all of `from` to `address ..` of process `pid`.
pub fn write_all_by_pid(pid: i32, address: u64, from: &[u8]) -> io::Result<()> {
    all(from.len(), |done| {
        // SAFETY: the rest of the slice is readable.
        unsafe { write_by_pid(pid, address.wrapping_add(done as u64), from[done..].as_ptr(), from.len() - done) }
    })
}

/// Pieces of another process's memory that one call takes.
const PIECES_MAX: usize = 1024;

/// Copies pieces (address, bytes) of process `pid` to `into`, one after the other.
pub fn read_pieces_by_pid(pid: i32, pieces: &[(u64, usize)], into: &mut [u8]) -> io::Result<()> {
    let mut rest = into;
    for batch in pieces.chunks(PIECES_MAX) {
        let (now, later) = rest.split_at_mut(batch.iter().map(|piece| piece.1).sum());
        rest = later;
        let (local, remote) = vectors(batch, now.as_mut_ptr(), now.len());
        // SAFETY: the local vector is `now`, which is writable; the kernel checks the addresses of the other process.
        let n = unsafe {
            libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
        };
        if usize::try_from(n) == Ok(now.len()) {
            continue;
        }
        // Not all at once: one by one, with the error of the one that fails.
        let mut at = 0;
        for (address, len) in batch {
            read_exact_by_pid(pid, *address, &mut now[at..at + len])?;
            at += len;
        }
    }
    Ok(())
}

/// Copies `from` to pieces (address, bytes) of process `pid`, one after the other.
pub fn write_pieces_by_pid(pid: i32, pieces: &[(u64, usize)], from: &[u8]) -> io::Result<()> {
    let mut rest = from;
    for batch in pieces.chunks(PIECES_MAX) {
        let (now, later) = rest.split_at(batch.iter().map(|piece| piece.1).sum());
        rest = later;
        let (local, remote) = vectors(batch, now.as_ptr().cast_mut(), now.len());
        // SAFETY: the local vector is `now`, which is only read; the kernel checks the addresses of the other process.
        let n = unsafe {
            libc::process_vm_writev(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
        };
        if usize::try_from(n) == Ok(now.len()) {
            continue;
        }
        let mut at = 0;
        for (address, len) in batch {
            write_all_by_pid(pid, *address, &now[at..at + len])?;
            at += len;
        }
    }
    Ok(())
}

fn vectors(pieces: &[(u64, usize)], at: *mut u8, len: usize) -> (libc::iovec, Vec<libc::iovec>) {
    let vector = |&(address, len): &(u64, usize)| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: len,
    };
    (libc::iovec { iov_base: at.cast(), iov_len: len }, pieces.iter().map(vector).collect())
}

/// Repeats `go(done)` until `len` bytes are done.
fn all(len: usize, mut go: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match go(done) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process is gone")),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn own_memory_is_writable() {
        let word = Box::new(std::sync::atomic::AtomicU64::new(1));
        let address = (&raw const *word).addr() as u64;
        let new = 7u64;
        // SAFETY: eight readable bytes.
        if let Ok(n) = unsafe { write_by_pid(own_pid(), address, (&raw const new).cast(), 8) } {
            assert_eq!((n, word.load(std::sync::atomic::Ordering::Relaxed)), (8, 7));
        }
    }

    #[test]
    fn pieces_are_read_and_written_in_order() {
        let source: Vec<u8> = (0..20_000_u32).map(|i| i as u8).collect();
        let mut target = vec![0u8; 20_000];
        let pieces = |base: u64| (0..5000).map(|i| (base + 4 * i, 1 + i as usize % 3)).collect::<Vec<_>>();
        let from = pieces(source.as_ptr().addr() as u64);
        let mut packed = vec![0; from.iter().map(|piece| piece.1).sum()];
        if read_pieces_by_pid(own_pid(), &from, &mut packed).is_err() {
            // Not allowed here.
            return;
        }
        let into = pieces(target.as_mut_ptr().addr() as u64);
        write_pieces_by_pid(own_pid(), &into, &packed).unwrap();
        for (i, (seen, sent)) in std::hint::black_box(&target).iter().zip(&source).enumerate() {
            let covered = i % 4 < 1 + i / 4 % 3;
            assert_eq!(*seen, if covered { *sent } else { 0 }, "byte {i}");
        }
        // The first page is never mapped.
        assert!(read_pieces_by_pid(own_pid(), &[from[0], (16, 1)], &mut [0; 2]).is_err());
    }

    #[test]
    fn own_memory_is_readable_both_ways() {
        let word = Box::new(0x1234_5678_9abc_def0u64);
        let address = (&raw const *word).addr() as u64;
        let mut seen = 0u64;
        let into = Piece { at: (&raw mut seen).cast(), len: 8 };
        // SAFETY: `seen` is eight writable bytes.
        if let Ok(n) = unsafe { read_by_pid(own_pid(), address, &[into]) } {
            assert_eq!((n, seen), (8, *word));
        }
        seen = 0;
        let memory = own_memory().unwrap();
        // SAFETY: as above.
        let n = unsafe { read_by_fd(memory.as_fd(), address, (&raw mut seen).cast(), 8) };
        assert_eq!((n.unwrap(), seen), (8, *word));
        // SAFETY: as above; page 0 is never mapped.
        assert!(unsafe { read_by_fd(memory.as_fd(), 16, (&raw mut seen).cast(), 8) }.is_err());
    }
}
