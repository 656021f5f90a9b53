//! From the command line to the description of the job.

use crate::cli::{Keep, MapBy, Options, StdinTo};
use crate::place::{Placement, place};
use crate::{dial, environment, settings};
use protocol::control::VERSION;
use protocol::control::tree::{ALL, App, Bind, JobSpec, Launcher, Placed, ROOT};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The job, and how many of its nodes (the first ones) are forked by mpiexec.
pub struct Plan {
    /// The job.
    pub job: JobSpec,
    /// Nodes on this host.
    pub local_nodes: u32,
}

/// How agents are started.
enum How {
    Fork,
    Template(Vec<String>),
}

/// Plans the job; an error is a sentence for the user.
pub fn plan(options: &Options) -> Result<Plan, String> {
    settings::parse_ports(settings::PORT_RANGE.value())?;
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let here = if here.trim().is_empty() { "localhost" } else { here.trim() };
    let placement = place(options, here)?;
    let text = options.launcher.as_deref().unwrap_or(settings::LAUNCHER.value());
    let how = launcher(text)?;
    let hosts_named = options.hosts.is_some() || options.apps.iter().any(|a| a.hosts.is_some());
    let is_local = |host: &String| match &how {
        How::Fork => true,
        How::Template(_) if text != "ssh" => !hosts_named,
        How::Template(_) => !hosts_named || dial::is_local(host),
    };
    let local: Vec<bool> = placement.hosts.iter().map(is_local).collect();
    let local_nodes = local.iter().filter(|l| **l).count() as u32;
    let (hosts, ranks) = local_first(&placement, &local);
    let nodes = hosts.len() as u32;
    // Agents inside containers can't run the template of another container, so a template's tree is flat unless asked for.
    let default_width = if text == "ssh" { settings::TREE_WIDTH.value() as u32 } else { nodes };
    let width = options.tree_width.unwrap_or(default_width).max(local_nodes).max(1);
    let remote = local_nodes < nodes;
    let mut random = [0; 24];
    sys::process::random(&mut random);
    let job = JobSpec {
        version: VERSION,
        job_id: random.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)),
        rank_key: random.last_chunk().copied().unwrap_or_default(),
        hosts,
        apps: options.apps.iter().map(|app| app_spec(app, options, remote)).collect::<Result<_, _>>()?,
        universe_size: placement.universe,
        launcher: Launcher {
            template: if let How::Template(words) = how { words } else { Vec::new() },
            agent_path: agent_path(options)?,
            width,
            timeout_s: settings::CONNECT_TIMEOUT.value() as u32,
            ports: settings::PORT_RANGE.value().into(),
        },
        bind_to: bind_to(options)? as u8,
        map_by: if let MapBy::Slot(bind) = options.map_by { bind as u8 } else { 0 },
        report_bindings: options.report_bindings,
        continue_on_failure: options.continue_on_failure,
        stdin_rank: stdin_rank(options, ranks.len())?,
        ranks,
        interactive: std::io::IsTerminal::is_terminal(&std::io::stdin()),
        verbose: options.verbose,
        grace_ms: settings::KILL_GRACE.value() as u32,
    };
    Ok(Plan { job, local_nodes })
}

fn launcher(text: &str) -> Result<How, String> {
    match text {
        "fork" | "local" => Ok(How::Fork),
        "ssh" => {
            let words = ["ssh", "-T", "-o", "BatchMode=yes", "{host}", "exec {command}"];
            Ok(How::Template(words.map(String::from).to_vec()))
        }
        template if template.contains("{command}") => {
            let words = crate::cli::words_of(template.as_bytes()).map_err(|e| format!("launcher '{template}': {e}"))?;
            Ok(How::Template(words.into_iter().map(|w| w.to_string_lossy().into_owned()).collect()))
        }
        _ => Err(format!("launcher '{text}' is neither ssh nor fork nor a command with {{command}} in it")),
    }
}

/// Numbers the nodes so that those of this host come first: they are children of the root in any tree.
fn local_first(placement: &Placement, local: &[bool]) -> (Vec<String>, Vec<Placed>) {
    let mut order: Vec<usize> = (0..local.len()).collect();
    order.sort_by_key(|i| !local[*i]);
    let mut number = vec![0u32; order.len()];
    for (new, old) in order.iter().enumerate() {
        number[*old] = new as u32;
    }
    let mut counts = vec![0u32; order.len()];
    let ranks = placement.ranks.iter().map(|(host, app)| {
        let node = number[*host as usize];
        counts[node as usize] += 1;
        Placed { node, app: *app, local: counts[node as usize] - 1 }
    });
    let ranks = ranks.collect();
    (order.iter().map(|i| placement.hosts[*i].clone()).collect(), ranks)
}

fn agent_path(options: &Options) -> Result<String, String> {
    let set = settings::AGENT_PATH.value();
    if let Some(path) = options.agent_path.as_deref().or(Some(set).filter(|s| !s.is_empty())) {
        return Ok(path.into());
    }
    let path = std::env::current_exe().map_err(|e| format!("cannot tell where mpiexec is: {e}"))?;
    Ok(path.to_string_lossy().into_owned())
}

fn bind_to(options: &Options) -> Result<Bind, String> {
    match options.bind_to {
        Some(bind) => Ok(bind),
        None => crate::cli::bind_to(settings::BIND_TO.value()),
    }
}

fn stdin_rank(options: &Options, size: usize) -> Result<u32, String> {
    match options.stdin {
        StdinTo::All => Ok(ALL),
        StdinTo::None => Ok(ROOT),
        StdinTo::Rank(rank) if (rank as usize) < size => Ok(rank),
        StdinTo::Rank(rank) => Err(format!("--stdin {rank}: the job has only {size} ranks")),
    }
}

fn app_spec(app: &crate::cli::AppOptions, options: &Options, remote: bool) -> Result<App, String> {
    let keep = match app.keep.as_ref().unwrap_or(&options.keep) {
        Keep::All => None,
        Keep::Only(names) => Some(names.iter().map(|n| n.as_bytes().to_vec()).collect::<Vec<_>>()),
    };
    let mut set = Vec::new();
    if remote {
        // Other hosts' agents have another environment; the local one's is this.
        for (name, value) in environment::inherited() {
            if environment::travels(&name) && keep.as_ref().is_none_or(|k| k.contains(&name)) {
                set.push((name, value));
            }
        }
    }
    for (name, value) in options.set.iter().chain(&app.set) {
        let value = match value {
            Some(value) => Some(value.clone()),
            None => std::env::var_os(name),
        };
        match value {
            Some(value) => environment::set(&mut set, name.as_bytes(), value.as_bytes()),
            None => eprintln!("mpiexec: warning: variable {name} of option -x is not set"),
        }
    }
    let directory = match &app.directory {
        Some(directory) => {
            std::path::absolute(directory).map_err(|e| format!("working directory: {e}"))?.into_os_string()
        }
        None => std::env::current_dir().map_or_else(|_| OsString::from("/"), std::path::PathBuf::into_os_string),
    };
    Ok(App {
        argv: app.argv.iter().map(|a| a.as_bytes().to_vec()).collect(),
        set,
        keep,
        working_directory: directory.as_bytes().to_vec(),
        directory_required: app.directory.is_some(),
    })
}
