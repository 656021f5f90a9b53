//! The rules of STYLE.md and ARCHITECTURE.md that a program can check.

use crate::{circles, floors, identity, imports, neutral, words};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 700;
/// Longest folder README, in lines.
const README_LINES_MAX: usize = 60;

/// Crates and the crates of the workspace that they may depend on (ARCHITECTURE.md, "Allowed edges").
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("sys", &["base"]),
    ("shm", &["base", "sys"]),
    ("ucx", &["sys"]),
    ("protocol", &["base"]),
    ("channel", &["base", "sys", "shm", "ucx", "protocol"]),
    ("mpi", &["base", "sys", "protocol", "channel"]),
    ("abi", &["base", "mpi"]),
    ("mpich_abi", &["base", "mpi"]),
    ("launch", &["base", "sys", "shm", "protocol", "channel", "mpi", "netsim", "migrate"]),
    ("offload", &["base", "sys", "shm", "protocol", "channel", "mpi"]),
    ("netsim", &["base", "protocol"]),
    ("migrate", &[]),
    ("testkit", &["base", "protocol"]),
    ("xtask", &[]),
];

/// Crates without unsafe code; each says so in its first lines.
const SAFE: &[&str] = &["base", "protocol", "testkit", "netsim", "offload", "migrate"];

/// The only crates that may name `libc`.
const LIBC: &[&str] = &["sys"];

/// Files that may read the environment: the settings, and the launcher, whose job it is to make one.
const MAY_READ_ENVIRONMENT: &[&str] = &[
    "crates/base/src/config.rs",
    "crates/channel/src/bootstrap.rs",
    "crates/launch/",
    "xtask/",
    "/tests/",
    "/examples/",
    "/build.rs",
    MEASUREMENT,
];

/// A measurement that is started by hand as an ignored test.
const MEASUREMENT: &str = "crates/mpi/src/coll/sim/cost.rs";

struct Report(Vec<String>);

impl Report {
    fn add(&mut self, path: &Path, line: usize, what: &str) {
        self.0.push(format!("{}:{line}: {what}", path.display()));
    }
}

/// Checks the files that git tracks, below the current folder.
pub fn run() -> ExitCode {
    let mut report = Report(Vec::new());
    let files = tracked();
    let mut pairs: BTreeMap<String, usize> = BTreeMap::new();
    for path in &files {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        check_name(path, &mut report);
        match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => check_rust(path, &text, &mut report, &mut pairs),
            Some("py" | "c" | "h") => check_source(path, &text, &mut report),
            _ => {}
        }
        if path.file_name().is_some_and(|n| n == "README.md") && path.components().count() > 1 {
            check_readme(path, &text, &mut report);
        }
    }
    for (name, count) in pairs.iter().filter(|(_, count)| **count < 2) {
        report.0.push(format!("SYNC({name}) stands {count} time: both sides of the pair carry the name"));
    }
    check_crates(&files, &mut report);
    check_circles(&files, &mut report);
    check_floors(&files, &mut report);
    for line in &report.0 {
        eprintln!("{line}");
    }
    eprintln!("tidy: {} files, {} complaints", files.len(), report.0.len());
    if report.0.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tracked() -> Vec<PathBuf> {
    let output = Command::new("git").args(["ls-files", "-z"]).output();
    let output = output.expect("git is installed").stdout;
    String::from_utf8_lossy(&output).split('\0').filter(|s| !s.is_empty()).map(PathBuf::from).collect()
}

fn check_name(path: &Path, report: &mut Report) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if ["_new", "_old", "-orig", "_orig", "_tmp"].iter().any(|end| stem.ends_with(end)) {
        report.add(path, 1, "a name tells what a file is, not how it came about");
    }
}

fn check_source(path: &Path, text: &str, report: &mut Report) {
    let lines = text.lines().count();
    let table = path.ends_with("include/mpi.h");
    if lines > FILE_LINES_MAX && !table {
        report.add(path, lines, &format!("more than {FILE_LINES_MAX} lines: split it by what it does"));
    }
    for (i, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            report.add(path, i + 1, "trailing white space");
        }
        if ["TODO", "FIXME", "XXX"].iter().any(|mark| line.contains(&format!("{mark}:"))) && !path.starts_with("xtask")
        {
            report.add(path, i + 1, "an open point belongs into an issue");
        }
    }
}

