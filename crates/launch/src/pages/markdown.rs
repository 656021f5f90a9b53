//! docs/reference/options.md and docs/reference/settings.md.

use super::settings_page::{limits, title};
use crate::cli::{table, values};

/// A cell of a table.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// The options of mpiexec.
pub fn options() -> String {
    let mut out = String::from(
        "# Options of mpiexec\n\n\
         Made by `make pages` from the table that `mpiexec` itself reads; also `mpiexec --help` and `man mpiexec`. One dash or two make no difference, and\n\
         `--option=value` is `--option value`. Options of other launchers: [options.md](../user/options.md).\n",
    );
    for topic in values::TOPICS {
        out.push_str(&format!("\n## {topic}\n| option | value | meaning |\n|---|---|---|\n"));
        for spelling in table::own().filter(|s| values::topic(s.kind) == *topic) {
            let names: Vec<String> = spelling.names.iter().map(|name| code(&table::shown(name))).collect();
            let (value, meaning) = (code(spelling.metavar()), cell(spelling.meaning()));
            out.push_str(&format!("| {} | {value} | {meaning} |\n", names.join(", ")));
        }
    }
    out.push_str(&format!("\n## Exit code\n{}", table::EXIT_CODE));
    out
}

/// All settings.
pub fn settings() -> String {
    let mut out = String::from(
        "# Settings\n\n\
         Made by `make pages` from the tables that library and launcher read; also `man ferrule-settings`. `ferrule info --config` shows the values in force.\n\
         A setting is a variable of the environment, or `mpiexec --set NAME=VALUE`, without `FERRULE_`. Numbers may end in K, M or G (powers of 1024). A value\n\
         that is out of its limits gets a warning, and the default holds.\n",
    );
    for (module, table) in crate::settings::tables() {
        out.push_str(&format!("\n## {}\n| setting | default | limits | meaning |\n|---|---|---|---|\n", title(module)));
        for meta in table {
            let (default, range) = limits(meta);
            let (default, meaning) = (cell(&default), cell(meta.doc));
            out.push_str(&format!("| `FERRULE_{}` | {default} | {range} | {meaning} |\n", meta.name));
        }
    }
    out
}
