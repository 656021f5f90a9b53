//! From the command line to containers: which ranks share one, what must be visible inside, which variables it gets.

use crate::cli::{Host, Keep, Options};
use crate::container::{Container, Engine};
use crate::environment;
use crate::place::Placement;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories of which every image has its own: binding the host's over it would break the image.
const OF_THE_IMAGE: &[&str] =
    &["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"];
/// Directories that are too wide to bind as a whole.
const TOO_WIDE: &[&str] = &["/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/usr/local", "/var", "/var/tmp"];

/// Whether files of others are in `path` too, so that only single files may be bound.
fn is_shared(path: &Path) -> bool {
    TOO_WIDE.iter().any(|p| path == Path::new(p)) || OF_THE_IMAGE.iter().any(|p| path.starts_with(p))
}

/// The options with hosts in the place of containers that run already, so that ranks are placed on them.
pub fn options_for_existing(options: &Options) -> Result<Options, String> {
    if options.hosts.is_some() || options.apps.iter().any(|a| a.hosts.is_some()) {
        return Err(
            "--container exec places ranks in the containers of --container-name; hosts can't be given too".into()
        );
    }
    let names = &options.container.names;
    let total: u32 = options.apps.iter().map(|a| a.count.unwrap_or(names.len() as u32)).fold(0, u32::saturating_add);
    let each = options.container.ranks_each.or(options.per_node).unwrap_or(total.div_ceil(names.len() as u32)).max(1);
    let host = |name: &String| Host { name: name.clone(), slots: Some(each), max_slots: None };
    let mut chosen = options.clone();
    chosen.per_node = None;
    chosen.hosts = Some(names.iter().map(host).collect());
    Ok(chosen)
}

/// Splits each host's ranks into containers of `each` ranks; also the host of each container.
pub fn split(placement: Placement, each: Option<u32>) -> (Placement, Vec<String>) {
    let mut counts = vec![0u32; placement.hosts.len()];
    let mut known: Vec<(u32, u32)> = Vec::new();
    let ranks = placement.ranks.iter().map(|(host, app)| {
        let count = &mut counts[*host as usize];
        let key = (*host, each.map_or(0, |each| *count / each));
        *count += 1;
        let node = known.iter().position(|k| *k == key).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        });
        (node as u32, *app)
    });
    let ranks = ranks.collect();
    let hosts: Vec<String> = known.iter().map(|(host, _)| placement.hosts[*host as usize].clone()).collect();
    (Placement { hosts: hosts.clone(), ranks, universe: placement.universe }, hosts)
}

/// What all containers of a job have in common.
pub struct Shared {
    engine: Engine,
    job_id: u64,
    /// Name of the job directory.
    pub job_dir: String,
    agent: String,
    binds: Vec<(String, bool)>,
    env: Vec<(String, String)>,
    copies: Vec<(String, String)>,
    copy_to: String,
}

impl Shared {
    /// Plans what is common; `agent` is mpiexec's path here.
    pub fn new(options: &Options, engine: Engine, job_id: u64, agent: &str) -> Result<Shared, String> {
        let job_dir = crate::tmpdir::random_name();
        let copy_to = format!("/tmp/{job_dir}");
        let copies = if options.container.copy { copies(options, agent)? } else { Vec::new() };
        let agent = if options.container.copy { format!("{copy_to}/bin/mpiexec") } else { agent.to_string() };
        let binds = if engine == Engine::Exec { Vec::new() } else { binds(options, &agent)? };
        Ok(Shared { engine, job_id, job_dir, agent, binds, env: agent_environment(options), copies, copy_to })
    }

    /// The container for one node.
    pub fn container(&self, options: &Options, name: &str, all_names: &[String]) -> Container {
        let chosen = &options.container;
        Container {
            engine: self.engine,
            command: chosen.command.clone(),
            name: name.into(),
            image: chosen.image.clone().unwrap_or_default(),
            job_id: self.job_id,
            job_dir: self.job_dir.clone(),
            agent: self.agent.clone(),
            binds: self.binds.clone(),
            env: self.env.clone(),
            network: chosen.network.clone().unwrap_or_default(),
            args: chosen.args.clone(),
            copies: self.copies.clone(),
            copy_to: self.copy_to.clone(),
            all_names: if self.engine == Engine::Exec { all_names.to_vec() } else { Vec::new() },
        }
    }

    /// The program's name inside: where it has been copied, if it has.
    pub fn program(&self, index: usize) -> Option<Vec<u8>> {
        let prefix = format!("program{index}/");
        let copy = self.copies.iter().find(|(_, name)| name.starts_with(&prefix))?;
        Some(format!("{}/{}", self.copy_to, copy.1).into_bytes())
    }
}

/// The working directory of a program: the user's for it, the one for all containers, or the present one.
pub fn directory(options: &Options, app: &crate::cli::AppOptions) -> Option<PathBuf> {
    match (&app.directory, &options.container.directory) {
        (Some(own), _) => std::path::absolute(own).ok(),
        (None, Some(inside)) => Some(inside.into()),
        (None, None) => std::env::current_dir().ok(),
    }
}

