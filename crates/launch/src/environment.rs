//! What a rank finds in its environment, and where programs are found.

use protocol::control::tree::App;
use std::ffi::{CString, OsStr, OsString};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;

/// Descriptor of the socket by which mpiexec can introduce an agent to others under the same kernel: the first one that `podman --preserve-fds` passes on.
pub const NODE_FD: i32 = 3;

/// The socket that `FERRULE_NODE_FD` names, if this agent has inherited one.
pub fn node_socket() -> Option<OwnedFd> {
    let number = std::env::var("FERRULE_NODE_FD").ok()?.parse().ok().filter(|n| *n > 2)?;
    sys::process::inherited_socket(number).ok()
}

/// A variable.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Variables of this or another launcher's job, which must not leak into a new one.
const STALE: &[&str] = &[
    "FERRULE_CONTROL_FD",
    "FERRULE_NODE_FD",
    "FERRULE_RANK",
    "FERRULE_SIZE",
    "FERRULE_LOCAL_RANK",
    "FERRULE_LOCAL_SIZE",
    "FERRULE_BOUND_TO",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI41",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "HYDI_CONTROL_FD",
];

/// Variables that say something about one host or login, which are not sent to others.
const HOST_SPECIFIC: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "HOST",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "TMP",
    "TEMP",
    "DISPLAY",
    "TERM_PROGRAM",
    "SHLVL",
    "_",
    "MAIL",
    "XAUTHORITY",
    "WINDOWID",
    "STY",
    "TMUX",
    "TMUX_PANE",
];
const HOST_SPECIFIC_PREFIXES: &[&str] = &["SSH_", "XDG_", "DBUS_", "GPG_", "GNOME_", "KDE_", "VSCODE_", "LC__"];

/// This process's environment without what belongs to another job.
pub fn inherited() -> Vec<Pair> {
    let all = std::env::vars_os().map(|(n, v)| (n.into_vec(), v.into_vec()));
    all.filter(|(name, _)| !STALE.iter().any(|s| s.as_bytes() == name)).collect()
}

/// Whether a variable is worth sending to another host.
pub fn travels(name: &[u8]) -> bool {
    !HOST_SPECIFIC.iter().any(|s| s.as_bytes() == name)
        && !HOST_SPECIFIC_PREFIXES.iter().any(|p| name.starts_with(p.as_bytes()))
        && !STALE.iter().any(|s| s.as_bytes() == name)
}

/// The value of the setting `name` (without `FERRULE_`) that the ranks of a program start with.
pub fn setting_of(app: &App, name: &str) -> Option<Vec<u8>> {
    let name = format!("FERRULE_{name}").into_bytes();
    let is_kept = app.keep.as_ref().is_none_or(|kept| kept.contains(&name));
    let own = || std::env::var_os(OsStr::from_bytes(&name)).filter(|_| is_kept).map(OsString::into_vec);
    app.set.iter().rfind(|(other, _)| *other == name).map(|(_, value)| value.clone()).or_else(own)
}

/// The settings of collectives that the ranks of a program start with, names and texts.
pub fn of_collectives(app: &App) -> Vec<(String, String)> {
    let names = mpi::coll::select::settings::TABLE.iter().map(|meta| meta.name);
    names.filter_map(|name| Some((name.into(), String::from_utf8(setting_of(app, name)?).ok()?))).collect()
}

/// `NAME=value` for exec; `None` if it has a zero byte or no name.
pub fn join(name: &[u8], value: &[u8]) -> Option<CString> {
    if name.is_empty() || name.contains(&b'=') {
        return None;
    }
    CString::new([name, b"=", value].concat()).ok()
}

/// Sets `name` in `env`, replacing an older value.
pub fn set(env: &mut Vec<Pair>, name: &[u8], value: &[u8]) {
    match env.iter_mut().find(|(n, _)| n == name) {
        Some(pair) => pair.1 = value.to_vec(),
        None => env.push((name.to_vec(), value.to_vec())),
    }
}

/// Makes programs find the MPI libraries that belong to this mpiexec first. A program that was built for another library of the
/// same ABI, or an image that has one of its own, would else start as so many jobs of one rank. The library with MPICH's ABI has a directory of its own,
/// where only its names are.
pub fn prefer_own_library(env: &mut Vec<Pair>, mpiexec: &std::path::Path) {
    let Some(lib) = mpiexec.parent().and_then(|bin| bin.parent()).map(|tree| tree.join("lib")) else { return };
    // The system's directories hold more than that one library, and are searched anyway.
    let system = ["/lib", "/usr/lib", "/usr/local/lib"].iter().any(|dir| lib == std::path::Path::new(dir));
    let mut own = Vec::new();
    if !system && lib.join("libmpi_abi.so.1").is_file() {
        own.push(lib.clone());
    }
    let mpich = lib.join("mpich");
    if mpich.join("libmpi.so.12").is_file() {
        own.push(mpich);
    }
    if own.is_empty() {
        return;
    }
    let own: Vec<&[u8]> = own.iter().map(|directory| directory.as_os_str().as_bytes()).collect();
    let older = env.iter().find(|(n, _)| n == b"LD_LIBRARY_PATH").map(|(_, v)| v.clone()).unwrap_or_default();
    let others = older.split(|b| *b == b':').filter(|part| !part.is_empty() && !own.contains(part));
    let parts: Vec<&[u8]> = own.iter().copied().chain(others).collect();
    set(env, b"LD_LIBRARY_PATH", &parts.join(&b':'));
}

