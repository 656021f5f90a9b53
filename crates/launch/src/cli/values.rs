//! What may stand for the value of an option, for shell completion; and under which heading a page shows the option.

use super::table::Kind;
use protocol::control::exchange::SCHEMES;

/// What completes a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Values {
    /// Nothing is known of it.
    Any,
    /// One of these, or the start of one.
    Words(Vec<&'static str>),
    /// A file.
    File,
    /// Files with commas between them.
    Files,
    /// A directory.
    Directory,
    /// Hosts with commas between them.
    Hosts,
    /// `NAME=` of a setting.
    Setting,
}

/// What completes the last value of this option.
pub fn of(kind: Kind) -> Values {
    let words = |words: &[&'static str]| Values::Words(words.to_vec());
    match kind {
        Kind::AppHosts | Kind::Hosts => Values::Hosts,
        Kind::HostFile | Kind::RankFile | Kind::ConfigFile | Kind::AgentPath | Kind::Profile => Values::File,
        Kind::OutFile | Kind::ErrFile => Values::File,
        Kind::PreloadFiles => Values::Files,
        Kind::WorkingDirectory | Kind::OutputDirectory => Values::Directory,
        Kind::Setting => Values::Setting,
        Kind::BindTo => words(&["none", "hwthread", "core", "numa", "socket"]),
        Kind::MapBy => {
            words(&["slot", "node", "core", "numa", "socket", "hwthread", "ppr:", "pe-list=", "rankfile:file="])
        }
        Kind::Launcher => words(&["ssh", "fork", "exec"]),
        Kind::Stdin => words(&["all", "none"]),
        Kind::WithFaultTolerance => words(&["ulfm", "none"]),
        Kind::Container => words(&["docker", "podman", "charliecloud", "exec"]),
        Kind::Startup => Values::Words(SCHEMES.iter().map(|scheme| scheme.name).collect()),
        Kind::Connect => words(&["all", "demand"]),
        Kind::Lanes => words(&["auto", "auto:distribute", "auto:segregate", "auto:segregate:traffic"]),
        _ => Values::Any,
    }
}

/// The headings, in the order in which a page shows them.
pub const TOPICS: &[&str] = &[
    "Ranks and hosts",
    "Placement and binding",
    "Environment",
    "Input and output",
    "Starting",
    "Connections and lanes",
    "Failures",
    "Containers",
    "Interconnect",
    "Diagnosis",
    "General",
];

/// The heading of this option.
pub fn topic(kind: Kind) -> &'static str {
    match kind {
        Kind::Count | Kind::PerNode | Kind::AppHosts | Kind::Hosts | Kind::HostFile => "Ranks and hosts",
        Kind::ConfigFile | Kind::UniverseSize | Kind::WorkingDirectory => "Ranks and hosts",
        Kind::RankFile | Kind::RankMap | Kind::CpuSet | Kind::BindTo | Kind::MapBy => "Placement and binding",
        Kind::ReportBindings | Kind::DoNotLaunch => "Placement and binding",
        Kind::Export | Kind::Set | Kind::GlobalSet | Kind::EnvList | Kind::EnvAll | Kind::EnvNone => "Environment",
        Kind::GlobalEnvList | Kind::GlobalEnvAll | Kind::GlobalEnvNone | Kind::Setting => "Environment",
        Kind::Tag | Kind::Stdin | Kind::OutFile | Kind::ErrFile | Kind::OutputDirectory => "Input and output",
        Kind::Launcher | Kind::LauncherExec | Kind::TreeWidth | Kind::AgentPath | Kind::Startup => "Starting",
        Kind::Preload | Kind::PreloadFiles | Kind::ReportStartup => "Starting",
        Kind::Listen | Kind::Connect | Kind::Lanes | Kind::Offload => "Connections and lanes",
        Kind::Timeout | Kind::ContinueOnFailure | Kind::WithFaultTolerance => "Failures",
        Kind::Container | Kind::ContainerImage | Kind::ContainerName | Kind::ContainerEngine => "Containers",
        Kind::RanksPerContainer | Kind::ContainerNetwork | Kind::ContainerArgs => "Containers",
        Kind::ContainerWorkdir | Kind::ContainerCopy => "Containers",
        Kind::Fabric | Kind::CommPattern => "Interconnect",
        Kind::Verbose | Kind::Profile | Kind::ProfileDetail | Kind::ProfileSlice => "Diagnosis",
        _ => "General",
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::TABLE;
    use super::*;

    #[test]
    fn words_that_completion_offers_are_accepted() {
        let mut tried = 0;
        for spelling in TABLE.iter().filter(|s| !s.help.is_empty()) {
            let Values::Words(words) = of(spelling.kind) else { continue };
            // A word that ends so wants more.
            for word in words.iter().filter(|word| !word.ends_with([':', '='])) {
                let line = [format!("--{}", spelling.names[0]), (*word).into(), "true".into()];
                // An engine wants an image or names, too.
                let image = ["--container-image", "i", "--container-name", "c"];
                let container = if spelling.kind == Kind::Container {
                    if *word == "exec" { &image[2..] } else { &image[..2] }
                } else {
                    &[][..]
                };
                let all = container.iter().map(|word| word.to_string()).chain(line).map(std::ffi::OsString::from);
                assert!(super::super::parse(all).is_ok(), "--{} {word}", spelling.names[0]);
                tried += 1;
            }
        }
        assert!(tried > 20, "only {tried} words");
    }

    #[test]
    fn an_option_with_a_completed_value_takes_one() {
        for spelling in TABLE.iter().filter(|s| of(s.kind) != Values::Any) {
            assert_eq!(spelling.words, 1, "--{}", spelling.names[0]);
        }
    }

    #[test]
    fn all_topics_have_options_and_the_last_one_few() {
        let own = || TABLE.iter().filter(|s| !s.help.is_empty());
        for name in TOPICS {
            assert!(own().any(|s| topic(s.kind) == *name), "{name}");
        }
        assert!(own().all(|s| TOPICS.contains(&topic(s.kind))));
        let general: Vec<&str> = own().filter(|s| topic(s.kind) == "General").map(|s| s.names[0]).collect();
        assert_eq!(general, ["help", "version"], "a new option wants a topic");
    }
}
