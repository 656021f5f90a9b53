//! Joining a job that another launcher has started: its ranks start the node agents.
//!
//! ```text
//! each node's first rank: put host name          fence          rank 0: starts the head process, puts its invitation, the meeting key and the nodes
//! fence          each other node's first rank: starts an agent with the invitation          every rank: calls its node's agent
//! ```
//! There are two fences, whatever the number of ranks. From then on everything is as under our own mpiexec: endpoint addresses and descriptors, deaths, waits.
//! Invariant: the agents are no children of the ranks, and end by themselves when the node's ranks are gone.

use super::launcher::{Launcher, Place, get_long, put_long};
use super::{AGENT_PATH, Bootstrap};
use crate::handshake;
use base::{Result, WorldRank, ensure, fail, hex, log};
use protocol::control::adopt::{PLAN_MAX, Plan, pair_key, rank_socket_name};
use protocol::control::handshake::Handshake;
use protocol::control::{VERSION, encode};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use sys::process::{Ended, Spawn, signals};

/// How long a rank waits for its agent, which its node's first rank has just started.
const PATIENCE: Duration = Duration::from_secs(60);

/// Joins the job of `launcher`.
pub fn join(mut launcher: Box<dyn Launcher>) -> Result<Bootstrap> {
    let place = launcher.place().clone();
    ensure!(place.rank < place.size, ERR_OTHER, "the launcher gives a rank beyond the size of the job");
    if place.size == 1 {
        let mut alone = Bootstrap::singleton();
        let job = std::rc::Rc::make_mut(&mut alone.job);
        job.app_num = place.app_num;
        job.universe_size = place.universe_size.max(1);
        alone.launcher = Some(launcher);
        return Ok(alone);
    }
    match enter(launcher.as_mut(), &place) {
        Ok(mut bootstrap) => {
            bootstrap.adopted(place.app_num);
            if let Some(link) = &mut bootstrap.link {
                link.obeys_end = !launcher.keeps_code();
            }
            bootstrap.launcher = Some(launcher);
            Ok(bootstrap)
        }
        Err(e) => {
            // The others are about to wait for this rank.
            sys::process::drain_outputs();
            launcher.abort(1, e.origin);
            Err(e)
        }
    }
}

fn enter(launcher: &mut dyn Launcher, place: &Place) -> Result<Bootstrap> {
    let key = exchange(launcher)?;
    let bootstrap = Bootstrap::over(call(key, place)?)?;
    let sound = bootstrap.job.rank == WorldRank(place.rank) && bootstrap.job.size == place.size;
    ensure!(sound, ERR_OTHER, "the node agent describes another job than the launcher");
    Ok(bootstrap)
}

/// Starts what this rank has to start; gives the key with which it finds its agent.
fn exchange(launcher: &mut dyn Launcher) -> Result<[u8; 16]> {
    let Place { rank, leader, .. } = *launcher.place();
    if rank == leader {
        launcher.put(&host_key(rank), &own_host())?;
    }
    launcher.fence()?;
    if rank == 0 {
        let key = sys::process::random();
        launcher.put("ferrule-key", &hex::encode(&key))?;
        found(launcher, key)?;
    }
    launcher.fence()?;
    if rank == leader && rank != 0 {
        let nodes = get_long(launcher, 0, "ferrule-nodes")?;
        let Some(node) = nodes.split(',').position(|first| first.parse() == Ok(leader)) else {
            fail!(ERR_OTHER, "rank 0 does not know this node");
        };
        let invitation = get_long(launcher, 0, "ferrule-invitation")?.replace('/', " ");
        let words = ["--adopt-agent".to_string(), node.to_string()];
        start(&words, format!("{invitation}\n").as_bytes(), false)?;
    }
    match hex::decode(&launcher.get(0, "ferrule-key")?).and_then(|key| key.try_into().ok()) {
        Some(key) => Ok(key),
        None => fail!(ERR_OTHER, "the launcher's key-value space holds something else than was stored"),
    }
}

fn host_key(leader: u32) -> String {
    format!("ferrule-host-{leader}")
}

/// A name that any launcher's wire can carry.
fn own_host() -> String {
    let host = sys::process::host_name();
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).take(60).collect();
    if host.is_empty() { "localhost".into() } else { host }
}

