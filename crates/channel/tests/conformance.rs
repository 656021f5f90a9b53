//! The conformance suite of `trait Transport` (`testkit::conformance`) over the real ones: several processes' transports in one thread, an agent played
//! by the test. Each set of channels runs in a process of its own, because settings are read once.

#[expect(dead_code, reason = "ranks in threads are for the tests through the engine")]
mod agent;

use base::Peer;
use channel::bootstrap::Bootstrap;
use channel::buffer::{RecvBuf, SendBuf};
use channel::memory::Exposed;
use channel::opened::Opened;
use channel::transports::Transports;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::Command;
use testkit::conformance::{Abilities, Pair, Rig, run};

const INNER: &str = "FERRULE_TEST_INNER";

struct Real {
    processes: Vec<Option<Opened>>,
    abilities: Abilities,
    pair: Pair,
    /// How often a process has moved.
    moves: u8,
    /// Buffers of the programs, until the transports are gone.
    memory: Vec<*mut [u8]>,
}

impl Real {
    fn new(node_of: &[u32], (from, to): (u32, u32)) -> Real {
        let open = |socket| Some(channel::open(Bootstrap::over(OwnedFd::from(socket)).unwrap()).unwrap());
        let processes = agent::start(node_of).into_iter().map(open).collect();
        let abilities = Abilities { dies: from != to, relocates: false, loses_lanes: false };
        Real { processes, abilities, pair: Pair { from: Peer(from), to: Peer(to) }, moves: 0, memory: Vec::new() }
    }

    /// Processes whose lanes are connections, or those of UCX.
    fn over_network() -> Real {
        let mut real = Real::new(&[0, 0, 0], (0, 1));
        real.abilities.relocates = true;
        real
    }

    /// Opens new workers, and tells the others. Those of the move before last must be closed.
    fn renew_workers(&mut self, peer: Peer) {
        let transports = self.transport(peer).expect("it lives");
        let before = transports.ucx_workers();
        let address = transports.renew_ucx().unwrap();
        assert!(transports.ucx_workers() <= 2 * address.workers.len(), "of {before} workers some should be closed");
        for opened in self.processes.iter_mut().flatten() {
            opened.endpoints.transport().moves_over_ucx(peer, address.clone());
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) -> *mut u8 {
        let place = Box::into_raw(bytes.into_boxed_slice());
        self.memory.push(place);
        place.cast()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.processes.clear();
        for place in self.memory.drain(..) {
            // SAFETY: from `Box::into_raw`; the transports, which had copies of the pointers, are gone.
            drop(unsafe { Box::from_raw(place) });
        }
    }
}

impl Rig for Real {
    type T = Transports;

    fn abilities(&self) -> Abilities {
        self.abilities
    }
    fn pair(&self) -> Pair {
        self.pair
    }
    fn size(&self) -> u32 {
        self.processes.len() as u32
    }
    fn transport(&mut self, at: Peer) -> Option<&mut Transports> {
        self.processes[at.0 as usize].as_mut().map(|opened| opened.endpoints.transport())
    }
    fn source(&mut self, bytes: &[u8]) -> SendBuf {
        let place = self.keep(bytes.to_vec());
        // SAFETY: the memory lives as long as the transports; it is only written when they say that they don't need it.
        unsafe { SendBuf::contiguous(place, bytes.len()) }
    }
    fn reuse(&mut self, source: &SendBuf) {
        let place = source.as_contiguous(0).expect("made above").cast_mut();
        // SAFETY: from `keep`, with this length, and no transport reads it now.
        unsafe { place.write_bytes(0xee, source.len()) };
    }
    fn sink(&mut self, len: usize) -> RecvBuf {
        let place = self.keep(vec![0; len]);
        // SAFETY: the memory lives as long as the transports.
        unsafe { RecvBuf::contiguous(place, len) }
    }
    fn bytes(&self, sink: &RecvBuf) -> Vec<u8> {
        let place = sink.as_contiguous(0).expect("made above");
        // SAFETY: from `keep`, with this length; this thread writes nothing meanwhile.
        unsafe { std::slice::from_raw_parts(place, sink.len()) }.to_vec()
    }
    fn region(&mut self, len: usize) -> Exposed {
        let place = self.keep(vec![0; len]);
        // SAFETY: the memory lives as long as the transports.
        unsafe { Exposed::new(place, len) }
    }
    fn kill(&mut self, peer: Peer) {
        self.processes[peer.0 as usize] = None;
    }
    fn lose_lane(&mut self, _: Pair, _: usize) {
        unreachable!("no real transport loses a lane alone")
    }
    /// The listener of a process is reached at all of its host's addresses, so it moves to the next one.
    /// Without TCP, a process gets new workers of UCX.
    fn relocate(&mut self, peer: Peer) {
        self.moves += 1;
        let Some(net) = self.transport(peer).and_then(|transports| transports.net()) else {
            return self.renew_workers(peer);
        };
        let port = net.listens_at().expect("it listens").port();
        let address = SocketAddr::from(([127, 0, 0, 1 + self.moves], port));
        for opened in self.processes.iter_mut().flatten() {
            opened.endpoints.transport().moves(peer, vec![address]);
        }
    }
}

/// Runs the test named `test` again in a process with these settings, and there `body`.
fn inside(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INNER).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(INNER, "1").envs(settings.iter().copied());
    let output = child.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "with {settings:?}:\n{text}");
    text.lines().filter(|line| line.contains("skipped: ")).for_each(|line| println!("{line}"));
}