/// The directory of an installation, and whether only its files may be bound because others have files there too.
fn installation(agent: &Path) -> (PathBuf, bool) {
    let bin = agent.parent().unwrap_or(Path::new("/"));
    let root = if bin.ends_with("bin") { bin.parent().unwrap_or(bin) } else { bin };
    (root.to_path_buf(), is_shared(root))
}

/// The file of the host that a program's name means, if it is given by a path.
fn program_file(options: &Options, app: &crate::cli::AppOptions) -> Option<PathBuf> {
    let name = app.argv.first().filter(|n| n.as_bytes().contains(&b'/'))?;
    let file = directory(options, app)?.join(name);
    // Without dots in the middle, so that prefixes can be compared.
    let file =
        if file.components().any(|c| c == std::path::Component::ParentDir) { file.canonicalize().ok()? } else { file };
    file.is_file().then_some(file)
}

/// What is bound into a new container, at its own path: (path, may be written).
fn binds(options: &Options, agent: &str) -> Result<Vec<(String, bool)>, String> {
    let mut all: Vec<(PathBuf, bool)> = Vec::new();
    let (root, only_files) = installation(Path::new(agent));
    if only_files {
        let files = ["bin/mpiexec", "lib/libmpi_abi.so.1", "lib/libmpi_abi.so"].map(|f| root.join(f));
        all.extend(files.into_iter().filter(|f| f.is_file()).map(|f| (f, false)));
        all.extend(
            Some(root.join("lib/mpich")).filter(|directory| directory.is_dir()).map(|directory| (directory, false)),
        );
    } else if root.is_dir() {
        all.push((root, false));
    }
    for app in &options.apps {
        let own = app.directory.is_some() || options.container.directory.is_none();
        let directory = directory(options, app).filter(|d| own && d.is_dir() && *d != Path::new("/"));
        if let Some(directory) = directory.filter(|d| !OF_THE_IMAGE.iter().any(|p| d.starts_with(p))) {
            all.push((directory, true));
        }
        if let Some(file) = program_file(options, app)
            && !OF_THE_IMAGE.iter().any(|p| file.starts_with(p) && !file.starts_with("/usr/local"))
        {
            let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
            all.push(if is_shared(&folder) { (file, false) } else { (folder, false) });
        }
    }
    let mut chosen: Vec<(String, bool)> = Vec::new();
    // Outer directories first; what is inside one with the same rights needs no bind of its own.
    all.sort_by_key(|(path, writable)| (path.components().count(), !writable));
    for (path, writable) in all {
        let covers = |(p, w): &(String, bool)| {
            let enough = *w == writable || (*w && !is_installation(&path, agent));
            path == Path::new(p) || (path.starts_with(p) && enough)
        };
        let covered = chosen.iter().any(covers);
        if covered {
            continue;
        }
        let text = path.to_str().ok_or("a path that is to be bound into containers is not UTF-8")?;
        if text.contains([':', ',']) {
            return Err(format!("{text} can't be bound into a container: the engines don't take ':' or ',' in a path"));
        }
        chosen.push((text.into(), writable));
    }
    Ok(chosen)
}

/// The installation stays read-only also below a working directory that is not.
fn is_installation(path: &Path, agent: &str) -> bool {
    Path::new(agent).starts_with(path)
}

/// What is copied into containers that run already: from, name there.
fn copies(options: &Options, agent: &str) -> Result<Vec<(String, String)>, String> {
    let text = |path: PathBuf| path.to_str().map(String::from).ok_or("a path to copy is not UTF-8".to_string());
    let (root, _) = installation(Path::new(agent));
    let mut all = vec![(agent.to_string(), "bin/mpiexec".to_string())];
    for name in [
        "lib/libmpi_abi.so.1",
        "lib/mpich/libmpi.so.12",
        "lib/mpich/libmpich.so.12",
        "lib/mpich/libmpifort.so.12",
        "lib/mpich/libmpichfort.so.12",
    ] {
        let library = root.join(name);
        if library.is_file() {
            all.push((text(library)?, name.into()));
        }
    }
    for (index, app) in options.apps.iter().enumerate() {
        if let Some(file) = program_file(options, app) {
            let name = file.file_name().unwrap_or(OsStr::new("program")).to_string_lossy().into_owned();
            all.push((text(file)?, format!("program{index}/{name}")));
        }
    }
    Ok(all)
}

/// Our settings; what else the user wants goes to the ranks alone.
fn agent_environment(options: &Options) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in environment::inherited() {
        if let (Ok(name), Ok(value)) = (String::from_utf8(name), String::from_utf8(value))
            && name.starts_with("FERRULE_")
        {
            all.push((name, value));
        }
    }
    for (name, value) in options.set.iter().filter(|(name, _)| name.starts_with("FERRULE_")) {
        if let Some(value) = value.as_ref().and_then(|v| v.to_str()) {
            all.retain(|(n, _)| n != name);
            all.push((name.clone(), value.into()));
        }
    }
    // Which directory is shared is found out, not handed down.
    all.retain(|(name, _)| name != "FERRULE_JOB_DIR");
    all
}

