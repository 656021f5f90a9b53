//! The interface itself: `mpi.h` against the table of functions, both against the oracle's header, and the exported symbols.
//!
//! The oracle is an installation of MPICH 5 with the standard ABI; `FERRULE_ORACLE` says where (default /opt/peers/mpich).
//! Without it, or without a C compiler or `nm`, the tests that need them say so and pass.

use mpi_abi::api::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions of the ABI that the oracle does not have.
const NOT_IN_ORACLE: &[&str] = &["MPI_Precv_init_c", "MPI_Psend_init_c"];

fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn oracle() -> Option<PathBuf> {
    let root = std::env::var("FERRULE_ORACLE").unwrap_or_else(|_| "/opt/peers/mpich".to_string());
    let root = PathBuf::from(root);
    let found = root.join("include/mpi_abi.h").exists();
    if !found {
        eprintln!("skipped: no oracle at {}", root.display());
    }
    found.then_some(root)
}

/// A directory of this test process that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("ferrule-abi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Function name, return type and parameter types of one C function.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Prototype {
    returns: String,
    params: Vec<String>,
}

/// Every function of the table, twins apart.
fn table() -> BTreeMap<String, Prototype> {
    let mut all = BTreeMap::new();
    for (_, entry) in mpi_abi::functions() {
        let names = [Some(entry.name), entry.large];
        for (width, name) in names.into_iter().enumerate() {
            let Some(name) = name else { continue };
            let previous = all.insert(name.to_string(), prototype(entry, width));
            assert!(previous.is_none(), "{name} stands twice in the table");
        }
    }
    all
}

fn prototype(entry: &Entry, width: usize) -> Prototype {
    let params = entry.params.iter().map(|p| squeeze(&p.c[width].replace('@', p.name)));
    Prototype { returns: entry.returns.to_string(), params: params.collect() }
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The functions that a header declares, `prefix` being `MPI_` or `PMPI_`.
fn declared(header: &Path, prefix: &str) -> BTreeMap<String, Prototype> {
    let mut text = std::fs::read_to_string(header).unwrap();
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").unwrap() + start + 2;
        text.replace_range(start..end, " ");
    }
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let mut all = BTreeMap::new();
    let code = code.join(" ").replace("extern \"C\" {", "");
    for statement in code.split(';') {
        let statement = squeeze(statement);
        let Some((head, args)) = statement.split_once('(') else { continue };
        let Some((returns, name)) = head.rsplit_once(' ') else { continue };
        if !name.starts_with(prefix) || returns.starts_with("typedef") {
            continue;
        }
        let args = args.rsplit_once(')').unwrap().0;
        let params = if args == "void" { Vec::new() } else { args.split(", ").map(squeeze).collect() };
        let params = match params.last().map(String::as_str) {
            // The one variadic function; the table holds its tail in the last parameter.
            Some("...") => vec![format!("{}, ...", params[0])],
            _ => params,
        };
        all.insert(name.to_string(), Prototype { returns: returns.to_string(), params });
    }
    all
}

#[test]
fn table_has_all_names() {
    let all = table();
    assert_eq!(all.len(), 664);
    assert_eq!(all.keys().filter(|name| name.ends_with("_c")).count(), 161);
    assert_eq!(all.keys().filter(|name| name.starts_with("MPI_T_")).count(), 51);
}

#[test]
fn header_declares_the_table() {
    let header = include_dir().join("mpi.h");
    let expected = table();
    for prefix in ["MPI_", "PMPI_"] {
        let mut found = declared(&header, prefix);
        for (name, prototype) in &expected {
            let name = format!("{}{}", prefix, &name[4..]);
            assert_eq!(found.remove(&name).as_ref(), Some(prototype), "{name}");
        }
        assert!(found.is_empty(), "mpi.h declares what the table doesn't have: {:?}", found.keys());
    }
}

#[test]
fn the_extensions_header_declares_the_extensions() {
    let header = include_dir().join("mpi-ext.h");
    for prefix in ["MPIX_", "PMPIX_"] {
        let mut found = declared(&header, prefix);
        for entry in mpi_abi::EXTENSIONS {
            let name = format!("{}{}", prefix, &entry.name[5..]);
            assert_eq!(found.remove(&name), Some(prototype(entry, 0)), "{name}");
        }
        assert!(found.is_empty(), "mpi-ext.h declares what does not exist: {:?}", found.keys());
    }
}

