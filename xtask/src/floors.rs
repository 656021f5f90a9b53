//! The floors of `crates/mpi`: an import runs down, or stays on its floor.

use crate::imports::Import;
use std::path::Path;

/// The parts of the crate by floor, as crates/mpi/README.md explains them. The longest path counts.
const FLOORS: &[(u8, &[&str])] = &[
    // Leaves: what a process is, handles, statuses, errors, the critical section.
    (
        0,
        &[
            "agent", "bias", "call", "cs", "env", "errors", "handle", "inside", "job", "life", "psets", "status",
            "thread",
        ],
    ),
    // Objects.
    (1, &["attr", "buffer", "datatype", "errhandler", "fortran", "group", "info", "memory", "op", "owner"]),
    // The engine, progress and requests.
    (2, &["engine", "losses", "migration", "profile", "progress", "request", "sleepers", "transfer"]),
    // Point-to-point communication.
    (3, &["p2p"]),
    // Communicators.
    (4, &["comm"]),
    // Collectives, and what is made with them: communicators, topologies, files and windows.
    (5, &["coll", "constructors", "dynamic", "io", "partitioned", "recovery", "rma", "tool", "topo"]),
    // What puts it all together.
    (6, &["init", "lib", "session", "waits"]),
];

/// What is wrong with one import; `root` is the folder of `lib.rs`.
pub fn check(root: &Path, import: &Import) -> Option<String> {
    let (from, to) = (floor(root, &import.from), floor(root, &import.to));
    match (from, to) {
        (None, _) => Some(format!("{} has no floor in xtask/src/floors.rs", import.from.display())),
        (_, None) => Some(format!("{} has no floor in xtask/src/floors.rs", import.to.display())),
        (Some(from), Some(to)) if to > from => {
            Some(format!("`{}` runs up from floor {from} to floor {to}", import.path))
        }
        _ => None,
    }
}

fn floor(root: &Path, file: &Path) -> Option<u8> {
    let below = file.strip_prefix(root).ok()?.with_extension("");
    let parts = FLOORS.iter().flat_map(|(floor, parts)| parts.iter().map(move |part| (*floor, *part)));
    parts.filter(|(_, part)| below.starts_with(part)).max_by_key(|(_, part)| part.len()).map(|(floor, _)| floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::read;
    use std::path::PathBuf;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        let root = Path::new("src");
        read(root, &files).iter().filter_map(|import| check(root, import)).collect()
    }

    #[test]
    fn an_import_that_runs_up_is_found() {
        let found = complaints(&[
            ("src/lib.rs", "mod comm; mod group; mod handle; mod session;"),
            ("src/handle.rs", "pub struct Handle; #[cfg(test)] mod tests { use crate::comm::Comm; }"),
            ("src/group.rs", "use crate::handle::Handle; pub struct Group; fn f() { crate::session::init() }"),
            ("src/comm/mod.rs", "mod split; use crate::group::Group; pub struct Comm;"),
            ("src/comm/split.rs", "use super::Comm; use crate::session::init;"),
            ("src/session.rs", "use crate::{comm::Comm, group}; pub fn init() {}"),
        ]);
        let want = [
            "`crate::session::init` runs up from floor 4 to floor 6",
            "`crate::session::init` runs up from floor 1 to floor 6",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn every_part_has_a_floor() {
        let found = complaints(&[
            ("src/lib.rs", "mod handle; mod group; mod other;"),
            ("src/handle.rs", "pub struct Handle;"),
            ("src/other.rs", "use crate::handle::Handle;"),
            ("src/group.rs", "use crate::handle::Handle;"),
        ]);
        assert_eq!(found, ["src/other.rs has no floor in xtask/src/floors.rs"]);
    }
}
