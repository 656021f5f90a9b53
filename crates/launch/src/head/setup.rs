//! From the command line to the description of the job.

use super::containers;
use crate::children::expand;
use crate::cli::{BindTo, Keep, MapBy, Options, StdinTo};
use crate::container::{Engine, advice};
use crate::place::{Placement, place};
use crate::preload::plan as preload;
use crate::{abi, dial, environment, settings};
use protocol::control::VERSION;
use protocol::control::exchange::{ORIGINAL_RANKS_MAX, Scheme, Startup};
use protocol::control::tree::{ALL, App, Bind, CoreRange, JobSpec, Launcher, Placed, ROOT};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The job, and how many of its nodes (the first ones) are forked by mpiexec.
pub struct Plan {
    /// The job.
    pub job: JobSpec,
    /// Nodes on this host.
    pub local_nodes: u32,
    /// How the nodes are started if they are containers; empty if not.
    pub containers: Vec<ContainerLaunch>,
    /// The host of each node, where that isn't the node's name: nodes are containers.
    pub homes: Vec<String>,
    /// Files to be sent.
    pub preload: preload::Plan,
}

impl Plan {
    /// The host that a node is on, in the user's words.
    pub fn host_of_node(&self, node: u32) -> &str {
        let names = if self.homes.is_empty() { &self.job.hosts } else { &self.homes };
        names.get(node as usize).map_or("", String::as_str)
    }

    /// A line for each rank: its host and its command.
    pub fn described(&self) -> Vec<String> {
        let line = |(rank, placed): (usize, &Placed)| {
            let words = self.job.apps.get(placed.app as usize).map_or(&[][..], |app| &app.argv);
            let command: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            format!("rank {rank} on {}: {}", self.host_of_node(placed.node), command.join(" "))
        };
        self.job.ranks.iter().enumerate().map(line).collect()
    }

    /// The host of each rank.
    pub fn hosts_of_ranks(&self) -> Vec<&str> {
        self.job.ranks.iter().map(|rank| self.host_of_node(rank.node)).collect()
    }
}

/// How a container is started.
#[derive(Clone)]
pub struct ContainerLaunch {
    /// The command that runs its supervisor.
    pub words: Vec<String>,
    /// What the supervisor reads first.
    pub preamble: String,
    /// Name for messages.
    pub shown: String,
    /// Name of the job directory, if the container is on this host.
    pub job_dir: Option<String>,
}

/// How agents are started.
enum How {
    Fork,
    Template(Vec<String>),
}

