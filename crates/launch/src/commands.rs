//! The commands of `ferrule`, as one table: their usage texts, the man page and shell completion are made of it.
//!
//! `ferrule startup` and `ferrule lab` are described by clap instead; [`Command::clap`] gives that.

/// One command.
pub struct Command {
    /// The word after `ferrule`.
    pub name: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// What may follow the name, and what that does; of a single form the summary says it.
    pub forms: &'static [(&'static str, &'static str)],
    /// An option with its value, as written, and its meaning.
    pub options: &'static [(&'static str, &'static str)],
    /// More sentences.
    pub about: &'static str,
    /// The description of a command that clap parses.
    pub clap: Option<fn() -> clap::Command>,
}

const JOB: (&str, &str) = ("--job PID", "mpiexec's process; needed if several jobs of this user run");

/// All commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "info",
        summary: "version, settings, protocols, and the library of a program",
        forms: &[
            ("[--config]", "version, or every setting with its value, default and range"),
            ("--protocols [--size BYTES]", "which protocol a message takes, by size and by where the receiver is"),
            ("--abi FILE...", "which MPI library each program or library needs, and whether it runs here"),
            ("--lanes [--json]", "lanes of a pair over a network, their classes and the marks of their packets"),
            ("--pages DIR", "writes man pages, shell completion and lists of options and settings into DIR/share"),
        ],
        options: &[
            ("--config", "every setting with its value, default and range"),
            ("--protocols", "which protocol a message takes"),
            ("--size BYTES", "with --protocols: only messages of this size, such as 100, 64K or 1M"),
            ("--abi FILE...", "which MPI library each program or library needs; exit code 1 if one doesn't run here"),
            ("--lanes", "lanes of a pair over a network"),
            ("--json", "with --lanes: as one JSON object"),
            ("--pages DIR", "writes man pages, shell completion and lists of options and settings into DIR/share"),
        ],
        about: "",
        clap: None,
    },
    Command {
        name: "doctor",
        summary: "what works here, what would make it faster, and how to mend it; whether programs run here",
        forms: &[("[--json] [FILE...]", "")],
        options: &[("--json", "the findings as one JSON object")],
        about: "Says what works on this host, what would make it faster, and the line that mends it. FILEs are programs or libraries: which MPI library\n\
                they need, and whether they run here. Exit code 0 if a job of two ranks runs here, and every FILE; 1 if not.\n",
        clap: None,
    },
    Command {
        name: "top",
        summary: "what the ranks of running jobs do; pending operations and the wait-for graph",
        forms: &[("[--once] [--waits | --lanes | --traffic] [--interval SECONDS] [PID]", "")],
        options: &[
            ("--once", "one table instead of one every second"),
            ("--interval SECONDS", "time between two tables, from 0.1 to 3600 (1)"),
            ("--lanes", "what ranks have sent over the lanes of each class, and how long packets waited for them"),
            ("--traffic", "what ranks have moved to and from windows and files, and how fast they do so now"),
            (
                "--waits",
                "pending operations and the wait-for graph: deadlocks by name, or the rank for which the others wait",
            ),
        ],
        about: "Shows what the ranks of running jobs do: of mpiexec's process PID, or of all jobs of this user in this network namespace.\n",
        clap: None,
    },
    Command {
        name: "drain",
        summary: "suspends what goes to and from some hosts of a job, which may then get other addresses",
        forms: &[
            (
                "[options] HOST[,HOST…]",
                "suspends all that goes to and from the ranks of these hosts (names as given to mpiexec)",
            ),
            ("--status [options]", "how far it is"),
        ],
        options: &[
            ("--status", "how far it is"),
            JOB,
            ("--for SECONDS", "resumes after that time, and waits for it"),
            ("--hold SECONDS", "resumes after that time, if nobody has resumed before (600)"),
            ("--limit SECONDS", "how long each step may take before everything is rolled back (30)"),
            ("--json", "the outcome as one JSON object"),
        ],
        about: "",
        clap: None,
    },
    Command {
        name: "resume",
        summary: "resumes what ferrule drain has suspended, at the addresses that the hosts have then",
        forms: &[("[options]", "")],
        options: &[
            JOB,
            ("--limit SECONDS", "how long each step may take (30)"),
            ("--json", "the outcome as one JSON object"),
        ],
        about: "",
        clap: None,
    },
    Command {
        name: "migrate",
        summary: "moves virtual machines to other hosts while a job runs in them",
        forms: &[
            ("[PID] --vm NAME [--vm NAME …] --to HOST [options]", "moves virtual machines with ranks of a running job"),
            ("[PID] --status | --abort [--json]", "how far it is; undoes it, if that is still possible"),
        ],
        options: &[
            ("--vm NAME", "a virtual machine, by its name in the file of --config"),
            ("--to HOST", "the host to which they move"),
            ("--status", "how far it is"),
            ("--abort", "undoes it, if that is still possible"),
            ("--config FILE", "describes the machines: docs/user/migration.md (/etc/ferrule/vms.json)"),
            ("--job PID", "mpiexec's process, the same as a plain PID; needed if several jobs of this user run"),
            ("--plan, --dry-run", "finds out whether it is possible, and changes nothing"),
            ("--limit SECONDS", "how long each step may take before it counts as failed (30)"),
            ("--migrate-limit SECONDS", "the same for the migration itself (300)"),
            (
                "--hold SECONDS",
                "mpiexec resumes the job after that time if this program has been killed (as long as all steps may take)",
            ),
            ("--json", "the outcome as one JSON object; progress goes to standard error"),
        ],
        about: "",
        clap: None,
    },
    Command {
        name: "why",
        summary: "runs a job and prints the channel of each pair of ranks, or who has run its collectives, and why",
        forms: &[
            ("[--] MPIEXEC-ARGS", "prints the channel of each pair of ranks, and why not the others"),
            (
                "--collectives [--] MPIEXEC-ARGS",
                "prints which collectives workers have run, and why the ranks ran others",
            ),
        ],
        options: &[(
            "--collectives",
            "which non-blocking and persistent collectives the workers of mpiexec --offload have run, and why the ranks ran others",
        )],
        about: "The words are those of mpiexec, see mpiexec --help.\n",
        clap: None,
    },
    Command {
        name: "startup",
        summary: "compares ways to start a job, and launchers; fits models and predicts",
        forms: &[("[options]", "")],
        options: &[],
        about: "",
        clap: Some(crate::compare::command),
    },
    Command {
        name: "lab",
        summary: "simulates what needs more machines: virtual lanes of InfiniBand, and workers of collectives on hosts and SmartNICs",
        forms: &[
            ("lanes [options]", "virtual lanes: the published figures, and tables of OpenSM"),
            ("offload [options]", "non-blocking collectives with and without workers, beside the published figures"),
        ],
        options: &[],
        about: "",
        clap: Some(crate::lab::command),
    },
];

