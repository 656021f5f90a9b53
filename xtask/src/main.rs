//! Project chores. `cargo xtask tidy` enforces what STYLE.md says can be enforced; `cargo xtask docs` writes the generated pages.

mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    match command.as_deref() {
        Some("tidy") => tidy::run(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}