/// Plans the job; an error is a sentence for the user.
pub fn plan(options: &Options) -> Result<Plan, String> {
    channel::tcp::listen_at::ports_of(settings::PORT_RANGE.value())?;
    let text = launcher_text(options);
    let how = launcher(text)?;
    let hosts_named =
        options.hosts.is_some() || options.rank_file.is_some() || options.apps.iter().any(|a| a.hosts.is_some());
    let is_local = |host: &String| match &how {
        How::Fork => true,
        // Slurm's names of hosts are their own, so that the one on this host can be forked.
        How::Template(_) if text != "ssh" && !text.starts_with("srun ") => !hosts_named,
        How::Template(_) => !hosts_named || dial::is_local(host),
    };
    let (placement, homes) = place_all(options, &sys::process::host_name())?;
    let local: Vec<bool> = placement.hosts.iter().map(|host| homes.is_empty() && is_local(host)).collect();
    let home_is_local: Vec<bool> = homes.iter().map(is_local).collect();
    let local_nodes = local.iter().filter(|l| **l).count() as u32;
    let (hosts, ranks) = local_first(&placement, &local);
    let nodes = hosts.len() as u32;
    // Agents inside containers can't run the template of another container, so a template's tree is flat unless asked for.
    let flat = text != "ssh" || !homes.is_empty();
    let default_width = if flat { nodes } else { settings::TREE_WIDTH.value() as u32 };
    let startup = startup(options)?;
    let serial = startup.scheme().described().serial;
    let chosen = options.tree_width.filter(|_| homes.is_empty() && !serial);
    // A scheme that launches one agent after another has a flat tree: mpiexec launches all.
    let width = chosen.unwrap_or(if serial { nodes } else { default_width }).max(local_nodes).max(1);
    let remote = local_nodes < nodes;
    let apps = options.apps.iter().map(|app| app_spec(app, options, remote)).collect::<Result<Vec<_>, _>>()?;
    let discover = nodes > 1 && (options.container.engine.is_some() || looks_for_same_kernel(&how, &apps));
    let binding = binding(options)?;
    let mut job = JobSpec {
        version: VERSION,
        job_id: u64::from_le_bytes(sys::process::random()),
        rank_key: sys::process::random(),
        hosts,
        universe_size: placement.universe,
        launcher: Launcher {
            template: if let How::Template(words) = how { words } else { Vec::new() },
            agent_path: agent_path(options)?,
            width,
            timeout_s: options.spawn_timeout_s.unwrap_or(settings::CONNECT_TIMEOUT.value() as u32),
            ports: settings::PORT_RANGE.value().into(),
            listen: options.listen.clone().unwrap_or_else(|| settings::LISTEN.value().into()),
        },
        bind_to: binding.unit as u8,
        bind_count: binding.count,
        bind_user: binding.user,
        cpu_set: options.cpu_set.clone(),
        rank_cores: rank_cores(options, binding.unit, ranks.len())?,
        map_by: if let MapBy::Slot(bind) = options.map_by { bind as u8 } else { 0 },
        report_bindings: options.report_bindings,
        continue_on_failure: options.continue_on_failure,
        collectives: ranks.first().map_or(Vec::new(), |first| environment::of_collectives(&apps[first.app as usize])),
        stdin_rank: stdin_rank(options, ranks.len())?,
        apps,
        ranks,
        interactive: std::io::IsTerminal::is_terminal(&std::io::stdin()),
        verbose: options.verbose,
        grace_ms: settings::KILL_GRACE.value() as u32,
        discover,
        startup,
        profile: super::profile::orders(options),
        offload: options.offload,
        parent_port: options.parent_port.clone().unwrap_or_default(),
        ..JobSpec::default()
    };
    check_table(&job)?;
    sys::topology::check()?;
    if options.container.engine.is_none() {
        check_abis(&job.apps)?;
    }
    let preload = plan_preload(options, &mut job)?;
    let containers = plan_containers(options, &mut job, &homes, &home_is_local)?;
    if containers.is_empty() {
        for advice in options.apps.iter().filter_map(|app| advice::about(&app.argv, job.ranks.len() as u32)) {
            eprintln!("mpiexec: warning: {advice}");
        }
    }
    Ok(Plan { job, local_nodes, containers, homes, preload })
}

/// `--startup`, `--connect` and `--report-startup`, or the settings.
fn startup(options: &Options) -> Result<Startup, String> {
    let scheme = options.startup.map_or_else(|| crate::cli::scheme(settings::STARTUP.value()), Ok)?;
    let connect_all = options.connect_all.map_or_else(|| crate::cli::connect(settings::CONNECT.value()), Ok)?;
    Ok(Startup { scheme: scheme as u8, connect_all, report: options.report_startup, generation: 0 })
}

/// Refuses programs that need libraries of several ABIs; those that aren't on this host are left to the loader of theirs.
fn check_abis(apps: &[App]) -> Result<(), String> {
    let path = std::env::var_os("PATH");
    for app in apps {
        let name = app.argv.first().map_or(b"".as_slice(), Vec::as_slice);
        let directory = OsStr::from_bytes(&app.working_directory);
        if let Ok(program) = environment::find_program(name, path.as_deref(), Some(directory)) {
            let libraries = preload::library_path(&app.set);
            abi::check(Path::new(OsStr::from_bytes(program.as_bytes())), OsStr::from_bytes(&libraries))?;
        }
    }
    Ok(())
}