/// The command of that name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The text of `ferrule help`.
pub fn overview() -> String {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for command in COMMANDS {
        match command.forms {
            // The forms of these say all.
            [(form, _)] if form.len() < 20 && command.clap.is_none() && command.name != "resume" => {
                lines.push((format!("{} {form}", command.name), command.summary));
            }
            forms if command.name == "info" => {
                lines.extend(forms.iter().map(|(form, meaning)| (format!("{} {form}", command.name), *meaning)));
            }
            _ => lines.push((format!("{} [--help]", command.name), command.summary)),
        }
    }
    lines.push(("help | --version".into(), "this text; version"));
    let width = lines.iter().map(|(head, _)| head.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (at, (head, meaning)) in lines.iter().enumerate() {
        let begin = if at == 0 { "usage:" } else { "      " };
        out.push_str(&format!("{begin} ferrule {head:width$}  {meaning}\n"));
    }
    out
}

/// The usage text of one command; empty if there is none of that name.
pub fn usage(name: &str) -> String {
    let Some(command) = find(name) else { return String::new() };
    let mut out = String::new();
    let width = command.forms.iter().map(|(form, _)| form.chars().count()).max().unwrap_or(0);
    for (at, (form, meaning)) in command.forms.iter().enumerate() {
        let begin = if at == 0 { "usage:" } else { "      " };
        out.push_str(format!("{begin} ferrule {name} {form:width$}  {meaning}").trim_end());
        out.push('\n');
    }
    let is_told = command.forms.iter().any(|(_, meaning)| !meaning.is_empty()) || !command.about.is_empty();
    if !is_told {
        out.push_str(&format!("  {}\n", command.summary));
    }
    out.push_str(command.about);
    let width = command.options.iter().map(|(head, _)| head.len()).max().unwrap_or(0);
    for (head, meaning) in command.options {
        out.push_str(&format!("  {head:width$}  {meaning}\n"));
    }
    out
}

/// The option among `words` that asks for the usage text.
pub fn asks_for_help(words: &[std::ffi::OsString]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_the_overview_and_has_a_usage_text() {
        for command in COMMANDS {
            assert!(overview().contains(&format!(" ferrule {} ", command.name)), "{}", command.name);
            assert!(usage(command.name).starts_with(&format!("usage: ferrule {} ", command.name)));
        }
        assert_eq!(usage("tap"), "");
    }

    #[test]
    fn a_usage_text_has_every_option_once() {
        let text = usage("migrate");
        for (head, meaning) in find("migrate").expect("it is there").options {
            assert_eq!(text.matches(&format!("\n  {head}")).count(), 1, "{text}");
            assert!(text.contains(meaning));
        }
    }
}