/// Whether a variable of mpiexec's goes to ranks in containers: an image has an environment of its own, so only what is meant for the
/// job, and what the user lists.
pub fn travels(name: &[u8], keep: &Keep) -> bool {
    let listed = |names: &Vec<String>| names.iter().any(|n| n.as_bytes() == name);
    match keep {
        Keep::Only(names) => listed(names),
        Keep::All => (name.starts_with(b"FERRULE_") && name != b"FERRULE_JOB_DIR") || name.starts_with(b"OMP_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Command, parse};
    use crate::place::place;

    fn options(line: &str) -> Options {
        match parse(line.split_whitespace().map(Into::into)) {
            Ok(Command::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn installations_are_found() {
        assert_eq!(installation(Path::new("/home/u/dist/bin/mpiexec")), ("/home/u/dist".into(), false));
        assert_eq!(installation(Path::new("/usr/local/bin/mpiexec")), ("/usr/local".into(), true));
        assert_eq!(installation(Path::new("/w/target/debug/mpiexec")), ("/w/target/debug".into(), false));
    }

    #[test]
    fn ranks_share_containers_as_told() {
        let nodes = |line: &str| {
            let options = options(line);
            let (placement, hosts) = split(place(&options, "here").unwrap(), options.container.ranks_each);
            let ranks: Vec<u32> = placement.ranks.iter().map(|r| r.0).collect();
            (ranks, hosts.join(" "))
        };
        let docker = "--container docker --container-image i";
        assert_eq!(nodes(&format!("{docker} -n 3 x")), (vec![0, 0, 0], "here".into()));
        assert_eq!(
            nodes(&format!("{docker} --ranks-per-container 1 -n 3 x")),
            (vec![0, 1, 2], "here here here".into())
        );
        assert_eq!(
            nodes(&format!("{docker} --ranks-per-container 2 -n 5 -hosts a:3,b x")),
            (vec![0, 0, 1, 2, 1], "a a b".into())
        );
    }

    #[test]
    fn existing_containers_are_filled_in_turn() {
        let nodes = |line: &str| {
            let options = options(line);
            let placement = place(&options_for_existing(&options).unwrap(), "here").unwrap();
            placement.ranks.iter().map(|r| placement.hosts[r.0 as usize].clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(nodes("--container exec --container-name a,b -n 5 x"), "a a a b b");
        assert_eq!(nodes("--container exec --container-name a,b --ranks-per-container 1 -n 3 x"), "a b a");
        assert_eq!(nodes("--container exec --container-name a,b x"), "a b");
        let both = options("--container exec --container-name a -hosts h -n 1 x");
        assert!(options_for_existing(&both).unwrap_err().contains("hosts"));
    }

    #[test]
    fn the_image_keeps_its_own_directories() {
        let temporary = std::env::temp_dir().join(format!("ferrule-binds-{}", std::process::id()));
        let dist = temporary.join("dist");
        std::fs::create_dir_all(dist.join("bin")).unwrap();
        let agent = dist.join("bin/mpiexec").to_str().unwrap().to_string();
        let of = |line: &str| {
            let chosen = binds(&options(&format!("--container docker --container-image i {line}")), &agent).unwrap();
            chosen.into_iter().map(|(p, w)| format!("{p}{}", if w { "" } else { ":ro" })).collect::<Vec<_>>()
        };
        let (t, d) = (temporary.to_str().unwrap(), dist.to_str().unwrap());
        assert_eq!(of("--container-workdir /data -n 1 /bin/hostname"), [format!("{d}:ro")]);
        assert_eq!(of(&format!("-n 1 -wdir {t} x")), [t.to_string(), format!("{d}:ro")]);
        assert_eq!(of(&format!("-n 1 -wdir {d} x")), [d.to_string()]);
        assert_eq!(of("-n 1 -wdir / x"), [format!("{d}:ro")]);
        assert_eq!(of("-n 1 -wdir /usr/share x"), [format!("{d}:ro")]);
        std::fs::write(temporary.join("prog"), "").unwrap();
        assert_eq!(of(&format!("--container-workdir /data -n 1 {t}/prog")), [format!("{t}:ro")]);
        std::fs::remove_dir_all(&temporary).unwrap();
    }

    #[test]
    fn an_image_keeps_its_environment() {
        assert!(travels(b"FERRULE_LOG", &Keep::All) && travels(b"OMP_NUM_THREADS", &Keep::All));
        assert!(
            !travels(b"PATH", &Keep::All) && !travels(b"LD_LIBRARY_PATH", &Keep::All) && !travels(b"LANG", &Keep::All)
        );
        assert!(travels(b"LANG", &Keep::Only(vec!["LANG".into()])));
    }
}
