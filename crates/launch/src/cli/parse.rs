//! Reads the command line, word by word.

use super::binding::{self, bind_to, map_by};
use super::hostfile;
use super::output::{self, OutputDirectory};
use super::rankfile::{self, RankFile};
use super::table::{self, Kind, Spelling};
use super::{AppOptions, Command, Keep, Lanes, MapBy, Options, StdinTo};
use crate::container::Engine;
use protocol::control::exchange::{SCHEMES, Scheme};
use protocol::control::tree::Bind;
use protocol::lanes::LanePlan;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Most ranks of a job.
pub const RANKS_MAX: u32 = 1 << 20;

/// Reads the words after the program's name; an error is a sentence for the user.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut parser =
        Parser { words: words.collect(), options: Options::default(), app: AppOptions::default(), files: 0 };
    while let Some(word) = parser.words.pop_front() {
        match parser.one(word)? {
            Some(command) => return Ok(command),
            None => continue,
        }
    }
    parser.end_app()?;
    parser.options.container.check()?;
    output::check(&parser.options)?;
    binding::check(&parser.options)?;
    if parser.options.apps.is_empty() {
        return Err("no program given; see mpiexec --help".into());
    }
    Ok(Command::Run(Box::new(parser.options)))
}

struct Parser {
    words: VecDeque<OsString>,
    options: Options,
    app: AppOptions,
    /// Configuration files read.
    files: u32,
}

