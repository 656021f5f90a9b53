//! Completion for zsh: functions for its completion system.

use super::words::{self, Opt};
use crate::cli::table;
use crate::cli::values::{self, Values};
use crate::commands::{COMMANDS, Command};

/// The file `_mpiexec`.
pub fn mpiexec() -> String {
    let mut out = String::from("#compdef mpiexec mpirun\n# Made by `ferrule info --pages`.\n\n_arguments -s -S \\\n");
    for spelling in table::own() {
        let names: Vec<String> = spelling.names.iter().flat_map(|name| dashes(name)).collect();
        let values = match spelling.words {
            0 => String::new(),
            1 => value(spelling.metavar(), &values::of(spelling.kind)),
            _ => spelling.metavar().split(' ').map(|word| value(word, &Values::Any)).collect(),
        };
        // An option may be given for each program, so none excludes another.
        out.push_str(&specification(&names, values.is_empty(), spelling.meaning(), &values));
    }
    out.push_str("    '(-)1:program:_command_names -e' \\\n    '*::argument:_files'\n");
    out
}

/// The file `_ferrule`.
pub fn ferrule() -> String {
    let mut out = String::from(
        "#compdef ferrule\n# Made by `ferrule info --pages`.\n\nlocal context state line\nlocal -a commands\ncommands=(\n",
    );
    for command in COMMANDS {
        out.push_str(&format!("    '{}'\n", quoted(&format!("{}:{}", command.name, command.summary))));
    }
    out.push_str("    'help:the commands, a line each'\n)\n");
    out.push_str("_arguments -C '1: :->command' '*:: :->rest' && return\n");
    out.push_str("case $state in\ncommand) _describe -t commands command commands ;;\nrest)\n    case $words[1] in\n");
    for command in COMMANDS {
        match command.name {
            "why" => out.push_str("    why) _mpiexec ;;\n"),
            _ => out.push_str(&branch(command)),
        }
    }
    out.push_str("    esac ;;\nesac\n");
    out
}

fn branch(command: &Command) -> String {
    let mut out = format!("    {}) _arguments \\\n", command.name);
    for Opt { names, metavar, meaning, values } in words::options(command) {
        let values = if metavar.is_empty() { String::new() } else { value(&metavar, &values) };
        out.push_str(&specification(&names, values.is_empty(), &meaning, &values));
    }
    // Nothing is said of other words: a message about them would keep zsh from inserting the one option that fits.
    let below = words::below(command);
    match command.name {
        "drain" => out.push_str("    '1:host:_sequence _hosts' ;;\n"),
        "doctor" | "info" => out.push_str("    '*:file:_files' ;;\n"),
        _ if !below.is_empty() => out.push_str(&format!("    '1:command:({})' ;;\n", below.join(" "))),
        _ => {
            out.truncate(out.trim_end_matches([' ', '\\', '\n']).len());
            out.push_str(" ;;\n");
        }
    }
    out
}

/// One dash or two: both are completed for long names.
fn dashes(name: &str) -> Vec<String> {
    if name.len() < 3 { vec![format!("-{name}")] } else { vec![format!("--{name}"), format!("-{name}")] }
}

/// One line for _arguments: it may come again.
fn specification(names: &[String], is_switch: bool, meaning: &str, values: &str) -> String {
    // `--option=value`, too, of those with two dashes.
    let names: Vec<String> = names
        .iter()
        .map(|name| if is_switch || !name.starts_with("--") { name.clone() } else { format!("{name}=") })
        .collect();
    let (begin, end) = if names.len() > 1 { ("'*'{", "}") } else { ("'*'", "") };
    format!("    {begin}{}{end}'[{}]{values}' \\\n", names.join(","), bracketed(meaning))
}

fn value(metavar: &str, values: &Values) -> String {
    let action = match values {
        Values::Any => " ".into(),
        Values::Words(words) => format!("({})", words.iter().map(|word| colons(word)).collect::<Vec<_>>().join(" ")),
        Values::File => "_files".into(),
        Values::Files => "_sequence _files".into(),
        Values::Directory => "_files -/".into(),
        Values::Hosts => "_sequence _hosts".into(),
        Values::Setting => {
            let names = crate::settings::tables().into_iter().flat_map(|(_, table)| table);
            format!("compadd -S \"\" -- {}", names.map(|meta| format!("{}=", meta.name)).collect::<Vec<_>>().join(" "))
        }
    };
    format!(":{}:{action}", colons(&quoted(metavar)))
}

fn colons(text: &str) -> String {
    text.replace(':', "\\:")
}

fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}

fn bracketed(text: &str) -> String {
    quoted(text).replace('[', "\\[").replace(']', "\\]")
}