/// `--preload` and `--preload-files`: what is sent.
fn plan_preload(options: &Options, job: &mut JobSpec) -> Result<preload::Plan, String> {
    let mut plan = preload::Plan::default();
    if !options.preload && options.preload_files.is_empty() {
        return Ok(plan);
    }
    if job.startup.scheme().described().serial {
        return Err(
            "--preload sends files to all hosts at once: not with a --startup that starts one after another".into()
        );
    }
    for (index, app) in job.apps.iter_mut().enumerate().filter(|_| options.preload) {
        let path = std::env::var_os("PATH");
        let name = app.argv.first().map_or(b"".as_slice(), Vec::as_slice);
        let directory = OsStr::from_bytes(&app.working_directory);
        let program = environment::find_program(name, path.as_deref(), Some(directory))
            .map_err(|e| format!("cannot send {}: {e}", String::from_utf8_lossy(name)))?;
        let program = Path::new(OsStr::from_bytes(program.as_bytes()));
        let libraries = preload::library_path(&app.set);
        app.preloaded = Some(plan.add_program(index, program, OsStr::from_bytes(&libraries))?);
    }
    options.preload_files.iter().try_for_each(|path| plan.add_data(path))?;
    job.preload = plan.files.clone();
    Ok(plan)
}

/// The table of all ids must be one frame.
fn check_table(job: &JobSpec) -> Result<(), String> {
    let ranks = job.ranks.len();
    if job.startup.scheme() == Scheme::Original && ranks > ORIGINAL_RANKS_MAX {
        return Err(format!(
            "--startup=original sends each of the {ranks} ranks {} MiB; it is limited to {ORIGINAL_RANKS_MAX} ranks",
            (16 * ranks * ranks) >> 20
        ));
    }
    Ok(())
}

/// `--launcher`, or a setting; `--launcher-exec` has one of its own for scripts that know ssh-like commands only.
fn launcher_text(options: &Options) -> &str {
    let set = settings::LAUNCHER_EXEC.value();
    match options.launcher.as_deref() {
        Some(text) => text,
        None if !set.is_empty() => set,
        None => settings::LAUNCHER.value(),
    }
}

/// Ranks on nodes; with containers also the host of each, else nothing.
fn place_all(options: &Options, here: &str) -> Result<(Placement, Vec<String>), String> {
    match options.container.engine {
        None => Ok((place(options, here)?, Vec::new())),
        Some(Engine::Exec) => {
            let placement = place(&containers::options_for_existing(options)?, here)?;
            let homes = vec![here.to_string(); placement.hosts.len()];
            Ok((placement, homes))
        }
        Some(_) => Ok(containers::split(place(options, here)?, options.container.ranks_each)),
    }
}

/// Names the containers and says how each is started.
fn plan_containers(
    options: &Options,
    job: &mut JobSpec,
    homes: &[String],
    home_is_local: &[bool],
) -> Result<Vec<ContainerLaunch>, String> {
    let Some(engine) = options.container.engine else { return Ok(Vec::new()) };
    let shared = containers::Shared::new(options, engine, job.job_id, &job.launcher.agent_path)?;
    for (index, app) in job.apps.iter_mut().enumerate() {
        if let (Some(inside), Some(name)) = (shared.program(index), app.argv.first_mut()) {
            *name = inside;
        }
    }
    if engine != Engine::Exec {
        let short = job.job_id as u32;
        job.hosts = (0..homes.len()).map(|i| format!("ferrule-{short:08x}-{i}")).collect();
    }
    let one = |(node, home): (usize, &String)| {
        let name = job.hosts[node].clone();
        let own =
            std::env::current_exe().map_or_else(|_| job.launcher.agent_path.clone(), |p| p.to_string_lossy().into());
        ContainerLaunch {
            words: if home_is_local[node] {
                vec![own, "--keeper".into()]
            } else {
                expand(&job.launcher, home, "--keeper")
            },
            preamble: shared.container(options, &name, &job.hosts).to_line(),
            shown: format!("{home} (container {name})"),
            job_dir: home_is_local[node].then(|| shared.job_dir.clone()),
        }
    };
    Ok(homes.iter().enumerate().map(one).collect())
}

