//! Reads the command line, word by word.

use super::binding::{bind_to, map_by};
use super::hostfile;
use super::output::{self, OutputDirectory};
use super::table::{self, Kind, Spelling};
use super::{AppOptions, Command, Keep, MapBy, Options, StdinTo};
use crate::container::Engine;
use protocol::control::exchange::{SCHEMES, Scheme};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Most ranks of a job.
pub(crate) const RANKS_MAX: u32 = 1 << 20;

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
            Kind::Hosts => options.hosts = Some(hostfile::parse_list(&text).map_err(|e| format!("{shown}: {e}"))?),
            Kind::HostFile => options.hosts = Some(read_hosts(&os)?),
            Kind::WorkingDirectory => self.app.directory = Some(os),
            Kind::Export => self.app.set.push(export(&shown, &os)?),
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
            Kind::BindTo => options.bind_to = Some(bind_to(text)?),
            Kind::MapBy => map_by(text, options)?,
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
            Kind::OutFile => options.file_patterns[0] = Some(output::pattern(shown, text)?),
            Kind::ErrFile => options.file_patterns[1] = Some(output::pattern(shown, text)?),
            Kind::OutputDirectory => options.output_directory = Some(OutputDirectory::parse(shown, text)?),
            Kind::UniverseSize => options.universe_size = Some(number(shown, text, u32::MAX)?),
            Kind::Output => {
                options.tag |= text.split(',').any(|w| matches!(w, "tag" | "rank"));
                if let Some(place) = text.split([',', ':']).find(|w| w.starts_with("file") || w.starts_with("dir")) {
                    return Err(format!(
                        "{shown} {place} is not supported: use --output-filename, or --outfile-pattern and --errfile-pattern"
                    ));
                }
                if !text.split(',').all(|w| matches!(w, "tag" | "rank")) {
                    options.warnings.push(format!("{shown} {text} is ignored but for 'tag'"));
                }
            }
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
            Kind::Fabric => options.fabric = Some(text.into()),
            Kind::CommPattern => options.comm_pattern = Some(text.into()),
            Kind::Preload => options.preload = true,
            Kind::PreloadFiles => options.preload_files.extend(split(text).into_iter().map(Into::into)),
            Kind::Startup => options.startup = Some(scheme(text)?),
            Kind::Connect => options.connect_all = Some(connect(text)?),
            Kind::ReportStartup => {
                options.report_startup = true;
                options.startup_file = (!text.is_empty()).then(|| text.into()).or(options.startup_file.take());
            }
            Kind::Refused => return Err(format!("option {shown} is not supported: {}", table::instead(shown))),
            Kind::MapByNode => options.map_by = MapBy::Node,
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

fn stdin_to(text: &str) -> Result<StdinTo, String> {
    match text {
        "all" => Ok(StdinTo::All),
        "none" => Ok(StdinTo::None),
        _ => text.parse().map(StdinTo::Rank).map_err(|_| format!("--stdin knows all, none and a rank, not '{text}'")),
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
        let o = run("--forward-signals none hostname -q").unwrap();
        assert_eq!((o.warnings.len(), o.apps[0].argv.len()), (1, 2));
        assert_eq!(run("--bynode hostname").unwrap().map_by, MapBy::Node);
    }

    #[test]
    fn what_would_run_another_job_is_refused_by_name() {
        for name in table::TABLE.iter().filter(|s| s.kind == Kind::Refused).flat_map(|s| s.names) {
            let why = run(&format!("--{name} 1 x")).unwrap_err();
            assert!(why.contains(name) && why.contains("is not supported: "), "{why}");
        }
        assert!(run("--rankfile f x").unwrap_err().contains("--bind-to user:"));
        assert!(run("--cpu-set 0-3 x").unwrap_err().contains("--bind-to user:"));
        assert!(run("--output-filename d -outfile-pattern %r x").unwrap_err().contains("doesn't go together"));
        assert!(run("--output dir=d x").unwrap_err().contains("--outfile-pattern"));
        assert!(run("--membind local x").is_err() && run("--nolocal x").is_err());
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