impl Parser {
    fn one(&mut self, word: OsString) -> Result<Option<Command>, String> {
        let Some(name) = word.to_str().and_then(|w| w.strip_prefix('-')).filter(|n| !n.is_empty()) else {
            self.program(word)?;
            return Ok(None);
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        if name.is_empty() {
            // `--` ends the options.
            let program = self.words.pop_front().ok_or("no program after --")?;
            self.program(program)?;
            return Ok(None);
        }
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(OsString::from(value))),
            None => (name.to_string(), None),
        };
        let Some(spelling) = table::find(&name) else {
            let hint = table::nearest(&name).map(|n| format!("; did you mean {}?", dashed(n))).unwrap_or_default();
            return Err(format!("unknown option {}{hint}", word.to_string_lossy()));
        };
        if spelling.kind == Kind::Refused {
            let shown = dashed(&name);
            return Err(format!("option {shown} is not supported: {}", table::instead(&shown)));
        }
        let values = self.values(&name, spelling, value)?;
        self.apply(&name, spelling.kind, values)
    }

    fn values(&mut self, name: &str, spelling: &Spelling, value: Option<OsString>) -> Result<Vec<OsString>, String> {
        let mut values: Vec<OsString> = Vec::new();
        if let Some(value) = value {
            if spelling.words != 1 && spelling.kind != Kind::ReportStartup {
                return Err(format!("option {} takes {} values, not one after '='", dashed(name), spelling.words));
            }
            values.push(value);
        }
        let is_variable = matches!(spelling.kind, Kind::Set | Kind::GlobalSet);
        while values.len() < spelling.words {
            let word = self.words.pop_front().ok_or_else(|| format!("option {} needs a value", dashed(name)))?;
            // Hydra takes VAR=VALUE as one word, too.
            if is_variable
                && values.is_empty()
                && let (variable, Some(value)) = export(&dashed(name), &word)?
            {
                values.extend([variable.into(), value]);
            } else {
                values.push(word);
            }
        }
        Ok(values)
    }

    /// A program and its arguments up to ':' or the end.
    fn program(&mut self, word: OsString) -> Result<(), String> {
        if word != ":" {
            self.app.argv.push(word);
            while let Some(word) = self.words.pop_front().filter(|w| w != ":") {
                self.app.argv.push(word);
            }
        } else if self.app.argv.is_empty() {
            return Err("no program before ':'".into());
        }
        self.end_app()
    }

    fn end_app(&mut self) -> Result<(), String> {
        let app = std::mem::take(&mut self.app);
        if !app.argv.is_empty() {
            self.options.apps.push(app);
        } else if app.count.is_some() || app.hosts.is_some() || app.directory.is_some() {
            return Err("options without a program at the end; see mpiexec --help".into());
        }
        Ok(())
    }

    fn apply(&mut self, name: &str, kind: Kind, mut values: Vec<OsString>) -> Result<Option<Command>, String> {
        let shown = dashed(name);
        let last = values.pop();
        let os = last.clone().unwrap_or_default();
        let text = os.to_string_lossy().into_owned();
        let options = &mut self.options;
        match kind {
            Kind::Help => return Ok(Some(Command::Help)),
            Kind::Version => return Ok(Some(Command::Version)),
            Kind::Agent => return Ok(Some(Command::Agent)),
            Kind::Supervisor => return Ok(Some(Command::Supervisor)),
            Kind::AdoptHead => return Ok(Some(Command::AdoptHead)),
            Kind::AdoptAgent => return Ok(Some(Command::AdoptAgent(number(&shown, &text, RANKS_MAX)?))),
            Kind::Count => self.app.count = Some(number(&shown, &text, RANKS_MAX)?),
            Kind::PerNode => options.per_node = Some(number(&shown, &text, RANKS_MAX)?),
            Kind::AppHosts => self.app.hosts = Some(hostfile::parse_list(&text).map_err(|e| format!("{shown}: {e}"))?),
            Kind::Alias(option, value) => {
                for word in [value, option].into_iter().filter(|word| !word.is_empty()) {
                    self.words.push_front(word.into());
                }
            }
            Kind::Hosts => options.hosts = Some(hostfile::parse_list(&text).map_err(|e| format!("{shown}: {e}"))?),
            Kind::HostFile => options.hosts = Some(read_hosts(&os)?),
            Kind::WorkingDirectory => self.app.directory = Some(os),
            Kind::Export => self.app.set.extend(exported(&shown, &os)?),
            Kind::ExportValue => match export(&shown, &os)? {
                (name, Some(value)) => self.app.set.push((name, Some(value))),
                (name, None) => return Err(format!("option {shown} needs VAR=VALUE, not '{name}'")),
            },
            Kind::RankFile => options.rank_file = Some(RankFile::read(&os)?),
            Kind::Parameter => parameter(&shown, &values.remove(0).to_string_lossy(), &mut options.warnings)?,
            Kind::Set => self.app.set.push((values.remove(0).to_string_lossy().into_owned(), Some(os))),
            Kind::GlobalSet => options.set.push((values.remove(0).to_string_lossy().into_owned(), Some(os))),
            Kind::EnvList => self.app.keep = Some(Keep::Only(split(&text))),
            Kind::EnvAll => self.app.keep = Some(Keep::All),
            Kind::EnvNone => self.app.keep = Some(Keep::Only(Vec::new())),
            Kind::GlobalEnvList => options.keep = Keep::Only(split(&text)),
            Kind::GlobalEnvAll => options.keep = Keep::All,
            Kind::GlobalEnvNone => options.keep = Keep::Only(Vec::new()),
            Kind::Setting => options.set.push(setting(&text, &mut options.warnings)?),
            Kind::ConfigFile => self.config_file(&os)?,
            _ => self.apply_global(&shown, kind, &text)?,
        }
        Ok(None)
    }

    fn apply_global(&mut self, shown: &str, kind: Kind, text: &str) -> Result<(), String> {
        let options = &mut self.options;
        match kind {
            Kind::Tag => options.tag = true,
            // A qualifier alone leaves what is bound to as it is.
            Kind::BindTo if text.starts_with(':') => _ = bind_to(text)?,
            Kind::BindTo => options.bind_to = Some(bind_to(text)?),
            Kind::MapBy => map_by(text, options)?,
            Kind::PerResource => map_by(&format!("ppr:{text}"), options)?,
            Kind::CoresPerRank => map_by(&format!(":PE={text}"), options)?,
            Kind::RankBy => options.rank_by = Some(rank_by(shown, text)?),
            Kind::CpuSet => options.cpu_set = binding::cpu_set(shown, text)?,
            Kind::RankMap => options.rank_map = rankfile::parse_map(text)?,
            Kind::ReportBindings => options.report_bindings = true,
            Kind::DoNotLaunch => options.do_not_launch = true,
            Kind::Timeout => options.timeout_s = Some(seconds(text).map_err(|e| format!("{shown}: {e}"))?),
            Kind::Verbose => options.verbose = true,
            Kind::Launcher | Kind::LauncherExec => options.launcher = Some(text.into()),
            Kind::TreeWidth => options.tree_width = Some(number(shown, text, 1024)?),
            Kind::Listen => {
                options.listen = Some(text.into());
                options.set.push(("FERRULE_LISTEN".into(), Some(text.into())));
            }
            Kind::AgentPath => options.agent_path = Some(text.into()),
            Kind::Stdin => options.stdin = stdin_to(text)?,
            Kind::ContinueOnFailure => options.continue_on_failure = true,
            Kind::WithFaultTolerance => options.continue_on_failure = fault_tolerance(shown, text)?,
            Kind::OutFile => options.file_patterns[0] = Some(output::pattern(shown, text)?),
            Kind::ErrFile => options.file_patterns[1] = Some(output::pattern(shown, text)?),
            Kind::OutputDirectory => options.output_directory = Some(OutputDirectory::parse(shown, text)?),
            // Its slots, which is what it is anyway.
            Kind::UniverseSize if text == "SYSTEM" => options.universe_size = None,
            Kind::UniverseSize => options.universe_size = Some(number(shown, text, u32::MAX)?),
            Kind::Output => output::words(shown, text, options)?,
            Kind::Display => options.report_bindings |= shows_bindings(text, shown, &mut options.warnings),
            Kind::Prefix => options.agent_path = Some(format!("{}/bin/mpiexec", text.trim_end_matches('/'))),
            Kind::ForwardSignals => forwarded(shown, text)?,
            Kind::SpawnTimeout => options.spawn_timeout_s = Some(number(shown, text, 3600)?),
            Kind::Personality if text == "ompi" => {}
            Kind::Personality => {
                return Err(format!("{shown}: '{text}' is not supported, only ompi, which changes nothing"));
            }
            Kind::RunDirectives => run_directives(shown, text, options)?,
            Kind::Container => options.container.engine = Some(Engine::from_name(text)?),
            Kind::ContainerImage => options.container.image = Some(text.into()),
            Kind::ContainerName => options.container.names.extend(split(text)),
            Kind::ContainerEngine => options.container.command = shell_words(shown, text)?,
            Kind::RanksPerContainer => options.container.ranks_each = Some(number(shown, text, RANKS_MAX)?),
            Kind::ContainerNetwork => options.container.network = Some(text.into()),
            Kind::ContainerArgs => options.container.args.extend(shell_words(shown, text)?),
            Kind::ContainerWorkdir => options.container.directory = Some(text.into()),
            Kind::ContainerCopy => options.container.copy = true,
            Kind::Profile => options.profile = Some(text.into()),
            Kind::ProfileDetail => options.profile_detail = true,
            Kind::ProfileSlice => options.profile_slice_s = Some(seconds(text)?),
            Kind::Offload => options.offload = number(shown, text, shm::offload::WORKERS_MAX as u32)?,
            Kind::Fabric => options.fabric = Some(text.into()),
            Kind::CommPattern => options.comm_pattern = Some(text.into()),
            Kind::Preload => options.preload = true,
            Kind::PreloadFiles => options.preload_files.extend(split(text).into_iter().map(Into::into)),
            Kind::Startup => options.startup = Some(scheme(text)?),
            Kind::Lanes => options.lanes = Some(lanes(text)?),
            Kind::Connect => options.connect_all = Some(connect(text)?),
            Kind::ReportStartup => {
                options.report_startup = true;
                options.startup_file = (!text.is_empty()).then(|| text.into()).or(options.startup_file.take());
            }
            Kind::Ignored => options.warnings.push(format!("option {shown} is ignored")),
            _ => {}
        }
        Ok(())
    }

    /// Puts the words of a file, whose lines are programs, in front of what is left.
    fn config_file(&mut self, path: &OsString) -> Result<(), String> {
        self.files += 1;
        if self.files > 16 {
            return Err("configuration files include each other".into());
        }
        let read = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.to_string_lossy()))?;
        let mut words: Vec<OsString> = Vec::new();
        for line in read.split(|b| *b == b'\n') {
            let mut line = words_of(line).map_err(|e| format!("{}: {e}", path.to_string_lossy()))?;
            if !line.is_empty() {
                if !words.is_empty() {
                    words.push(":".into());
                }
                words.append(&mut line);
            }
        }
        for word in words.into_iter().rev() {
            self.words.push_front(word);
        }
        Ok(())
    }
}

