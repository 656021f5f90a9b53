//! Options of single connections: marks, pace, and what the kernel knows about the other end.

use super::{check, option};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Marks the packets that leave over a socket, of either family: the upper six bits of the traffic class (IP_TOS, IPV6_TCLASS).
pub fn set_dscp(fd: BorrowedFd<'_>, dscp: u8) -> io::Result<()> {
    let class = i32::from(dscp) << 2;
    // A socket of IPv6 may carry IPv4 (a mapped address), and then has that family's option.
    option(fd, libc::IPPROTO_IP, libc::IP_TOS, class)?;
    match option(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class) {
        // A socket of IPv4.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP)) => Ok(()),
        done => done,
    }
}

/// Which queue of the host packets of a socket take (SO_PRIORITY, tc-prio(8)); above 6 only with CAP_NET_ADMIN. [`set_dscp`] sets it, too, so call that first.
pub fn set_priority(fd: BorrowedFd<'_>, priority: u32) -> io::Result<()> {
    option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, priority as i32)
}

/// Bytes that may wait in the kernel before they leave for the first time (TCP_NOTSENT_LOWAT): with more it takes nothing.
pub fn set_unsent_max(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes.min(i32::MAX as u32) as i32)
}

/// Most bytes per second that leave over a socket (SO_MAX_PACING_RATE). `fq` on the interface keeps to it, and without it TCP itself.
pub fn set_pacing(fd: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    // SAFETY: the value outlives the call; since Linux 4.20 it may have 64 bits.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    check(done).map(|_| ())
}

/// What the kernel knows about a connection that may be dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silence {
    /// Milliseconds since anything came from the other end.
    pub heard_ms: u32,
    /// Whether something that was sent, or a question whether the other end is there, has had no answer even when it was repeated.
    pub is_waiting: bool,
}

/// How long the other end of a TCP connection has been silent (TCP_INFO).
pub fn silence(fd: BorrowedFd<'_>) -> io::Result<Silence> {
    // SAFETY: all-zero is a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: both live during the call, and `len` is the size of `info`.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut len)
    };
    check(done)?;
    let heard_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
    let repeated = info.tcpi_unacked > 0 && info.tcpi_retransmits > 1;
    Ok(Silence { heard_ms, is_waiting: repeated || info.tcpi_probes > 1 })
}

#[cfg(test)]
mod tests {
    use super::super::{connect_by, listen};
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsFd;

    #[test]
    fn marks_are_set() {
        let listener = listen(None, 0..=0, 0, 8).unwrap();
        let port = listener.local_addr().unwrap().port();
        for target in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let mut marked = Ok(());
            let from = Some((target, "lo"));
            let stream = connect_by(SocketAddr::new(target, port), from, |fd| {
                marked = set_dscp(fd, 46).and_then(|()| set_priority(fd, 6)).and_then(|()| set_unsent_max(fd, 4096));
                marked = std::mem::replace(&mut marked, Ok(())).and_then(|()| set_pacing(fd, 1_000_000));
            });
            let Ok(stream) = stream else { continue }; // A host without IPv6.
            marked.unwrap();
            assert_eq!(stream.local_addr().unwrap().ip(), target);
            let read = |level, name| {
                let (mut value, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
                // SAFETY: both live during the call.
                let done =
                    unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
                check(done).map(|_| value).unwrap()
            };
            let (level, name) = if target.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            assert_eq!(read(level, name) & !3, 46 << 2);
            assert_eq!(read(libc::SOL_SOCKET, libc::SO_PRIORITY), 6);
            assert_eq!(read(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), 4096);
            assert!(!silence(stream.as_fd()).unwrap().is_waiting);
        }
    }
}
