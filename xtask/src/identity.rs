//! Who may know ranks of `MPI_COMM_WORLD`, and make endpoints from numbers (docs/design/0025): communicators, the launcher's side of a process, the edge of
//! transports, and what speaks to people. Everything else gets endpoints and hands them on.

use crate::tokens::{Token, tokens};
use std::path::Path;

/// The crates in which nobody else may. The launcher owns the numbering.
const CRATES: &[&str] = &["base", "shm", "protocol", "channel", "mpi", "abi"];

/// What tells a world rank.
const RANKS: &[&[&str]] = &[
    &["WorldRank"],
    &["ProcId"],
    &["peer_of_rank"],
    &["world_size"],
    &["local_ranks"],
    &["job", ".", "rank"],
    &["job", ".", "size"],
    &["job", "(", ")", ".", "rank"],
    &["job", "(", ")", ".", "size"],
];

/// Files and folders that may know world ranks, and why.
const KNOW_RANKS: &[(&str, &str)] = &[
    ("base/src/ids.rs", "what they are"),
    ("base/src/lib.rs", "what they are"),
    ("protocol/src/processes.rs", "the table"),
    ("protocol/src/realm.rs", "numbers of those who make communicators"),
    ("protocol/src/control/", "what ranks, agents and mpiexec tell each other"),
    ("channel/src/bootstrap.rs", "the launcher's side"),
    ("channel/src/bootstrap/", "the launcher's side"),
    ("channel/src/exchange.rs", "the launcher's side"),
    ("channel/src/exchange/", "the launcher's side"),
    ("channel/src/finder.rs", "the launcher's side"),
    ("channel/src/locality.rs", "the launcher says who is near"),
    ("channel/src/wait.rs", "the launcher says how many are near"),
    ("channel/src/offload.rs", "the launcher says how many are near"),
    ("channel/src/workers.rs", "workers have numbers as ranks have"),
    ("channel/src/transports.rs", "the edge: lanes are opened as the launcher says"),
    ("channel/src/transports/epoch.rs", "the edge: the launcher says whose nodes move"),
    ("channel/src/transports/inboxes.rs", "the edge: the order of senders in an inbox"),
    ("channel/src/transports/jobs.rs", "the edge: processes of other jobs"),
    ("channel/src/tcp/hello.rs", "the edge: who calls whom"),
    ("channel/src/ucx/wire.rs", "the edge: who calls whom"),
    ("channel/src/tcp/ids.rs", "the edge: who calls whom"),
    ("channel/src/profile.rs", "for people"),
    ("channel/src/why.rs", "for people"),
    ("channel/src/protocols.rs", "for people: it plays two processes"),
    ("mpi/src/recovery.rs", "mpiexec counts votes by rank"),
    ("mpi/src/job.rs", "what the launcher has told"),
    ("mpi/src/info.rs", "what the launcher has told"),
    ("mpi/src/psets.rs", "what the launcher has told"),
    ("mpi/src/life.rs", "tells the launcher who is to end"),
    ("mpi/src/waits.rs", "tells the launcher who waits for whom"),
    ("mpi/src/coll/job_choices.rs", "choices of communicators that have no parent"),
    ("mpi/src/constructors/", "communicators: their members travel as processes"),
];

/// Files that may make an endpoint from a number, and why.
const MAKE_ENDPOINTS: &[(&str, &str)] = &[
    ("base/src/ids.rs", "what they are"),
    ("protocol/src/processes.rs", "the table"),
    ("protocol/src/endpoint.rs", "its entries are endpoints"),
    ("channel/src/protocols.rs", "for people: it plays two processes"),
    ("mpi/src/group.rs", "a group of the first endpoints in order is stored as their number"),
    ("mpi/src/job.rs", "a process alone"),
];

/// The lines of a file that know more than they may. Tests make up their processes.
pub fn complaints(path: &Path, text: &str) -> Vec<(usize, String)> {
    let Some(part) = sources(path) else { return Vec::new() };
    let is_allowed = |list: &[(&str, &str)]| {
        list.iter().any(|(place, _)| part == *place || place.ends_with('/') && part.starts_with(place))
    };
    let tokens = tokens(text);
    let tokens = &tokens[..tests_begin(&tokens)];
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let rest = &tokens[at..];
        if !is_allowed(KNOW_RANKS)
            && let Some(known) = RANKS.iter().find(|known| begins(rest, known))
        {
            found.push((token.line, format!("`{}`: world ranks are for {WHO}", known.concat())));
        }
        let made = begins(rest, &["Peer", "("]) || begins(rest, &["map", "(", "Peer", ")"]);
        if made && !is_allowed(MAKE_ENDPOINTS) {
            found.push((
                token.line,
                "an endpoint is not made from a number, but asked for (protocol::processes)".into(),
            ));
        }
    }
    found
}

const WHO: &str = "communicators, the launcher's side and the edge of transports (xtask/src/identity.rs)";

/// The path of a source file below `crates`, if it is checked.
fn sources(path: &Path) -> Option<&str> {
    let part = path.strip_prefix("crates").ok()?.to_str()?;
    let (name, rest) = part.split_once('/')?;
    let is_test = part.ends_with("tests.rs") || part.contains("/tests/");
    (CRATES.contains(&name) && rest.starts_with("src/") && !is_test).then_some(part)
}

fn begins(tokens: &[Token], with: &[&str]) -> bool {
    tokens.len() >= with.len() && tokens.iter().zip(with).all(|(token, text)| token.text == *text)
}

/// Where the module of a file's tests begins, which is its last one.
fn tests_begin(tokens: &[Token]) -> usize {
    let is_begin = |at: &usize| begins(&tokens[*at..], &["#", "[", "cfg", "(", "test", ")", "]", "mod"]);
    (0..tokens.len()).find(is_begin).unwrap_or(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        complaints(Path::new(path), text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn who_knows_a_world_rank_is_found() {
        let text = "use base::WorldRank; // Peer(1)\nfn f(job: &JobInfo) -> bool {\n    job.rank.0 < job.size\n}\nfn g() { bootstrap.job().size }";
        assert_eq!(lines("crates/mpi/src/coll/bcast.rs", text), [1, 3, 3, 5]);
        assert_eq!(lines("crates/mpi/src/constructors/split.rs", text), []);
        assert_eq!(lines("crates/channel/src/bootstrap/adopt.rs", text), []);
        assert_eq!(lines("crates/channel/src/tcp/settle.rs", text), [1, 3, 3, 5]);
        assert_eq!(lines("crates/launch/src/head/mod.rs", text), []);
        assert_eq!(lines("crates/channel/src/tcp/tests.rs", text), []);
    }

    #[test]
    fn who_makes_an_endpoint_is_found() {
        let text =
            "enum E { Lost(Peer) }\nfn f(rank: i32) -> Peer {\n    Peer(rank as u32)\n}\nfn g() { (0..n).map(Peer) }";
        assert_eq!(lines("crates/protocol/src/engine/eager.rs", text), [3, 5]);
        assert_eq!(lines("crates/protocol/src/endpoint.rs", text), []);
    }

    #[test]
    fn tests_make_up_their_processes() {
        let text = "#[cfg(test)]\nfn f() { Peer(1) }\n#[cfg(test)]\nmod tests {\n    fn f() { Peer(1) }\n}";
        assert_eq!(lines("crates/mpi/src/p2p/send.rs", text), [2]);
    }

    #[test]
    fn every_place_that_is_allowed_exists() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for (place, _) in KNOW_RANKS.iter().chain(MAKE_ENDPOINTS) {
            assert!(crates.join(place).exists(), "{place}");
        }
    }
}