/// Reads the name of a scheme of `--startup`.
pub fn scheme(text: &str) -> Result<Scheme, String> {
    Scheme::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = SCHEMES.iter().map(|d| d.name).collect();
        format!("startup '{text}' is not one of {}", names.join(", "))
    })
}

/// Reads `--connect`: whether all connections are made at once.
pub fn connect(text: &str) -> Result<bool, String> {
    match text {
        "all" => Ok(true),
        "demand" => Ok(false),
        _ => Err(format!("connect '{text}' is not all or demand")),
    }
}

fn dashed(name: &str) -> String {
    format!("{}{name}", if name.len() < 4 { "-" } else { "--" })
}

/// Splits a line at blanks; quotes and backslashes as in a shell, `#` begins a comment.
pub(crate) fn words_of(line: &[u8]) -> Result<Vec<OsString>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(q), b) if b == q => quote = None,
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None | Some(b'"'), b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (None, b' ' | b'\t' | b'\r') => words.extend(word.take().map(OsString::from_vec)),
            (None, b'#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    if quote.is_some() { Err("a quote is not closed".into()) } else { Ok(words) }
}

fn shell_words(shown: &str, text: &str) -> Result<Vec<String>, String> {
    let words = words_of(text.as_bytes()).map_err(|e| format!("{shown}: {e}"))?;
    Ok(words.into_iter().map(|w| w.to_string_lossy().into_owned()).collect())
}