fn check_rust(path: &Path, text: &str, report: &mut Report, pairs: &mut BTreeMap<String, usize>) {
    check_source(path, text, report);
    let name = path.to_string_lossy().into_owned();
    if !text.trim_start_matches("#![").contains("//!") {
        report.add(path, 1, "no head comment (//!) that says what the file is for");
    }
    for (line, what) in words::complaints(path, text).into_iter().filter(|_| !path.starts_with("xtask")) {
        report.add(path, line, &what);
    }
    for (line, what) in neutral::complaints(path, text).into_iter().chain(identity::complaints(path, text)) {
        report.add(path, line, &what);
    }
    let may_read = MAY_READ_ENVIRONMENT.iter().any(|allowed| name.contains(allowed));
    let library =
        name != MEASUREMENT && name.contains("/src/") && !name.contains("/bin/") && !name.starts_with("crates/launch");
    for (i, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if !may_read && (code.contains("env::var(") || code.contains("env::var_os(") || code.contains("libc::getenv")) {
            report.add(path, i + 1, "settings come from config! tables, not from the environment");
        }
        if library && !name.starts_with("xtask") && (code.contains("println!(") || code.contains("dbg!(")) {
            report.add(path, i + 1, "libraries speak through base::log");
        }
        if !name.starts_with("xtask") && (code.contains("todo!(") || code.contains("unimplemented!(")) {
            report.add(path, i + 1, "what is missing is an MPI error, not a panic");
        }
        if let Some(rest) = line.split("SYNC(").nth(1)
            && line.contains("//")
            && !name.starts_with("xtask")
            && let Some(pair) = rest.split(')').next()
        {
            *pairs.entry(pair.to_string()).or_default() += 1;
        }
    }
}

fn check_readme(path: &Path, text: &str, report: &mut Report) {
    let lines = text.lines().count();
    let folder_of_code = path.starts_with("crates") || path.starts_with("tests") || path.starts_with("bench");
    if folder_of_code && lines > README_LINES_MAX {
        report.add(path, lines, &format!("a folder's README has at most {README_LINES_MAX} lines"));
    }
}

fn check_crates(files: &[PathBuf], report: &mut Report) {
    let names: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in EDGES {
        let folder = if *name == "xtask" { PathBuf::from("xtask") } else { Path::new("crates").join(name) };
        let manifest = folder.join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
        if *name != "xtask" && !files.contains(&folder.join("README.md")) {
            report.add(&folder, 1, "no README.md");
        }
        let dependencies = section(&text, "[dependencies]");
        for dependency in dependencies {
            if names.contains(&dependency.as_str()) && !allowed.contains(&dependency.as_str()) {
                report.add(&manifest, 1, &format!("the edge {name} -> {dependency} is not allowed"));
            }
            if dependency == "libc" && !LIBC.contains(name) {
                report.add(&manifest, 1, "only sys calls libc");
            }
        }
        if SAFE.contains(name) {
            let root = folder.join("src/lib.rs");
            let safe = std::fs::read_to_string(&root).is_ok_and(|t| t.contains("#![forbid(unsafe_code)]"));
            if !safe {
                report.add(&root, 1, "this crate forbids unsafe code");
            }
        }
    }
}

/// No circle of imports runs through several folders of a crate (ARCHITECTURE.md, "Allowed edges").
fn check_circles(files: &[PathBuf], report: &mut Report) {
    for (name, _) in EDGES {
        let root =
            if *name == "xtask" { PathBuf::from("xtask/src") } else { Path::new("crates").join(name).join("src") };
        let imports = imports::read(&root, &sources(&root, files));
        for circle in circles::circles(&root, &imports) {
            let names: Vec<_> = circle.modules.iter().map(|m| m.display().to_string()).collect();
            for step in &circle.steps {
                let what = format!("`{}` closes a circle of imports: {}", step.path, names.join(" -> "));
                report.add(&step.from, step.line, &what);
            }
        }
    }
}

/// No import of `crates/mpi` runs up (its README, "Floors").
fn check_floors(files: &[PathBuf], report: &mut Report) {
    let root = Path::new("crates/mpi/src");
    for import in imports::read(root, &sources(root, files)) {
        if let Some(what) = floors::check(root, &import) {
            report.add(&import.from, import.line, &what);
        }
    }
}

/// The Rust files below a folder, with their texts.
fn sources(root: &Path, files: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let rust = files.iter().filter(|path| path.starts_with(root) && path.extension().is_some_and(|e| e == "rs"));
    rust.filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?))).collect()
}

/// Names of the entries of one section of a manifest.
fn section(manifest: &str, title: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|l| l.trim() != title).skip(1);
    lines
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split(['.', '=', ' ']).next())
        .filter(|n| !n.is_empty())
        .map(String::from)
        .collect()
}
