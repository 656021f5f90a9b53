//! Project chores. `cargo xtask tidy` enforces what STYLE.md says can be enforced; `cargo xtask api` writes the list of functions.

mod api;
mod circles;
mod floors;
mod identity;
mod imports;
mod neutral;
mod tidy;
mod tokens;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    match command.as_deref() {
        Some("api") => api::run(),
        Some("tidy") => tidy::run(),
        _ => {
            eprintln!("usage: cargo xtask api | tidy");
            ExitCode::from(2)
        }
    }
}