pub(super) fn number(shown: &str, text: &str, max: u32) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if n >= 1 && n <= max => Ok(n),
        _ => Err(format!("option {shown} needs a number from 1 to {max}, not '{text}'")),
    }
}

/// A positive number of seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s < 1e9 => Ok(s),
        _ => Err(format!("'{text}' is not a number of seconds")),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(String::from).collect()
}

fn read_hosts(path: &OsString) -> Result<Vec<hostfile::Host>, String> {
    let shown = path.to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read host file {shown}: {e}"))?;
    hostfile::parse_file(&text).map_err(|e| format!("host file {shown}: {e}"))
}

/// `VAR`, `VAR=value`, or `VAR*` for all variables of mpiexec that begin so.
fn exported(shown: &str, text: &OsString) -> Result<Vec<(String, Option<OsString>)>, String> {
    let (name, value) = export(shown, text)?;
    match name.strip_suffix('*').filter(|_| value.is_none()) {
        None => Ok(vec![(name, value)]),
        Some(start) => {
            let all = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, Some(value))));
            Ok(all.filter(|(name, _)| name.starts_with(start)).collect())
        }
    }
}

/// How ranks are to be numbered.
fn rank_by(shown: &str, text: &str) -> Result<MapBy, String> {
    match text.to_ascii_lowercase().as_str() {
        "slot" => Ok(MapBy::Slot(Bind::None)),
        "node" => Ok(MapBy::Node),
        _ => Err(format!("{shown} knows slot and node, not '{text}': ranks are numbered in the order of --map-by")),
    }
}

/// `--display`: bindings are shown, the rest is not.
fn shows_bindings(text: &str, shown: &str, warnings: &mut Vec<String>) -> bool {
    let is_bindings = |word: &str| word.len() >= 4 && "bindings".starts_with(&word.to_ascii_lowercase());
    let (bindings, others): (Vec<&str>, Vec<&str>) = text.split(',').partition(|word| is_bindings(word));
    if !others.is_empty() {
        warnings.push(format!("option {shown} {} is ignored", others.join(",")));
    }
    !bindings.is_empty()
}

/// `--forward-signals`: those that mpiexec forwards anyway.
fn forwarded(shown: &str, text: &str) -> Result<(), String> {
    let is_forwarded = |name: &str| {
        let name = name.to_ascii_uppercase();
        matches!(name.strip_prefix("SIG").unwrap_or(&name), "INT" | "USR1" | "USR2" | "TSTP" | "CONT" | "TERM" | "HUP")
    };
    match text.split(',').find(|name| !is_forwarded(name.trim())) {
        None => Ok(()),
        Some(name) => Err(format!(
            "{shown}: '{name}' is not supported: mpiexec forwards INT, TERM, HUP, USR1, USR2, TSTP and CONT, always"
        )),
    }
}

/// Parameters of Open MPI's parts. Those of the parts that place, bind and start processes would change what runs.
fn parameter(shown: &str, name: &str, warnings: &mut Vec<String>) -> Result<(), String> {
    const STARTING: &[&str] = &[
        "rmaps_",
        "ras_",
        "plm_",
        "odls_",
        "hwloc_base_",
        "hwloc_default_",
        "orte_",
        "prte_",
        "mpi_abort_",
        "mpi_paffinity_",
    ];
    if STARTING.iter().any(|part| name.starts_with(part)) {
        return Err(format!(
            "{shown} {name} is not supported: say it by options (-host, --map-by, --bind-to, --launcher-exec, --agent-path)"
        ));
    }
    let warning = format!("option {shown} is ignored");
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
    Ok(())
}

