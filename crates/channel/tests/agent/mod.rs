//! A node agent for tests, in a thread per rank: hands out endpoint addresses with descriptors, and tells who is dead.

use base::WorldRank;
use channel::bootstrap::SharedBootstrap;
use channel::bootstrap::{Bootstrap, EndpointAddress, JobInfo};
use channel::opened::Opened;
use channel::transports::{self, Transports};
use channel::waiting::Waiting;
use protocol::control::frame::{self, Splitter};
use protocol::control::rank::Region;
use protocol::control::{ToAgent, ToRank, VERSION, decode};
use protocol::engine::Engine;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Left = Option<(EndpointAddress, Vec<OwnedFd>)>;

struct Agent {
    node_of: Vec<u32>,
    sockets: Vec<UnixStream>,
    addresses: Mutex<Vec<Left>>,
}

/// A file that the nodes share as if they were VMs, and how much of it each rank gets: `FERRULE_TEST_REGION=BYTES:PATH`.
fn region() -> Option<(u64, String)> {
    let text = std::env::var("FERRULE_TEST_REGION").ok()?;
    let (bytes, path) = text.split_once(':')?;
    Some((bytes.parse().ok()?, path.into()))
}

impl Agent {
    /// A rank's part of the region, if there is one.
    fn part(&self, rank: usize) -> Region {
        let Some((len, path)) = region() else { return Region::default() };
        let whole = shm::region::Region::open(path.as_ref(), 1).unwrap();
        let extent = whole.claim(rank as u64 + 1, len, 1).expect("the file is large enough");
        let (offset, _) = whole.place(&extent);
        Region { path: path.into_bytes(), id: whole.id(), offset, len, why: String::new() }
    }

    fn tell(&self, rank: usize, message: &ToRank, fds: &[OwnedFd]) {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        // A rank that has ended doesn't listen.
        let _ = sys::fdpass::send(self.sockets[rank].as_fd(), &frame::frame(message), &borrowed, true);
    }

    /// Sends the endpoint address of `peer` as soon as there is one.
    fn answer(&self, rank: usize, peer: WorldRank) {
        loop {
            if let Some((address, fds)) = &self.addresses.lock().unwrap()[peer.0 as usize] {
                let near = self.node_of[rank] == self.node_of[peer.0 as usize];
                let fds = if near { fds.as_slice() } else { &[] };
                let message = ToRank::Address {
                    peer,
                    address: Box::new(address.clone()),
                    fd_count: fds.len() as u8,
                    far: String::new(),
                };
                return self.tell(rank, &message, fds);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn serve(&self, rank: usize) {
        let (mut splitter, mut fds, mut bytes, mut clean) = (Splitter::default(), Vec::new(), [0; 4096], false);
        loop {
            let n = sys::fdpass::recv(self.sockets[rank].as_fd(), &mut bytes, &mut fds, true).unwrap_or(0);
            if n == 0 {
                break;
            }
            splitter.feed(&bytes[..n]);
            while let Some(body) = splitter.next_frame(frame::RANK_LIMIT).unwrap() {
                match decode::<ToAgent>(body).unwrap() {
                    ToAgent::Register { address, .. } => {
                        self.addresses.lock().unwrap()[rank] = Some((address, std::mem::take(&mut fds)));
                    }
                    ToAgent::Request { peer } => self.answer(rank, peer),
                    ToAgent::Finalize {} => {
                        clean = true;
                        self.tell(rank, &ToRank::Finalized {}, &[]);
                    }
                    _ => {}
                }
            }
        }
        for other in (0..self.sockets.len()).filter(|r| !clean && *r != rank) {
            let gone = ToRank::PeerGone {
                peer: WorldRank(rank as u32),
                host: "here".into(),
                why: "killed by the test".into(),
            };
            self.tell(other, &gone, &[]);
        }
    }

    fn job(&self, rank: usize) -> JobInfo {
        let node = self.node_of[rank];
        let size = self.node_of.len() as u32;
        JobInfo {
            version: VERSION,
            rank: WorldRank(rank as u32),
            size,
            job_id: 1,
            key: [6; 16],
            node_of: self.node_of.clone(),
            node_names: vec!["n0".into(), "n1".into()],
            kernel_of: vec![0, 1],
            local_ranks: (0..size).filter(|r| self.node_of[*r as usize] == node).collect(),
            host_of: region().map_or(Vec::new(), |_| vec![0, 0]),
            region: self.part(rank),
            universe_size: size,
            continue_on_failure: true,
            launched: true,
            ..JobInfo::default()
        }
    }
}

/// The parts of a rank.
pub struct Rank {
    pub engine: Engine<Transports>,
    pub waiting: Waiting,
    bootstrap: SharedBootstrap,
}

impl Rank {
    fn new(Opened { endpoints, waiting, bootstrap, .. }: Opened) -> Rank {
        Rank { engine: Engine::new(endpoints), waiting, bootstrap }
    }

    /// Its number.
    pub fn me(&mut self) -> u32 {
        self.engine.endpoints().transport().me().0
    }

    /// Ranks of the job.
    pub fn size(&mut self) -> u32 {
        self.engine.endpoints().transport().job().size
    }
}

/// How a rank ends: in good order if it says so, else it is dead to its peers.
#[derive(Default)]
pub struct End(bool);

impl End {
    /// In good order.
    pub fn clean(&mut self) {
        self.0 = true;
    }
}

/// Starts an agent for a job, and gives each rank's end of its socket.
pub fn start(node_of: &[u32]) -> Vec<UnixStream> {
    let (theirs, sockets): (Vec<_>, Vec<_>) = node_of.iter().map(|_| UnixStream::pair().unwrap()).unzip();
    let addresses = Mutex::new(node_of.iter().map(|_| None).collect());
    let agent = Arc::new(Agent { node_of: node_of.to_vec(), sockets, addresses });
    for rank in 0..node_of.len() {
        agent.tell(rank, &ToRank::Job { job: Box::new(agent.job(rank)) }, &[]);
        let agent = agent.clone();
        std::thread::spawn(move || agent.serve(rank));
    }
    theirs
}

/// Runs `body` as each rank of a job, in threads; `node_of` says on which node each rank is.
pub fn run_job(node_of: &[u32], body: fn(&mut Rank, &mut End)) {
    // The others would wait for a rank that has failed.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        std::process::exit(101);
    }));
    let ranks: Vec<_> = start(node_of)
        .into_iter()
        .map(|socket: UnixStream| {
            std::thread::spawn(move || {
                let bootstrap = Bootstrap::over(OwnedFd::from(socket)).unwrap();
                let mut rank = Rank::new(channel::open(bootstrap).unwrap());
                let mut end = End::default();
                body(&mut rank, &mut end);
                if end.0 {
                    transports::close(rank.engine.endpoints());
                    rank.bootstrap.borrow_mut().finalize().unwrap();
                }
            })
        })
        .collect();
    for rank in ranks {
        rank.join().unwrap();
    }
}
