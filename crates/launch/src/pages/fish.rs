//! Completion for fish.

use super::words;
use crate::cli::table;
use crate::cli::values::{self, Values};
use crate::commands::COMMANDS;

const HEAD: &str = "# Made by `ferrule info --pages`.\n";

/// The file for mpiexec and mpirun.
pub fn mpiexec() -> String {
    format!("{HEAD}{}{}", options_of_mpiexec("mpiexec", ""), "complete -c mpirun -w mpiexec\n")
}

/// The options of mpiexec for that program, under a condition.
fn options_of_mpiexec(program: &str, condition: &str) -> String {
    let mut out = String::new();
    for spelling in table::own() {
        let names: String = spelling.names.iter().map(|name| flag(name)).collect();
        let values = if spelling.words == 0 { String::new() } else { value(&values::of(spelling.kind)) };
        out.push_str(&format!("complete -c {program}{condition}{names}{values} -d {}\n", quoted(spelling.meaning())));
    }
    out
}

/// The file for ferrule.
pub fn ferrule() -> String {
    let mut out = format!("{HEAD}complete -c ferrule -f\n");
    for command in COMMANDS {
        let (name, meaning) = (command.name, quoted(command.summary));
        out.push_str(&format!("complete -c ferrule -n __fish_use_subcommand -a {name} -d {meaning}\n"));
    }
    out.push_str("complete -c ferrule -n __fish_use_subcommand -a help -d 'the commands, a line each'\n");
    for command in COMMANDS {
        let condition = format!(" -n '__fish_seen_subcommand_from {}'", command.name);
        if command.name == "why" {
            out.push_str(&format!("complete -c ferrule{condition} -F\n{}", options_of_mpiexec("ferrule", &condition)));
            continue;
        }
        for option in words::options(command) {
            let names: String = option.names.iter().map(|name| flag(name.trim_start_matches('-'))).collect();
            let values = if option.metavar.is_empty() { String::new() } else { value(&option.values) };
            out.push_str(&format!("complete -c ferrule{condition}{names}{values} -d {}\n", quoted(&option.meaning)));
        }
        match command.name {
            "drain" => out.push_str(&format!("complete -c ferrule{condition} -a '{HOSTS}'\n")),
            "info" | "doctor" => out.push_str(&format!("complete -c ferrule{condition} -F\n")),
            _ => {}
        }
        for below in words::below(command) {
            out.push_str(&format!("complete -c ferrule{condition} -a {below}\n"));
        }
    }
    out
}

const HOSTS: &str = "(__fish_complete_list , __fish_print_hostnames)";

/// A name as fish classifies it: one letter, two letters after one dash, or long.
fn flag(name: &str) -> String {
    match name.len() {
        1 => format!(" -s {name}"),
        2 => format!(" -o {name}"),
        _ => format!(" -l {name}"),
    }
}

fn value(values: &Values) -> String {
    match values {
        Values::Any => " -x".into(),
        Values::Words(words) => format!(" -xa {}", quoted(&words.join(" "))),
        Values::File | Values::Files => " -rF".into(),
        Values::Directory => " -xa '(__fish_complete_directories)'".into(),
        Values::Hosts => format!(" -xa '{HOSTS}'"),
        Values::Setting => {
            let names = crate::settings::tables().into_iter().flat_map(|(_, table)| table);
            format!(" -xa '{}'", names.map(|meta| format!("{}=", meta.name)).collect::<Vec<_>>().join(" "))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