/// `--with-ft`: whether survivors go on.
fn fault_tolerance(shown: &str, text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "ulfm" | "mpi" | "true" | "yes" | "1" => Ok(true),
        "none" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("{shown} {text}: ulfm or none was expected")),
    }
}

/// `--runtime-options`: what is so anyway, and what an option of ours does.
fn run_directives(shown: &str, text: &str, options: &mut Options) -> Result<(), String> {
    for word in text.split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        match (name.to_ascii_lowercase().as_str(), value) {
            ("donotlaunch" | "do-not-launch", "true") => options.do_not_launch = true,
            ("recoverable" | "recovery" | "continuous", "true") => options.continue_on_failure = true,
            ("recoverable" | "recovery" | "continuous" | "donotlaunch" | "do-not-launch", "false") => {}
            (
                "abort-nonzero-exit" | "error-nonzero-status" | "forward-environment" | "report-state-on-timeout",
                "true",
            ) => {}
            ("show-progress", _) => {}
            _ => return Err(format!("{shown}: '{word}' is not supported, only donotlaunch and recoverable")),
        }
    }
    Ok(())
}

/// `VAR` or `VAR=value`.
fn export(shown: &str, text: &OsString) -> Result<(String, Option<OsString>), String> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=');
    let name = String::from_utf8_lossy(&bytes[..at.unwrap_or(bytes.len())]).into_owned();
    if name.is_empty() {
        return Err(format!("option {shown} needs VAR or VAR=VALUE"));
    }
    Ok((name, at.map(|at| OsString::from_vec(bytes[at + 1..].to_vec()))))
}

/// `NAME=VALUE`, with or without `FERRULE_`.
fn setting(text: &str, warnings: &mut Vec<String>) -> Result<(String, Option<OsString>), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("--set needs NAME=VALUE, not '{text}'"))?;
    let name = name.trim().to_ascii_uppercase();
    let name = name.strip_prefix("FERRULE_").unwrap_or(&name);
    warnings.extend(crate::settings::check_name(name));
    Ok((format!("FERRULE_{name}"), Some(value.into())))
}

/// The settings that `--lanes` stands for.
fn lanes(text: &str) -> Result<Lanes, String> {
    let (count, policy) = LanePlan::settings_of(text)?;
    Ok(Lanes { count: count.into(), policy: policy.into() })
}

