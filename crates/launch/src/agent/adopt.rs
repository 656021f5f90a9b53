//! Ranks that another launcher has started: they call their agent at an abstract socket and prove that they know the job's key.
//!
//! Such a rank is not this agent's child. The agent sees its end by the end of its connection or through a pidfd, without an exit code. Its output
//! belongs to its launcher. When a job has to end, the launcher gets the grace time to end it before the agent sends SIGKILL, so that
//! the exit code is what the launcher makes of the cause.

use super::rank::{Own, Rank};
use super::{Agent, Killing};
use crate::callers::Callers;
use crate::pollset::PollSet;
use crate::settings::CONNECT_TIMEOUT;
use base::log;
use protocol::control::adopt::{pair_key, rank_socket_name};
use protocol::control::tree::{JobSpec, Message, ROOT};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid};
use sys::watch::Watched;

/// How long a caller has for its proof.
const PROOF_LIMIT: Duration = Duration::from_secs(10);
/// Callers beyond this node's ranks that may be waiting for a proof.
const UNAUTHENTICATED_MAX: usize = 64;

/// Where ranks call.
pub struct RankListener {
    listener: UnixListener,
    callers: Callers<UnixStream>,
    meeting_key: [u8; 16],
    /// When ranks that have not called are given up.
    by: Instant,
    /// The rank that has started this agent, if it could be found.
    starter: Option<Watched>,
}

/// Pid of the rank that has started this process.
static STARTER: AtomicI32 = AtomicI32::new(0);

/// To be called before the first fork: should this process's parent end before it has called, the job is given up.
pub fn note_starter() {
    STARTER.store(std::os::unix::process::parent_id() as Pid, Ordering::Relaxed);
}

impl RankListener {
    fn open(job: &JobSpec, first: u32) -> std::io::Result<RankListener> {
        let name = rank_socket_name(job.meeting_key, first);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let now = Instant::now();
        let starter = Watched::open(STARTER.load(Ordering::Relaxed));
        // If it is gone already, there is nothing to wait for.
        let by = if starter.is_ok() { now + Duration::from_secs(CONNECT_TIMEOUT.value()) } else { now };
        Ok(RankListener {
            listener,
            callers: Callers::new(PROOF_LIMIT),
            meeting_key: job.meeting_key,
            by,
            starter: starter.ok(),
        })
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        set.add(&self.listener, true, false);
        self.callers.register(set);
        if self.by > Instant::now() {
            set.until(self.by);
            if let Some(starter) = &self.starter {
                set.add(starter, true, false);
            }
        }
    }

    fn accept(&mut self, set: &PollSet, most: usize) {
        if !set.readable(&self.listener) {
            return;
        }
        while let Ok((stream, _)) = self.listener.accept() {
            let challenged = pid_of(&stream).and_then(|_| self.callers.add(stream, most));
            if let Err(e) = challenged {
                log!(Warn, "dropped a caller at the socket for ranks: {e}");
            }
        }
    }

    /// Callers that have proved to be a rank.
    fn proved(&mut self, set: &PollSet) -> Vec<(u32, UnixStream, Pid)> {
        let mut proved = Vec::new();
        for (stream, outcome) in self.callers.poll(set, |rank| pair_key(self.meeting_key, rank)) {
            let met = outcome.map_err(|dropped| dropped.why).and_then(|met| {
                (&stream).write_all(&met.last)?;
                Ok((met.node, pid_of(&stream)?))
            });
            match met {
                Ok((rank, pid)) => proved.push((rank, stream, pid)),
                Err(e) => log!(Warn, "dropped a caller at the socket for ranks: {e}"),
            }
        }
        proved
    }
}

/// The process at the other end, which must be this user's.
fn pid_of(stream: &UnixStream) -> std::io::Result<Pid> {
    let (uid, pid) = sys::credentials::peer_of(stream.as_fd())?;
    if uid == sys::process::effective_uid() {
        Ok(pid)
    } else {
        Err(std::io::Error::other(format!("it belongs to user {uid}")))
    }
}

impl Agent {
    /// This node's ranks run already, or will.
    pub(super) fn await_ranks(&mut self, job: &JobSpec) {
        let mine = |(world, placed): (usize, &protocol::control::tree::Placed)| {
            (placed.node == self.node).then_some(world as u32)
        };
        let locals: Vec<u32> = job.ranks.iter().enumerate().filter_map(mine).collect();
        self.ranks = locals.iter().map(|world| Rank::absent(*world, Own::default())).collect();
        match RankListener::open(job, locals.first().copied().unwrap_or(0)) {
            Ok(rank_listener) => self.rank_listener = Some(rank_listener),
            Err(e) => {
                let why = format!("cannot open the socket for ranks: {e}");
                self.ranks.clear();
                self.send_up(ROOT, Message::NodeLost { node: self.node, why });
            }
        }
    }

    pub(super) fn poll_rank_listener(&mut self, set: &PollSet) {
        let Some(rank_listener) = &mut self.rank_listener else { return };
        rank_listener.accept(set, self.ranks.len() + UNAUTHENTICATED_MAX);
        let late = Instant::now() >= rank_listener.by;
        let given_up = rank_listener.starter.as_ref().is_some_and(|starter| set.readable(starter));
        if given_up || late {
            rank_listener.starter = None;
        }
        for (world, stream, pid) in rank_listener.proved(set) {
            let Some(rank) = self.ranks.iter_mut().find(|r| r.world == world && r.is_absent()) else {
                log!(Warn, "rank {world} has called twice, or is not one of this node's");
                continue;
            };
            rank.adopt(stream.into(), pid);
            let pids = vec![(world, pid as u32)];
            self.send_up(ROOT, Message::Started { node: self.node, agent_pid: std::process::id(), pids });
        }
        if self.ranks.iter_mut().any(|rank| rank.is_deserted(set)) {
            // What a killed launcher leaves has the grace time to end by itself.
            self.kill(false, 1);
        }
        let hopeless = late || given_up || self.killing == Killing::Killed;
        for at in 0..self.ranks.len() {
            let rank = &self.ranks[at];
            if rank.ended.is_none() && (rank.has_vanished(set) || (hopeless && rank.is_absent())) {
                let pid = rank.pid;
                self.on_rank_end(at, pid, Ended::Unseen);
            }
        }
        self.notice_idleness();
    }
}
