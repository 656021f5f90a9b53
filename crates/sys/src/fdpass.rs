//! Bytes together with file descriptors over unix sockets (SCM_RIGHTS, unix(7)).
//!
//! On a stream socket the kernel never merges a read across two messages that carry descriptors, so descriptors come in the
//! order of the bytes that they were sent with.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors in one message.
pub const MAX_FDS: usize = 8;

/// Control buffer, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct Ancillary([u8; 128]);

/// Sends the beginning of `bytes`, with `fds` attached to the first byte; returns how many bytes were taken.
///
/// Never raises SIGPIPE. With `wait` false a full socket is `WouldBlock`. The kernel duplicates the descriptors: they stay
/// the caller's. `ETOOMANYREFS` says that too many descriptors of this user are in flight.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>], wait: bool) -> io::Result<usize> {
    assert!(fds.len() <= MAX_FDS && !bytes.is_empty(), "descriptors need a byte to travel with");
    let mut ancillary = Ancillary([0; 128]);
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let length = (fds.len() * size_of::<RawFd>()) as u32;
        header.msg_control = ancillary.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes; with MAX_FDS = 8 it is 48, within the buffer.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
        // SAFETY: control pointer and length describe `ancillary`, which has room for this one header and `length` bytes.
        unsafe {
            let cmsg = libc::CMSG_FIRSTHDR(&raw const header);
            (*cmsg).cmsg_level = libc::SOL_SOCKET;
            (*cmsg).cmsg_type = libc::SCM_RIGHTS;
            (*cmsg).cmsg_len = libc::CMSG_LEN(length) as usize;
            let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
            for (i, fd) in fds.iter().enumerate() {
                data.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
    loop {
        // SAFETY: every pointer in `header` is valid for the call.
        let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a send failed because receivers have not yet taken what this user sent before.
pub fn too_many_in_flight(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

/// Receives into `bytes`; descriptors that came along are appended to `fds`, close-on-exec. 0 is the end of the stream.
///
/// With `wait` false an empty socket is `WouldBlock`. Descriptors beyond [`MAX_FDS`] or beyond this process's limit are
/// closed by the kernel; the receiver sees that too few have come.
pub fn recv(socket: BorrowedFd<'_>, bytes: &mut [u8], fds: &mut Vec<OwnedFd>, wait: bool) -> io::Result<usize> {
    let mut ancillary = Ancillary([0; 128]);
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len();
    let flags = libc::MSG_CMSG_CLOEXEC | if wait { 0 } else { libc::MSG_DONTWAIT };
    let n = loop {
        // SAFETY: `bytes` and `ancillary` are writable for the lengths given.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        if n >= 0 {
            break n as usize;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        header.msg_controllen = ancillary.0.len();
    };
    // SAFETY: the kernel has filled `ancillary` with well-formed headers up to msg_controllen; each descriptor in an
    // SCM_RIGHTS header is new and owned by nobody else.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(&raw const header);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_SOCKET && (*cmsg).cmsg_type == libc::SCM_RIGHTS {
                let length = (*cmsg).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                for i in 0..length / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            cmsg = libc::CMSG_NXTHDR(&raw const header, cmsg);
        }
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_arrives_with_its_bytes() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(send(a.as_fd(), b"first", &[], false).unwrap(), 5);
        assert_eq!(send(a.as_fd(), b"second", &[writer.as_fd(), reader.as_fd()], false).unwrap(), 6);
        let (mut bytes, mut fds, mut text) = ([0; 64], Vec::new(), Vec::new());
        while text.len() < 11 {
            let n = recv(b.as_fd(), &mut bytes, &mut fds, true).unwrap();
            text.extend_from_slice(&bytes[..n]);
        }
        assert_eq!((text.as_slice(), fds.len()), (b"firstsecond".as_slice(), 2));
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut copy = std::fs::File::from(fds.remove(0));
        copy.write_all(b"y").unwrap();
        drop(copy);
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!(got, "xy");
        assert!(
            matches!(recv(b.as_fd(), &mut bytes, &mut fds, false), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
        );
    }
}
