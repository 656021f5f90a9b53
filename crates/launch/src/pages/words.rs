//! Options as the scripts for shells need them: which names, and what completes the value.

use crate::cli::values::Values;
use crate::commands::Command;

/// An option of one command of `ferrule`.
pub struct Opt {
    /// With dashes.
    pub names: Vec<String>,
    /// Names of the value; empty if it takes none.
    pub metavar: String,
    /// One line.
    pub meaning: String,
    /// What completes the value.
    pub values: Values,
}

/// The options of a command, from our table or from clap's, `--help` last.
pub fn options(command: &Command) -> Vec<Opt> {
    let mut all: Vec<Opt> = match command.clap {
        None => command.options.iter().map(|(head, meaning)| own(head, meaning)).collect(),
        Some(make) => of_clap(&make()),
    };
    all.retain(|opt| !opt.names.iter().any(|name| name == "--help"));
    let names = vec!["--help".into(), "-h".into()];
    all.push(Opt { names, metavar: String::new(), meaning: "the usage text".into(), values: Values::Any });
    all
}

/// `--plan, --dry-run` or `--job PID`.
fn own(head: &str, meaning: &str) -> Opt {
    let (names, values): (Vec<&str>, Vec<&str>) =
        head.split([',', ' ']).filter(|word| !word.is_empty()).partition(|word| word.starts_with('-'));
    let metavar = values.join(" ");
    let values = by_metavar(&metavar);
    Opt { names: names.into_iter().map(String::from).collect(), metavar, meaning: meaning.into(), values }
}

fn by_metavar(metavar: &str) -> Values {
    match metavar {
        "FILE" | "FILE..." => Values::File,
        "DIR" => Values::Directory,
        "HOST" => Values::Hosts,
        _ => Values::Any,
    }
}

/// Options of a command and of those below it.
fn of_clap(command: &clap::Command) -> Vec<Opt> {
    let mut all = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long() else { continue };
        let metavar = if arg.get_action().takes_values() {
            arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default()
        } else {
            String::new()
        };
        let possible: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().into()).collect();
        let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !metavar.is_empty() && !defaults.is_empty() {
            meaning.push_str(&format!(" (default {})", defaults.join(",")));
        }
        let values = if metavar.is_empty() || possible.is_empty() {
            by_metavar(&metavar)
        } else {
            // The text of a page lives as long as the program, which writes it and ends.
            Values::Words(possible.into_iter().map(|name| &*name.leak()).collect())
        };
        all.push(Opt { names: vec![format!("--{long}")], metavar, meaning, values });
    }
    all.extend(command.get_subcommands().filter(|below| below.get_name() != "help").flat_map(of_clap));
    all
}

/// The commands below a command: `lab lanes`.
pub fn below(command: &Command) -> Vec<String> {
    let Some(make) = command.clap else { return Vec::new() };
    make().get_subcommands().map(|below| below.get_name().to_string()).filter(|name| name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;

    #[test]
    fn options_come_from_both_kinds_of_tables() {
        let named = |command: &str, name: &str| {
            let all = options(find(command).expect("it is there"));
            all.into_iter().find(|opt| opt.names.iter().any(|other| other == name)).expect("it is there")
        };
        assert_eq!(named("migrate", "--dry-run").names, ["--plan", "--dry-run"]);
        assert_eq!((named("migrate", "--to").values, named("drain", "--job").metavar), (Values::Hosts, "PID".into()));
        assert_eq!(named("startup", "--connect").values, Values::Words(vec!["demand", "all"]));
        assert_eq!((named("lab", "--tables").values, named("lab", "--json").metavar), (Values::File, String::new()));
        assert_eq!(below(find("lab").expect("it is there")), ["lanes", "offload"]);
    }
}
