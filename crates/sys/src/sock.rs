//! TCP sockets: non-blocking connect, scatter/gather transfer from raw memory, options, local addresses.

mod options;

pub use options::{Silence, set_dscp, set_pacing, set_priority, set_unsent_max, silence};

use std::ffi::{CStr, CString};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// One piece of memory of a scatter/gather transfer; layout of `struct iovec`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Piece(libc::iovec);

impl Piece {
    /// `len` bytes at `at`; checked by nobody until it is used.
    #[inline]
    pub const fn new(at: *const u8, len: usize) -> Piece {
        Piece(libc::iovec { iov_base: at.cast_mut().cast(), iov_len: len })
    }

    /// Where it is.
    #[inline]
    pub const fn as_ptr(&self) -> *const u8 {
        self.0.iov_base.cast()
    }

    /// Its bytes.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    #[inline]
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn encode(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is larger than and aligned for every sockaddr.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

fn stream_socket(family: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the value is an int that outlives the call.
    let done = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size_of::<i32>() as libc::socklen_t)
    };
    check(done).map(|_| ())
}

/// Bytes of the stream that one segment of a TCP connection carries at most.
pub fn segment_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let (mut value, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: both live during the call, and `len` is the size of `value`.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, (&raw mut value).cast(), &raw mut len)
    };
    check(done)?;
    usize::try_from(value).ok().filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::InvalidData.into())
}

fn family(address: &SocketAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

fn listen_at(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    use std::os::fd::AsFd;
    let fd = stream_socket(family(&address))?;
    option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if address.is_ipv6() {
        option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    let (storage, len) = encode(address);
    // SAFETY: `storage` holds a sockaddr of `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), len) })?;
    // SAFETY: no memory is passed.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(TcpListener::from(fd))
}

/// A non-blocking listener at `address`, or on all addresses of both families (IPv4 only if the kernel has no IPv6), at the first free
/// port of `ports`, beginning with the `first`-th; `0..=0` lets the kernel choose.
pub fn listen(
    address: Option<IpAddr>,
    ports: RangeInclusive<u16>,
    first: u32,
    backlog: i32,
) -> io::Result<TcpListener> {
    let (low, count) = (*ports.start(), u32::from(ports.end().saturating_sub(*ports.start())) + 1);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for i in 0..count {
        let port = low + ((first % count + i) % count) as u16;
        let at = |address| listen_at(SocketAddr::new(address, port), backlog);
        let listener = match address {
            Some(address) => at(address),
            None => at(Ipv6Addr::UNSPECIFIED.into()).or_else(|e| match e.kind() {
                io::ErrorKind::AddrInUse => Err(e),
                _ => at(Ipv4Addr::UNSPECIFIED.into()),
            }),
        };
        match listener {
            Ok(listener) => return Ok(listener),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Starts to connect. The outcome shows when the socket is writable, by [`TcpStream::take_error`].
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    connect_by(address, None, |_| ())
}

/// As [`connect`], from the local address and interface that are given, if there are any; `prepare` sees the socket before its first packet leaves. What the
/// kernel refuses of the interface alone is left as it is: the address stays.
pub fn connect_by(
    address: SocketAddr,
    from: Option<(IpAddr, &str)>,
    prepare: impl FnOnce(BorrowedFd<'_>),
) -> io::Result<TcpStream> {
    use std::os::fd::AsFd;
    let fd = stream_socket(family(&address))?;
    if let Some((local, interface)) = from {
        // The port is chosen at connect, so that many connections may have the same one.
        let _ = option(fd.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        let (storage, len) = encode(SocketAddr::new(local, 0));
        // SAFETY: `storage` holds a sockaddr of `len` bytes.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), len) })?;
        let len = interface.len() as libc::socklen_t;
        // SAFETY: the name's bytes outlive the call.
        unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_ptr().cast(), len)
        };
    }
    prepare(fd.as_fd());
    let (storage, len) = encode(address);
    // SAFETY: `storage` holds a sockaddr of `len` bytes.
    let done = unsafe { libc::connect(fd.as_raw_fd(), (&raw const storage).cast(), len) };
    if done < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
    }
    Ok(TcpStream::from(fd))
}

/// Accepts one connection, non-blocking and closed on exec; `WouldBlock` if there is none.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null address pointers are allowed.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    // SAFETY: the kernel has just given us this descriptor.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(check(fd)?) });
    let mut peer = stream.peer_addr()?;
    peer.set_ip(peer.ip().to_canonical());
    Ok((stream, peer))
}

/// What is set on every data connection.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// The connection fails if sent bytes stay unacknowledged for so long; 0 leaves it to the kernel.
    pub user_timeout_ms: u32,
    /// Seconds of silence before the kernel probes whether the peer is there; 0 for never.
    pub keepalive_s: u32,
    /// How many such probes may go unanswered before the connection fails.
    pub keepalive_probes: u32,
    /// Size of the kernel's send buffer in bytes; 0 leaves it to the kernel.
    pub send_buffer_bytes: u32,
    /// Size of the kernel's receive buffer in bytes; 0 leaves it to the kernel.
    pub receive_buffer_bytes: u32,
}

/// Sets no-delay and `tuning`. What the kernel refuses is left as it is, except no-delay.
pub fn tune(fd: BorrowedFd<'_>, tuning: &Tuning) -> io::Result<()> {
    option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    let soft = |level, name, value: u32| {
        let _ = option(fd, level, name, value.min(i32::MAX as u32) as i32);
    };
    if tuning.user_timeout_ms > 0 {
        soft(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, tuning.user_timeout_ms);
    }
    if tuning.keepalive_s > 0 {
        soft(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        soft(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, tuning.keepalive_s);
        soft(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, tuning.keepalive_s.div_ceil(3));
        soft(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, tuning.keepalive_probes);
    }
    if tuning.send_buffer_bytes > 0 {
        soft(libc::SOL_SOCKET, libc::SO_SNDBUF, tuning.send_buffer_bytes);
    }
    if tuning.receive_buffer_bytes > 0 {
        soft(libc::SOL_SOCKET, libc::SO_RCVBUF, tuning.receive_buffer_bytes);
    }
    Ok(())
}

/// An address of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Local {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// How many bits of it name the network.
    pub prefix: u32,
}

fn message(pieces: &[Piece]) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len();
    header
}

