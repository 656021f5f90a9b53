//! `ferrule`: one tool for what is not `mpiexec`.

use launch::commands::asks_for_help;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let code = match words.first().and_then(|w| w.to_str()) {
        // `why` hands its words on, and clap knows the help of `startup` and `lab`.
        Some(name @ ("info" | "doctor" | "top" | "drain" | "resume" | "migrate")) if asks_for_help(&words[1..]) => {
            print!("{}", launch::commands::usage(name));
            0
        }
        Some("why")
            if words[1..]
                .iter()
                .take_while(|word| *word != "--")
                .take(2)
                .any(|word| asks_for_help(std::slice::from_ref(word))) =>
        {
            print!("{}", launch::commands::usage("why"));
            0
        }
        Some("info") if words.get(1).is_some_and(|w| w == "--pages") => pages(&words[2..]),
        Some("info") if words[1..].iter().any(|w| w == "--protocols") => protocols(&words[1..]),
        Some("info") if words.get(1).is_some_and(|w| w == "--abi") => abis(&words[2..]),
        Some("info") if words[1..].iter().any(|w| w == "--lanes") => {
            told(launch::lanes::describe(words[1..].iter().any(|w| w == "--json")))
        }
        Some("info") => info(words[1..].iter().any(|w| w == "--config")),
        Some("doctor") => launch::doctor::main(&words[1..]),
        Some("why") => why(&words[1..]),
        Some("top") => launch::top::client::run(&texts(&words[1..])),
        Some(verb @ ("drain" | "resume")) => launch::drain::run(verb, &texts(&words[1..])),
        Some("migrate") => launch::migrate::run(&texts(&words[1..])),
        Some("startup" | "lab") => lab(&words),
        Some("help" | "--help" | "-h") => {
            print!("{}", launch::commands::overview());
            0
        }
        Some("--version") => {
            println!("ferrule {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprint!("{}", launch::commands::overview());
            2
        }
    };
    std::process::exit(code);
}

fn info(config: bool) -> i32 {
    println!("Ferrule {}", env!("CARGO_PKG_VERSION"));
    let machine = match sys::topology::Topology::current() {
        Ok(machine) => machine,
        Err(why) => {
            eprintln!("ferrule info: {why}");
            return 1;
        }
    };
    let file = sys::topology::TOPOLOGY.value();
    let source = if file.is_empty() {
        String::new()
    } else {
        format!(" ({file}{})", if machine.is_here() { "" } else { "; not this machine" })
    };
    println!("processors to use: {}{source}", machine.summary());
    if !config {
        return 0;
    }
    for (module, table) in launch::settings::tables() {
        println!("\n[{module}]");
        for meta in table {
            let ((value, set), unit) = ((meta.current)(), meta.unit);
            let mark = if set { " (set)" } else { "" };
            println!("FERRULE_{} = {value} {unit}{mark}", meta.name);
            println!("    {} Default {}, {}.", meta.doc.trim(), quoted(&(meta.default)()), (meta.range)());
        }
    }
    0
}

fn protocols(words: &[std::ffi::OsString]) -> i32 {
    let size = match words.iter().position(|w| w == "--size") {
        None => None,
        Some(at) => match words.get(at + 1).and_then(|w| w.to_str()).and_then(<u64 as base::config::Value>::parse) {
            Some(size) => Some(size as usize),
            None => {
                eprintln!("ferrule info: --size needs a number of bytes, such as 100, 64K or 1M");
                return 2;
            }
        },
    };
    print!("{}", launch::protocols::table(size));
    0
}

fn abis(files: &[std::ffi::OsString]) -> i32 {
    if files.is_empty() {
        eprintln!("ferrule info: --abi needs a file");
        return 2;
    }
    let libraries = launch::preload::plan::library_path(&[]);
    let libraries = std::ffi::OsStr::from_bytes(&libraries);
    let mut code = 0;
    for file in files {
        match launch::abi::describe(std::path::Path::new(file), libraries) {
            Ok((text, runs)) => {
                print!("{text}");
                code = code.max(i32::from(!runs));
            }
            Err(why) => {
                eprintln!("ferrule info: {why}");
                code = 1;
            }
        }
    }
    code
}

fn pages(words: &[std::ffi::OsString]) -> i32 {
    let [place] = words else {
        eprintln!("ferrule info: --pages needs one directory");
        return 2;
    };
    told(launch::pages::write(std::path::Path::new(place)).map(|()| String::new()))
}

/// Prints what `ferrule info` found, or why it can't.
fn told(found: Result<String, String>) -> i32 {
    match found {
        Ok(text) => {
            print!("{text}");
            0
        }
        Err(why) => {
            eprintln!("ferrule info: {why}");
            1
        }
    }
}

fn quoted(text: &str) -> &str {
    if text.is_empty() { "empty" } else { text }
}

fn texts(words: &[std::ffi::OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Measurements and simulations are in a program of their own beside this one.
fn lab(words: &[std::ffi::OsString]) -> i32 {
    let own = std::env::current_exe().unwrap_or_else(|_| "ferrule".into());
    let program = own.with_file_name("ferrule-lab");
    let error = Command::new(&program).args(words).exec();
    eprintln!("ferrule: cannot run {}: {error}", program.display());
    127
}

/// Runs mpiexec, which stands beside this program, so that the library explains its channels, or who has run its collectives.
fn why(words: &[std::ffi::OsString]) -> i32 {
    let (setting, words) = match words {
        [first, rest @ ..] if first == "--collectives" => ("FERRULE_WHY_COLLECTIVES", rest),
        _ => ("FERRULE_WHY", words),
    };
    let words = if words.first().is_some_and(|w| w == "--") { &words[1..] } else { words };
    let mpiexec = std::env::current_exe().map(|own| own.with_file_name("mpiexec")).unwrap_or_else(|_| "mpiexec".into());
    let error = Command::new(&mpiexec).args(words).env(setting, "1").exec();
    eprintln!("ferrule: cannot run {}: {error}", mpiexec.display());
    127
}
