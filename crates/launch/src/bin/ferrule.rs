//! `ferrule`: one tool for what is not `mpiexec`.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const HELP: &str = "\
usage: ferrule info [--config]          version, or every setting with its value, default and range
       ferrule info --protocols [--size BYTES]   which protocol a message takes, by size and by where the receiver is
       ferrule info --abi FILE...       which MPI library each program or library needs, and whether it runs here
       ferrule info --lanes [--json]    lanes of a pair over a network, their classes and the marks of their packets
       ferrule doctor [--json] [FILE...]   what works here, what would make it faster, and how to mend it; whether programs run here
       ferrule top [--once] [--waits] [PID]   what the ranks of running jobs do; pending operations and the wait-for graph
       ferrule drain [--help]           suspends what goes to and from some hosts of a job, which may then get other addresses; resumes it
       ferrule migrate [--help]         moves virtual machines to other hosts while a job runs in them
       ferrule why [--] MPIEXEC-ARGS    run a job and print the channel of each pair of ranks, and why not the others
       ferrule startup [--help]         compares ways to start a job, and launchers; fits models and predicts
       ferrule lab lanes [--help]       simulates virtual lanes of InfiniBand: the published figures, and tables of OpenSM
       ferrule help
";

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let code = match words.first().and_then(|w| w.to_str()) {
        Some("info") if words[1..].iter().any(|w| w == "--protocols") => protocols(&words[1..]),
        Some("info") if words.get(1).is_some_and(|w| w == "--abi") => abis(&words[2..]),
        Some("info") if words[1..].iter().any(|w| w == "--lanes") => lanes(words[1..].iter().any(|w| w == "--json")),
        Some("info") => info(words[1..].iter().any(|w| w == "--config")),
        Some("doctor") => launch::doctor::main(&words[1..]),
        Some("why") => why(&words[1..]),
        Some("top") => top(&words[1..]),
        Some(verb @ ("drain" | "resume")) => drain(verb, &words[1..]),
        Some("migrate") => migrate(&words[1..]),
        Some("startup") => launch::compare::main(&words[1..]),
        Some("lab") => launch::lab::main(&words[1..]),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            0
        }
        Some("--version") => {
            println!("ferrule {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprint!("{HELP}");
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

fn lanes(json: bool) -> i32 {
    match launch::lanes::describe(json) {
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

fn top(words: &[std::ffi::OsString]) -> i32 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    launch::top::client::run(&words)
}

fn drain(verb: &str, words: &[std::ffi::OsString]) -> i32 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    launch::drain::run(verb, &words)
}

fn migrate(words: &[std::ffi::OsString]) -> i32 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    launch::migrate::run(&words)
}

/// Runs mpiexec, which stands beside this program, so that the library explains its channels.
fn why(words: &[std::ffi::OsString]) -> i32 {
    let words = if words.first().is_some_and(|w| w == "--") { &words[1..] } else { words };
    let mpiexec = std::env::current_exe().map(|own| own.with_file_name("mpiexec")).unwrap_or_else(|_| "mpiexec".into());
    let error = Command::new(&mpiexec).args(words).env("FERRULE_WHY", "1").exec();
    eprintln!("ferrule: cannot run {}: {error}", mpiexec.display());
    127
}
