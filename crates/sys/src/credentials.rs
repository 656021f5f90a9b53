//! Who is at the other end of a unix socket, as the kernel saw it when the connection was made.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The user and the process (0 if it is not in this pid namespace) at the other end of a unix socket.
pub fn peer_of(socket: BorrowedFd<'_>) -> io::Result<(u32, i32)> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` has room for `len` bytes, and any bytes are a valid ucred.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut credentials).cast(),
            &mut len,
        )
    };
    match result {
        0 => Ok((credentials.uid, credentials.pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn this_process_is_at_both_ends_of_its_own_pair() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let (uid, pid) = peer_of(a.as_fd()).unwrap();
        assert_eq!((uid, pid), (crate::process::effective_uid(), std::process::id() as i32));
    }
}
