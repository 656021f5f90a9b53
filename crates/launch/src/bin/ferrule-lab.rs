//! `ferrule-lab`: runs `ferrule startup` and `ferrule lab`, so that their models and simulators are not in `ferrule` itself.

use std::ffi::OsString;

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match words.first().and_then(|word| word.to_str()) {
        Some("startup") => launch::compare::main(&words[1..]),
        Some("lab") => launch::lab::main(&words[1..]),
        _ => {
            eprintln!("ferrule-lab: it is run by ferrule startup and ferrule lab");
            2
        }
    };
    std::process::exit(code);
}