/// Sends what the kernel takes of `pieces`, without waiting and without SIGPIPE.
///
/// # Safety
/// Each piece must be readable memory for the call.
#[inline]
pub unsafe fn send(fd: BorrowedFd<'_>, pieces: &[Piece]) -> io::Result<usize> {
    let header = message(pieces);
    // SAFETY: the header points at `pieces`, whose memory the caller vouches for.
    let n = unsafe { libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Receives what is there into `pieces`, without waiting; 0 is the end of the stream.
///
/// # Safety
/// Each piece must be writable memory that nobody holds a reference to for the call.
#[inline]
pub unsafe fn receive(fd: BorrowedFd<'_>, pieces: &[Piece]) -> io::Result<usize> {
    let mut header = message(pieces);
    // SAFETY: the header points at `pieces`, whose memory the caller vouches for.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Bytes that were sent but that the peer's kernel hasn't acknowledged.
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (= TIOCOUTQ) writes one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(bytes.max(0) as usize)
}

/// Waits until `fd` is ready: true if it is, false after `timeout_ms` or a signal.
pub fn wait_one(fd: BorrowedFd<'_>, read: bool, write: bool, timeout_ms: i32) -> io::Result<bool> {
    let events = if read { libc::POLLIN } else { 0 } | if write { libc::POLLOUT } else { 0 };
    let mut set = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: one pollfd that outlives the call.
    match check(unsafe { libc::poll(&mut set, 1, timeout_ms) }) {
        Ok(n) => Ok(n > 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

/// Says to the other side that nothing more is sent. What isn't a socket stays as it is.
pub fn end_of_sending(fd: BorrowedFd<'_>) {
    // SAFETY: no memory is passed.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
}

/// The addresses of every interface that is up, loopback ones last, of each those of IPv4 first; link-local IPv6 addresses, which mean nothing to
/// other hosts, are left out.
pub fn local_addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for (_, address) in interface_addresses()? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// As [`local_addresses`], with the names of the interfaces.
pub fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    Ok(local_networks()?.into_iter().map(|local| (local.interface, local.address)).collect())
}

/// # Safety
/// `at` is null or points at a sockaddr whose family says how large it is.
unsafe fn decode(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    match i32::from(unsafe { (*at).sa_family }) {
        libc::AF_INET => {
            // SAFETY: as above.
            let raw = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes())))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(raw.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// As [`interface_addresses`], with the networks.
pub fn local_networks() -> io::Result<Vec<Local>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs stores a list that we free below.
    check(unsafe { libc::getifaddrs(&mut list) })?;
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: the list is valid until freeifaddrs.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: addresses and masks of the list are null or sockaddrs.
        let (address, mask) = unsafe { (decode(entry.ifa_addr), decode(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        let prefix = match mask {
            Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
            Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
            None if address.is_ipv4() => 32,
            None => 128,
        };
        let link_local = matches!(address, IpAddr::V6(six) if six.segments()[0] & 0xffc0 == 0xfe80);
        if !link_local {
            // SAFETY: the name is a C string of the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(Local { interface: name.to_string_lossy().into_owned(), address, prefix });
        }
    }
    // SAFETY: the list came from getifaddrs and isn't used any more.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|local| (local.address.is_loopback(), local.address.is_ipv6()));
    Ok(found)
}

/// A unix socket that listens at `path`, which only those may call whom `mode` lets write. For a process with one thread: the
/// umask is changed meanwhile.
pub fn listen_at_path(path: &Path, mode: u32) -> io::Result<UnixListener> {
    // SAFETY: plain system call.
    let old = unsafe { libc::umask(0o777 & !mode) };
    let listener = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(old) };
    listener
}

/// Whether `path` lies on a file system that other hosts may see too; a socket there proves little and is slow.
pub fn is_network_directory(path: &Path) -> bool {
    // NFS, SMB, CIFS, SMB2, Lustre, GPFS, Ceph, AFS, Coda, FUSE, 9P, BeeGFS, PVFS.
    const NETWORK: [u32; 13] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0bd0_0bd0,
        0x4750_4653,
        0x00c3_6400,
        0x5346_414f,
        0x7375_7245,
        0x6573_5546,
        0x0102_1997,
        0x1983_0326,
        0x2003_0528,
    ];
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return true };
    // SAFETY: a terminated path and a valid out pointer.
    unsafe {
        let mut stat: libc::statfs = zeroed();
        libc::statfs(path.as_ptr(), &raw mut stat) != 0 || NETWORK.contains(&(stat.f_type as u32))
    }
}

/// Whether this process may create files in `path`.
pub fn is_writable_directory(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a terminated path.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn bytes_travel_in_pieces() {
        let listener = listen(None, 0..=0, 0, 8).unwrap();
        let port = listener.local_addr().unwrap().port();
        let a = connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        wait_one(listener.as_fd(), true, false, 5000).unwrap();
        let (b, _) = accept(&listener).unwrap();
        assert!(wait_one(a.as_fd(), false, true, 5000).unwrap());
        assert!(a.take_error().unwrap().is_none());
        let tuning = Tuning {
            user_timeout_ms: 1000,
            keepalive_s: 9,
            keepalive_probes: 3,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
        };
        tune(a.as_fd(), &tuning).unwrap();
        let (head, tail) = (*b"head", *b"tail");
        // SAFETY: both arrays live on.
        let sent = unsafe { send(a.as_fd(), &[Piece::new(head.as_ptr(), 4), Piece::new(tail.as_ptr(), 4)]) };
        assert_eq!(sent.unwrap(), 8);
        assert!(wait_one(b.as_fd(), true, false, 5000).unwrap());
        let mut got = [0u8; 16];
        // SAFETY: `got` is not borrowed.
        let n = unsafe { receive(b.as_fd(), &[Piece::new(got.as_mut_ptr(), 16)]) }.unwrap();
        assert_eq!(&got[..n], b"headtail");
    }

    #[test]
    fn a_taken_port_of_a_range_is_passed_over() {
        let first = listen(None, 0..=0, 0, 1).unwrap().local_addr().unwrap().port();
        let range = first..=first.saturating_add(8);
        let a = listen(None, range.clone(), 0, 1).unwrap();
        let b = listen(None, range, 0, 1).unwrap();
        assert_ne!(a.local_addr().unwrap().port(), b.local_addr().unwrap().port());
    }

    #[test]
    fn loopback_is_listed_last() {
        let all = local_addresses().unwrap();
        let first_loop = all.iter().position(IpAddr::is_loopback).unwrap_or(all.len());
        assert!(all[first_loop..].iter().all(IpAddr::is_loopback));
    }
}