/// Whether agents look for each other. The launcher `fork` plays several hosts on one, so there only on demand; or several VMs that share
/// a file.
fn looks_for_same_kernel(how: &How, apps: &[App]) -> bool {
    let find = |wanted: &[u8]| apps.iter().flat_map(|app| &app.set).rev().find(|(name, _)| name == wanted);
    let locality = find(b"FERRULE_LOCALITY").map_or(channel::locality::LOCALITY.value().as_bytes(), |(_, v)| v);
    let region = find(b"FERRULE_IVSHMEM").map_or(settings::IVSHMEM.value().as_bytes(), |(_, v)| v);
    match how {
        How::Fork => locality == b"host" || locality == b"node" && region.contains(&b'/'),
        How::Template(_) => true,
    }
}

fn launcher(text: &str) -> Result<How, String> {
    match text {
        "fork" | "local" => Ok(How::Fork),
        "ssh" => {
            let words = ["ssh", "-T", "-o", "BatchMode=yes", "{host}", "exec {command}"];
            Ok(How::Template(words.map(String::from).to_vec()))
        }
        template if template.contains("{command}") => Ok(How::Template(template_words(template)?)),
        // A script in the place of ssh: its words, then the host, then the command as one word.
        agent if agent.contains('/') || agent.contains(char::is_whitespace) => {
            let mut words = template_words(agent)?;
            if !words.iter().any(|w| w.contains("{host}") || w.contains("{pod}")) {
                words.push("{host}".into());
            }
            words.push("exec {command}".into());
            Ok(How::Template(words))
        }
        _ => Err(format!(
            "launcher '{text}' is neither ssh nor fork nor a command with {{command}} in it nor the path of a script that is called \
             as ssh is"
        )),
    }
}

fn template_words(template: &str) -> Result<Vec<String>, String> {
    let words = crate::cli::words_of(template.as_bytes()).map_err(|e| format!("launcher '{template}': {e}"))?;
    if words.is_empty() {
        return Err("the launcher's command is empty".into());
    }
    Ok(words.into_iter().map(|w| w.to_string_lossy().into_owned()).collect())
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

/// `--bind-to`, or the setting, and the count that `--map-by` may add: `PE=N` binds to cores unless said otherwise.
fn binding(options: &Options) -> Result<BindTo, String> {
    let said = match &options.bind_to {
        Some(said) => Some(said.clone()),
        None => Some(crate::cli::bind_to(settings::BIND_TO.value())?).filter(|set| set.unit != Bind::None),
    };
    match (said, options.map_by_pe) {
        // The setting is for jobs that don't say what they want.
        _ if options.rank_file.is_some() && options.bind_to.is_none() => {
            Ok(BindTo { unit: Bind::Core, ..BindTo::default() })
        }
        (said, None) => Ok(said.unwrap_or_default()),
        (None, Some(count)) => Ok(BindTo { unit: Bind::Core, count, user: Vec::new() }),
        (Some(BindTo { unit: unit @ (Bind::Core | Bind::HwThread), count: 1, user }), Some(count))
            if user.is_empty() =>
        {
            Ok(BindTo { unit, count, user })
        }
        _ => Err("--map-by with PE=N goes together with --bind-to core or hwthread only".into()),
    }
}

/// The cores of each rank, if a rank file says so and binding isn't turned off.
fn rank_cores(options: &Options, unit: Bind, ranks: usize) -> Result<Vec<Vec<CoreRange>>, String> {
    match &options.rank_file {
        Some(file) if unit != Bind::None => {
            (0..ranks as u32).map(|rank| file.place(rank).map(|place| place.cores.clone())).collect()
        }
        _ => Ok(Vec::new()),
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
            let travels = match options.container.engine {
                None => environment::travels(&name) && keep.as_ref().is_none_or(|k| k.contains(&name)),
                Some(_) => containers::travels(&name, app.keep.as_ref().unwrap_or(&options.keep)),
            };
            if travels {
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
    if let Some(directory) = &app.directory {
        std::path::absolute(directory).map_err(|e| format!("working directory: {e}"))?;
    }
    let directory =
        containers::directory(options, app).map_or_else(|| OsString::from("/"), std::path::PathBuf::into_os_string);
    Ok(App {
        argv: app.argv.iter().map(|a| a.as_bytes().to_vec()).collect(),
        set,
        keep,
        working_directory: directory.as_bytes().to_vec(),
        directory_required: app.directory.is_some() || options.container.directory.is_some(),
        preloaded: None,
    })
}