/// Compiles `source` with `dir` first on the include path; the path of the program, or the compiler's message.
fn compile(scratch: &Scratch, dir: &Path, name: &str, source: &str, extra: &[&str]) -> Result<PathBuf, String> {
    let (input, output) = (scratch.0.join(format!("{name}.c")), scratch.0.join(name));
    std::fs::write(&input, source).unwrap();
    let run = Command::new("cc").arg("-I").arg(dir).args(extra).arg(&input).arg("-o").arg(&output).output();
    match run {
        Ok(run) if run.status.success() => Ok(output),
        Ok(run) => Err(String::from_utf8_lossy(&run.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The numbers that a header defines: constants as 64-bit values, sizes of types.
fn constants(header: &str) -> BTreeSet<String> {
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_string();
    let mut names = BTreeSet::new();
    for line in header.lines().map(str::trim_start) {
        let name = match line.strip_prefix("#define ") {
            Some(rest) => word(rest),
            None if line.contains(" = ") || line.contains('=') => word(line),
            None => continue,
        };
        // Names of types and functions have small letters.
        if name.starts_with("MPI_") && !name.contains(char::is_lowercase) && name != "MPI_H_ABI" {
            names.insert(name);
        }
    }
    names
}

#[test]
fn constants_and_sizes_agree_with_the_oracle() {
    let Some(oracle) = oracle() else { return };
    let scratch = Scratch::new("constants");
    let ours = include_dir();
    let names = constants(&std::fs::read_to_string(ours.join("mpi.h")).unwrap());
    let theirs = constants(&std::fs::read_to_string(oracle.join("include/mpi_abi.h")).unwrap());
    assert!(names.len() > 350, "{}", names.len());
    assert_eq!(names, theirs, "names of constants");
    let mut source = String::from("#include <stdio.h>\n#include HEADER\nint main(void) {\n");
    for name in &names {
        source += &format!("printf(\"{name} %lld\\n\", (long long) (intptr_t) ({name}));\n");
    }
    for ty in ["MPI_Aint", "MPI_Offset", "MPI_Count", "MPI_Status", "MPI_Comm", "MPI_T_enum", "MPI_T_cb_safety"] {
        source += &format!("printf(\"sizeof {ty} %zu\\n\", sizeof({ty}));\n");
    }
    source += "return 0; }\n";
    let mut outputs = Vec::new();
    for (dir, header) in [(ours, "mpi.h"), (oracle.join("include"), "mpi_abi.h")] {
        let define = format!("-DHEADER=\"{header}\"");
        match compile(&scratch, &dir, header.trim_end_matches(".h"), &source, &[&define]) {
            Ok(program) => outputs.push(Command::new(program).output().unwrap().stdout),
            Err(message) => panic!("{message}"),
        }
    }
    assert!(!outputs[0].is_empty());
    assert_eq!(String::from_utf8_lossy(&outputs[0]), String::from_utf8_lossy(&outputs[1]));
}

#[test]
fn prototypes_agree_with_the_oracle() {
    let Some(oracle) = oracle() else { return };
    let scratch = Scratch::new("prototypes");
    let mut source = String::from("#include \"mpi_abi.h\"\n");
    for (name, prototype) in table() {
        if NOT_IN_ORACLE.contains(&&*name) {
            continue;
        }
        let params = if prototype.params.is_empty() { "void".into() } else { prototype.params.join(", ") };
        for name in [name.clone(), format!("P{name}")] {
            source += &format!(
                "_Static_assert(_Generic(&{name}, {} (*)({params}): 1, default: 0), \"{name}\");\n",
                prototype.returns
            );
        }
    }
    source += "int main(void) { return 0; }\n";
    if let Err(message) = compile(&scratch, &oracle.join("include"), "prototypes", &source, &["-std=c11", "-c"]) {
        panic!("{message}");
    }
}

#[test]
fn header_is_clean_c_and_cxx() {
    let scratch = Scratch::new("clean");
    let header = include_dir().join("mpi.h");
    for (compiler, standard, language) in [("cc", "-std=c99", "c"), ("c++", "-std=c++11", "c++")] {
        let run = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", standard, "-x", language, "-fsyntax-only", "-include"])
            .arg(&header)
            .arg("/dev/null")
            .current_dir(&scratch.0)
            .output();
        match run {
            Ok(run) => assert!(run.status.success(), "{compiler}: {}", String::from_utf8_lossy(&run.stderr)),
            Err(error) => eprintln!("skipped: {compiler}: {error}"),
        }
    }
}

/// `nm`'s letter of each defined dynamic symbol of a library.
fn symbols(library: &Path) -> Option<BTreeMap<String, char>> {
    let run = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let Ok(run) = run else {
        eprintln!("skipped: no nm");
        return None;
    };
    let text = String::from_utf8(run.stdout).unwrap();
    let split = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        Some((fields.next()?.chars().next()?, fields.next()?.to_string()))
    };
    Some(text.lines().filter_map(split).map(|(letter, name)| (name, letter)).collect())
}

#[test]
fn library_exports_weak_and_strong_names() {
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libmpi_abi.so");
    assert!(library.exists(), "{}", library.display());
    let Some(found) = symbols(&library) else { return };
    let mut expected = BTreeMap::new();
    for name in table().into_keys() {
        expected.insert(format!("P{name}"), 'T');
        expected.insert(name, 'W');
    }
    assert_eq!(expected.len(), 2 * 664);
    let ours: BTreeMap<_, _> = found.into_iter().filter(|(name, _)| expected.contains_key(name)).collect();
    assert_eq!(ours, expected);
    let Some(oracle) = oracle() else { return };
    let Some(theirs) = symbols(&oracle.join("lib/libmpi_abi.so.1")) else { return };
    for name in expected.keys() {
        let known = NOT_IN_ORACLE.iter().any(|absent| name.ends_with(absent));
        assert!(theirs.contains_key(name) || known, "{name} is not in the oracle");
    }
}