/// The file that `name` means: itself if it has a slash, else the first executable of that name in `path`. Relative results
/// are below `directory`.
pub fn find_program(name: &[u8], path: Option<&OsStr>, directory: Option<&OsStr>) -> Result<CString> {
    let below = |file: std::path::PathBuf| match directory {
        Some(directory) => std::path::Path::new(directory).join(file),
        None => file,
    };
    let name_os = OsStr::from_bytes(name);
    let to_c = |file: std::path::PathBuf| CString::new(file.into_os_string().into_vec()).map_err(Error::from);
    if name.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    if name.contains(&b'/') {
        return to_c(below(name_os.into()));
    }
    let default = OsStr::new("/usr/local/bin:/usr/bin:/bin");
    let mut found = None;
    for folder in std::env::split_paths(path.unwrap_or(default)) {
        let file = below(folder.join(name_os));
        if let Ok(meta) = std::fs::metadata(&file)
            && meta.is_file()
        {
            if meta.permissions().mode() & 0o111 != 0 {
                return to_c(file);
            }
            found = Some(ErrorKind::PermissionDenied);
        }
    }
    Err(found.unwrap_or(ErrorKind::NotFound).into())
}

/// `word` so that a shell reads it as one word.
pub fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_beside_mpiexec_goes_first() {
        let tree = std::env::temp_dir().join(format!("ferrule-test-tree-{}", std::process::id()));
        std::fs::create_dir_all(tree.join("lib")).unwrap();
        let (mpiexec, lib) = (tree.join("bin/mpiexec"), tree.join("lib").into_os_string().into_vec());
        let mut env = vec![(b"LD_LIBRARY_PATH".to_vec(), b"/mpich/lib:/cuda".to_vec())];
        prefer_own_library(&mut env, &mpiexec);
        assert_eq!(env[0].1, b"/mpich/lib:/cuda");
        std::fs::write(tree.join("lib/libmpi_abi.so.1"), "").unwrap();
        for _ in 0..2 {
            prefer_own_library(&mut env, &mpiexec);
            assert_eq!(env[0].1, [&lib[..], b":/mpich/lib:/cuda"].concat());
        }
        env.clear();
        prefer_own_library(&mut env, &mpiexec);
        assert_eq!(env[0].1, lib);
        std::fs::create_dir_all(tree.join("lib/mpich")).unwrap();
        std::fs::write(tree.join("lib/mpich/libmpi.so.12"), "").unwrap();
        for _ in 0..2 {
            prefer_own_library(&mut env, &mpiexec);
            assert_eq!(env[0].1, [&lib[..], b":", &lib, b"/mpich"].concat());
        }
        std::fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn programs_are_found_as_a_shell_would() {
        let path = OsStr::new("/nonexistent:/bin:/usr/bin");
        assert!(find_program(b"sh", Some(path), None).unwrap().to_bytes().ends_with(b"/sh"));
        assert_eq!(find_program(b"./x", Some(path), Some(OsStr::new("/d"))).unwrap().to_bytes(), b"/d/./x");
        assert_eq!(find_program(b"no-such-program", Some(path), None).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn quoting_survives_a_shell() {
        assert_eq!(shell_quote("a-b/c"), "a-b/c");
        assert_eq!(shell_quote("it's"), r"'it'\''s'");
        assert_eq!(shell_quote(""), "''");
    }

    #[test]
    fn settings_of_collectives_are_the_programs() {
        let set = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let app = App {
            argv: Vec::new(),
            set: vec![set("FERRULE_COLL_BCAST", "flat"), set("FERRULE_CELLS", "0"), set("FERRULE_COLL_BCAST", "chain")],
            keep: Some(Vec::new()),
            working_directory: Vec::new(),
            directory_required: false,
            preloaded: None,
        };
        assert_eq!(of_collectives(&app), [("COLL_BCAST".to_string(), "chain".to_string())]);
    }

    #[test]
    fn a_job_inside_a_job_starts_afresh() {
        assert!(!travels(b"FERRULE_CONTROL_FD"));
        assert!(!travels(b"SSH_CONNECTION"));
        assert!(travels(b"LD_LIBRARY_PATH"));
    }
}