#[test]
fn own() {
    inside("own", &[], || run(|| Real::new(&[0, 0], (0, 0))));
}

#[test]
fn shared_memory() {
    inside("shared_memory", &[("FERRULE_CHANNELS", "shm")], || run(|| Real::new(&[0, 0, 0], (0, 1))));
}

#[test]
fn shared_memory_without_cells() {
    let settings = [("FERRULE_CHANNELS", "shm"), ("FERRULE_CELLS", "0"), ("FERRULE_SINGLE_COPY", "off")];
    inside("shared_memory_without_cells", &settings, || run(|| Real::new(&[0, 0, 0], (0, 1))));
}

#[test]
fn tcp() {
    let settings = [("FERRULE_CHANNELS", "tcp"), ("FERRULE_LOG", "error")];
    inside("tcp", &settings, || run(Real::over_network));
}

#[test]
fn tcp_with_several_connections() {
    let settings = [("FERRULE_CHANNELS", "tcp"), ("FERRULE_LOG", "error"), ("FERRULE_LANES", "3")];
    inside("tcp_with_several_connections", &settings, || run(Real::over_network));
}

#[test]
fn tcp_authenticated() {
    let settings = [("FERRULE_CHANNELS", "tcp"), ("FERRULE_LOG", "error"), ("FERRULE_TCP_SECURITY", "mac")];
    inside("tcp_authenticated", &settings, || run(Real::over_network));
}

#[test]
fn tcp_encrypted() {
    let settings = [("FERRULE_CHANNELS", "tcp"), ("FERRULE_LOG", "error"), ("FERRULE_TCP_SECURITY", "encrypt")];
    inside("tcp_encrypted", &settings, || run(Real::over_network));
}

#[test]
fn tcp_encrypted_with_several_connections() {
    let settings = [
        ("FERRULE_CHANNELS", "tcp"),
        ("FERRULE_LOG", "error"),
        ("FERRULE_TCP_SECURITY", "encrypt"),
        ("FERRULE_LANES", "3"),
    ];
    inside("tcp_encrypted_with_several_connections", &settings, || run(Real::over_network));
}

/// Runs the suite over these transports of UCX, if libucp is there.
fn over_ucx(test: &str, transports: &str, lanes: &str) {
    let file = std::env::var("FERRULE_UCX_LIBRARY").unwrap_or_else(|_| "libucp.so.0".into());
    if let Err(why) = ucx::Ucx::load(&file) {
        return println!("skipped: {test}: {why} (Debian: libucx0)");
    }
    let settings = [
        ("FERRULE_CHANNELS", "ucx"),
        ("FERRULE_UCX", "on"),
        ("FERRULE_UCX_TRANSPORTS", transports),
        ("FERRULE_LANES", lanes),
        ("FERRULE_LOG", "error"),
        // UCX's shared memory tells of lost peers only then.
        ("UCX_POSIX_ERROR_HANDLING", "y"),
    ];
    inside(test, &settings, || run(Real::over_network));
}

#[test]
fn ucx_over_tcp() {
    over_ucx("ucx_over_tcp", "tcp", "1");
}

#[test]
fn ucx_over_tcp_with_several_lanes() {
    over_ucx("ucx_over_tcp_with_several_lanes", "tcp", "3");
}

#[test]
fn ucx_over_shared_memory() {
    over_ucx("ucx_over_shared_memory", "posix,cma", "1");
}

#[test]
fn region() {
    let path = std::env::temp_dir().join(format!("ferrule-conformance-{}", std::process::id()));
    if std::env::var_os(INNER).is_none() {
        std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    }
    let region = format!("{}:{}", 512 << 10, path.display());
    let settings = [("FERRULE_CHANNELS", "ivshmem"), ("FERRULE_TEST_REGION", &*region)];
    inside("region", &settings, || run(|| Real::new(&[0, 1], (0, 1))));
    if std::env::var_os(INNER).is_none() {
        std::fs::remove_file(path).unwrap();
    }
}