fn stdin_to(text: &str) -> Result<StdinTo, String> {
    match text {
        "all" => Ok(StdinTo::All),
        "none" => Ok(StdinTo::None),
        _ => text.parse().map(StdinTo::Rank).map_err(|_| {
            format!("--stdin (-s) knows all, none and a rank, not '{text}'; Open MPI's -s is --preload here")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Box<Options>, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Command::Run(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_both_traditions_are_read() {
        let o = run("-np 4 -ppn 2 --hosts=a,b -genv A 1 -x B=2 -l ./a.out -n 9 : -n 2 -wdir /tmp -env C 3 b.out :")
            .unwrap();
        assert_eq!((o.apps.len(), o.per_node, o.tag), (2, Some(2), true));
        assert_eq!((o.apps[0].count, o.apps[0].argv.len()), (Some(4), 3));
        assert_eq!(o.apps[0].set, [("B".into(), Some("2".into()))]);
        assert_eq!(o.apps[1].directory, Some("/tmp".into()));
        assert_eq!(o.set, [("A".into(), Some("1".into()))]);
        let o =
            run("--mca btl tcp,self --oversubscribe --allow-run-as-root --map-by ppr:3:node -N 2 hostname").unwrap();
        assert_eq!((o.warnings.len(), o.per_node), (1, Some(2)));
        let o = run("-genv A=1=2 -env B =3 -env C= hostname").unwrap();
        assert_eq!(o.set, [("A".into(), Some("1=2".into()))]);
        assert_eq!(o.apps[0].set, [("B".into(), Some("=3".into())), ("C".into(), Some("".into()))]);
        let o = run("--forward-signals SIGUSR1,tstp hostname -q").unwrap();
        assert_eq!((o.warnings.len(), o.apps[0].argv.len()), (0, 2));
        assert!(run("--forward-signals SIGALRM x").unwrap_err().contains("'SIGALRM' is not supported"));
        assert!(run("--mca plm_rsh_agent rsh x").unwrap_err().contains("plm_rsh_agent is not supported"));
        assert_eq!(run("--prefix /opt/f/ x").unwrap().agent_path.as_deref(), Some("/opt/f/bin/mpiexec"));
        assert_eq!(run("--bynode hostname").unwrap().map_by, MapBy::Node);
    }

    #[test]
    fn what_would_run_another_job_is_refused_by_name() {
        for name in table::TABLE.iter().filter(|s| s.kind == Kind::Refused).flat_map(|s| s.names) {
            let why = run(&format!("--{name} 1 x")).unwrap_err();
            assert!(why.contains(name) && why.contains("is not supported: "), "{why}");
        }
        assert!(run("--rank-by fill x").is_err() && run("--rank-by node x").is_err());
        assert_eq!(run("--rank-by node --bynode x").unwrap().map_by, MapBy::Node);
        assert!(run("--output-filename d -outfile-pattern %r x").unwrap_err().contains("doesn't go together"));
        assert!(run("--output file=d x").unwrap_err().contains("--outfile-pattern"));
        assert!(run("--membind local x").is_err() && run("--nolocal x").is_err());
    }

    #[test]
    fn places_and_cpus_are_read() {
        let o = run("--cpu-set 0,2-3 x").unwrap();
        assert_eq!(o.cpu_set, [0, 2, 3]);
        assert_eq!(run("--map-by pe-list=4-5 x").unwrap().cpu_set, [4, 5]);
        let bound = run("--map-by pe-list=5,4:ordered x").unwrap();
        assert_eq!((bound.bind_to.unwrap().user, bound.cpu_set.len()), (vec![vec![5], vec![4]], 0));
        assert_eq!(run("--cpus-per-proc 3 x").unwrap().map_by_pe, Some(3));
        assert_eq!(run("--pernode x").unwrap().per_node, Some(1));
        assert_eq!(run("-rankmap (0,2,1) x").unwrap().rank_map, [0, 1]);
        assert_eq!(run("--bind-to :overload-allowed x").unwrap().bind_to, None);
        for wrong in [
            "--cpu-set a",
            "--cpu-set 3-1",
            "--map-by ordered",
            "--map-by slot:ordered",
            "--map-by rankfile",
            "--map-by slot:file=f",
        ] {
            assert!(run(&format!("{wrong} x")).is_err(), "{wrong}");
        }
        let why = run("--rankfile /nowhere/f x").unwrap_err();
        assert!(why.starts_with("cannot read rank file /nowhere/f: "), "{why}");
        for wrong in ["-ppn 2", "--map-by core", "--rank-by slot", "--map-by slot:PE=2", "-host a"] {
            let why = run(&format!("-rankmap 0 {wrong} x")).unwrap_err();
            assert!(why.contains("go together with it"), "{wrong}: {why}");
        }
    }

    #[test]
    fn lanes_are_checked() {
        let lanes = |line: &str| run(line).map(|options| options.lanes.unwrap());
        let expected = |count: &str, policy: &str| Ok(Lanes { count: count.into(), policy: policy.into() });
        assert_eq!(lanes("--lanes 4 x"), expected("4", ""));
        assert_eq!(lanes("--lanes=2!:segregate x"), expected("2!", "segregate"));
        assert_eq!(lanes("--lanes auto:segregate:traffic x"), expected("auto", "segregate:traffic"));
        for (wrong, why) in [("17", "1 to 16"), ("0", "1 to 16"), ("2:segregat", "is none of"), ("2:", "K[:POLICY]")] {
            let found = lanes(&format!("--lanes {wrong} x")).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(run("-n 0 x").unwrap_err().contains("-n needs a number"));
        assert!(run("-hostfil f x").unwrap_err().contains("did you mean --hostfile?"));
        assert!(run("-n").unwrap_err().contains("needs a value"));
        assert!(run("").unwrap_err().contains("no program"));
        assert!(run("-n 2").unwrap_err().contains("without a program"));
        assert!(run("--set FERRULE_X x").unwrap_err().contains("NAME=VALUE"));
        assert!(run(": x").unwrap_err().contains("before ':'"));
    }

    #[test]
    fn lines_of_a_file_are_split_as_by_a_shell() {
        let words = words_of(br#"-n 2 'a b' "c\"d" e\ f '' # rest"#).unwrap();
        assert_eq!(words, ["-n", "2", "a b", "c\"d", "e f", ""]);
        assert!(words_of(b"'a").is_err());
    }
}
