//! `mpiexec`, also installed as `mpirun`.

use launch::cli::{Command, parse, table};

fn main() {
    launch::settings::set_log_level();
    let code = match parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(options)) => launch::head::run(*options),
        Ok(Command::Agent) => launch::reaper::run(),
        Ok(Command::Supervisor) => launch::container::supervisor::run(),
        Ok(Command::AdoptHead) => launch::head::adopt::run(),
        Ok(Command::AdoptAgent(node)) => launch::reaper::run_adopted(node),
        Ok(Command::Help) => {
            print!("{}", table::help());
            0
        }
        Ok(Command::Version) => {
            println!("mpiexec (Ferrule) {}", env!("CARGO_PKG_VERSION"));
            0
        }
        Err(why) => {
            eprintln!("mpiexec: {why}");
            2
        }
    };
    std::process::exit(code);
}
