//! `cargo xtask api`: writes `docs/reference/api.md` from the tables of `crates/abi`.

use std::process::{Command, ExitCode};

const PAGE: &str = "docs/reference/api.md";

/// Runs the example that prints the page.
pub fn run() -> ExitCode {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let printed = Command::new(cargo).args(["run", "--quiet", "--package", "abi", "--example", "api"]).output();
    let page = match printed {
        Ok(run) if run.status.success() => run.stdout,
        Ok(run) => {
            eprint!("{}", String::from_utf8_lossy(&run.stderr));
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("cargo: {error}");
            return ExitCode::FAILURE;
        }
    };
    match std::fs::create_dir_all("docs/reference").and_then(|()| std::fs::write(PAGE, page)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{PAGE}: {error}");
            ExitCode::FAILURE
        }
    }
}
