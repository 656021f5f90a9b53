//! ferrule-settings(7).

use super::roff::Page;
use base::config::{Kind, Meta};

/// Default and limits, in words.
pub fn limits(meta: &Meta) -> (String, String) {
    let unit = if meta.unit.is_empty() { String::new() } else { format!(" {}", meta.unit) };
    let default = (meta.default)();
    let default = if default.is_empty() { "empty".into() } else { format!("{default}{unit}") };
    let range = match meta.kind {
        Kind::Switch => "true or false".into(),
        Kind::Text => "a text".into(),
        Kind::Whole | Kind::Real => (meta.range)().replace("..=", " to "),
    };
    (default, range)
}

/// What a table is about, by the name of its module.
pub fn title(module: &str) -> &str {
    match module {
        "launch" => "Starting jobs",
        "topology" => "Processors",
        "bootstrap" => "Start of a rank",
        "pmix" => "PMIx launchers",
        "calibrate" => "Sizes of messages, single copy and eager",
        "why" => "Explaining channels",
        "locality" => "Proof of locality",
        "shm" => "Shared memory",
        "single_copy" => "Single copy",
        "offload" => "Offload workers",
        "tcp" => "TCP",
        "classes" => "Marks of lane classes",
        "rails" => "Several interfaces",
        "ucx" => "UCX",
        "lanes" => "Lanes",
        "migration" => "Migration",
        "wait" => "Waiting",
        "policy::burst" => "Automatic choice: bursts",
        "policy::holding" => "Automatic choice: holding receives",
        "policy::non_temporal" => "Automatic choice: non-temporal copies",
        "policy::oversubscription" => "Automatic choice: oversubscription",
        "policy::streaming" => "Automatic choice: streaming",
        "policy::testing" => "Automatic choice: programs that test",
        "policy::waiting" => "Automatic choice: waiting",
        "error handlers" => "Error handlers",
        "collectives" => "Collectives",
        other => other,
    }
}

/// The page.
pub fn page() -> String {
    let mut page =
        Page::new("ferrule-settings", 7, "ferrule-settings", "settings of Ferrule's MPI library and launcher");
    page.section("Description").paragraph(
        "A setting is a variable of the environment, or an option of mpiexec: --set NAME=VALUE sets FERRULE_NAME for all ranks. \
         Numbers may end in K, M or G (powers of 1024). A value that is out of its limits gets a warning, and the default holds. \
         ferrule info --config shows the values in force. They are also control variables of the tool interface (MPI_T).",
    );
    for (module, table) in crate::settings::tables() {
        page.section(title(module));
        for meta in table {
            let (default, range) = limits(meta);
            page.item(&format!("FERRULE_{}", meta.name), &format!("{} Default: {default}; {range}.", meta.doc.trim()));
        }
    }
    page.section("See also").paragraph("mpiexec(1), ferrule(1)").end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_title_of_its_own() {
        let mut titles: Vec<&str> = crate::settings::tables().iter().map(|(module, _)| title(module)).collect();
        for title in &titles {
            assert!(title.starts_with(char::is_uppercase), "the settings of {title} want a title");
        }
        let count = titles.len();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), count);
    }
}