/// Rank 0: starts the head process, and tells the others how to reach it.
fn found(launcher: &mut dyn Launcher, meeting_key: [u8; 16]) -> Result {
    let leaders = launcher.leaders()?;
    ensure!(leaders.len() == launcher.place().size as usize, ERR_OTHER, "the launcher does not place all ranks");
    let mut nodes: Vec<u32> = leaders.clone();
    nodes.sort_unstable();
    nodes.dedup();
    let number = |leader: &u32| nodes.binary_search(leader).unwrap_or(0) as u32;
    let hosts = nodes.iter().map(|leader| launcher.get(*leader, &host_key(*leader))).collect::<Result<Vec<_>>>()?;
    let directory = std::env::current_dir().map(|d| d.as_os_str().as_bytes().to_vec()).unwrap_or_default();
    let plan = Plan {
        version: VERSION,
        launcher: launcher.name().into(),
        meeting_key,
        hosts,
        node_of: leaders.iter().map(number).collect(),
        universe_size: launcher.place().universe_size,
        working_directory: directory,
    };
    let plan = encode(&plan);
    ensure!(plan.len() <= PLAN_MAX, ERR_OTHER, "the job is too large");
    let bytes = [&(plan.len() as u32).to_le_bytes(), plan.as_slice()].concat();
    let invitation = start(&["--adopt-front".into()], &bytes, true)?;
    if nodes.len() > 1 {
        let list: Vec<String> = nodes.iter().map(u32::to_string).collect();
        put_long(launcher, "ferrule-nodes", &list.join(","))?;
        // The wires have no blanks in values.
        put_long(launcher, "ferrule-invitation", &invitation.trim_end().replace(' ', "/"))?;
    }
    Ok(())
}

/// mpiexec as it lies beside this library.
fn agent_path() -> Result<PathBuf> {
    let set = AGENT_PATH.value();
    if !set.is_empty() {
        return Ok(set.into());
    }
    let library = sys::watch::own_file().unwrap_or_default();
    let beside = library.parent().and_then(|lib| lib.parent()).map(|tree| tree.join("bin/mpiexec"));
    if let Some(path) = beside.filter(|path| path.is_file()) {
        return Ok(path);
    }
    log!(
        Error,
        "no bin/mpiexec beside {}: under another launcher the library starts node agents with it; set FERRULE_AGENT_PATH",
        library.display()
    );
    fail!(ERR_OTHER, "ferrule's mpiexec is not found")
}

/// Runs mpiexec with `words` and that standard input; gives the first line of its output if `answers`.
fn start(words: &[String], input: &[u8], answers: bool) -> Result<String> {
    let path = agent_path()?;
    match try_start(&path, words, input, answers) {
        Ok(line) => Ok(line),
        Err(e) => {
            log!(Error, "cannot run {} {}: {e} (FERRULE_AGENT_PATH)", path.display(), words.join(" "));
            fail!(ERR_OTHER, "cannot start a node agent")
        }
    }
}

fn try_start(path: &std::path::Path, words: &[String], input: &[u8], answers: bool) -> std::io::Result<String> {
    let program = CString::new(path.as_os_str().as_bytes())?;
    let words = words.iter().map(|word| CString::new(word.as_str())).collect::<std::result::Result<Vec<_>, _>>()?;
    let argv = [vec![program.clone()], words].concat();
    let env: Vec<CString> = std::env::vars_os()
        .filter_map(|(n, v)| CString::new([n.as_bytes(), b"=", v.as_bytes()].concat()).ok())
        .collect();
    let (their_input, our_input) = std::io::pipe()?;
    let (our_output, their_output) = std::io::pipe()?;
    let stderr = std::io::stderr();
    let fds = [(their_input.as_fd(), 0), (their_output.as_fd(), 1), (stderr.as_fd(), 2)];
    let pid = sys::process::spawn(&Spawn {
        own_group: true,
        ignore: &[signals::INT, signals::TSTP],
        ..Spawn::new(&program, &argv, &env, &fds)
    })
    .map_err(|(_, e)| e)?;
    drop((their_input, their_output));
    let mut our_input = File::from(OwnedFd::from(our_input));
    our_input.write_all(input)?;
    drop(our_input);
    let mut line = String::new();
    if answers {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(our_output), &mut line)?;
    }
    // It has left a process behind that is nobody's child.
    match sys::watch::wait_for(pid) {
        Ended::Exit(0) | Ended::Unseen if !answers || line.ends_with('\n') => Ok(line),
        _ => Err(std::io::Error::other("it has not started")),
    }
}

/// Calls the agent of this rank's node.
fn call(meeting_key: [u8; 16], place: &Place) -> Result<OwnedFd> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    loop {
        match try_call(meeting_key, place) {
            Ok(stream) => return Ok(stream.into()),
            Err(e) if Instant::now() > deadline || e.kind() == std::io::ErrorKind::PermissionDenied => {
                log!(Error, "cannot reach the node agent that rank {} has started on this node: {e}", place.leader);
                fail!(ERR_OTHER, "no node agent");
            }
            Err(_) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn try_call(meeting_key: [u8; 16], place: &Place) -> std::io::Result<UnixStream> {
    let stream =
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(rank_socket_name(meeting_key, place.leader))?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut child = Handshake::of_child(place.rank, sys::process::random());
    let met = handshake::drive(&stream, &stream, &mut child, |rank| pair_key(meeting_key, rank))?;
    if met.is_none() {
        return Err(std::io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
}
