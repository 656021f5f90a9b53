//! The lanes of the job's processes: `--lanes` and the settings that it stands for, checked before anything starts (decision 0032).
//!
//! Each process has a connection for each lane to each process of another node. If those are more than a process may have files open, the job gets fewer
//! lanes, or is refused if the user has forced their number.

use crate::cli::Options;
use crate::environment;
use protocol::control::job::JobSpec;
use protocol::lanes::LanePlan;

const LANES: &str = "FERRULE_LANES";
const POLICY: &str = "FERRULE_LANE_POLICY";

/// Open files of a process that are no lanes: of the program, sockets of agents, memory.
const OTHER_FILES: u64 = 64;

/// Puts the settings that the job's lanes come from into the environment of all programs, fewer lanes if the number of files that a process of this host may have
/// open (`file_limit`) is too small. Returns warnings. An error says why the job can't be as it is wanted.
pub(super) fn settle(options: &Options, job: &mut JobSpec, file_limit: u64) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    let [lanes, policy] = [LANES, POLICY].map(|name| said(options, name).unwrap_or_default());
    let (lanes, policy) = match &options.lanes {
        None => (lanes, policy),
        Some(option) => {
            for (name, other, value) in [(LANES, lanes, &option.count), (POLICY, policy, &option.policy)] {
                if !other.is_empty() && other != *value {
                    warnings.push(format!("--lanes counts, not {name}={other}"));
                }
            }
            set(job, &option.count, &option.policy);
            (option.count.clone(), option.policy.clone())
        }
    };
    let plan = LanePlan::parse(&lanes, &policy)?;
    let peers = peers_over_network(job, &said(options, "FERRULE_CHANNELS").unwrap_or_default());
    let most = file_limit.saturating_sub(OTHER_FILES) / peers.max(1);
    if plan.lanes() as u64 <= most || plan.lanes() == 1 {
        return Ok(warnings);
    }
    let needed = format!(
        "{} lanes to {peers} processes of other nodes need {} open files, and a process may have {file_limit} (ulimit -n)",
        plan.lanes(),
        plan.lanes() as u64 * peers + OTHER_FILES
    );
    if plan.is_forced() {
        return Err(needed);
    }
    let fitting = plan.with_lanes(most.max(1) as usize);
    let smaller = if fitting.policy() == plan.policy() { fitting } else { LanePlan::SINGLE };
    warnings.push(format!("{needed}; the job has {smaller}"));
    set(job, &smaller.lanes().to_string(), &smaller.policy().to_string());
    Ok(warnings)
}

/// Processes on other nodes than the fullest node has; all others if no memory is shared.
fn peers_over_network(job: &JobSpec, channels: &str) -> u64 {
    if channels == "tcp" {
        return job.ranks.len().saturating_sub(1) as u64;
    }
    let mut of_nodes = vec![0u64; job.hosts.len()];
    for place in &job.ranks {
        if let Some(count) = of_nodes.get_mut(place.node as usize) {
            *count += 1;
        }
    }
    let fewest = of_nodes.iter().copied().filter(|count| *count > 0).min().unwrap_or_default();
    job.ranks.len() as u64 - fewest
}

/// What the options of all programs say, or else the environment.
fn said(options: &Options, name: &str) -> Option<String> {
    let set = options.set.iter().rfind(|(other, _)| other == name);
    let own = || std::env::var_os(name);
    set.and_then(|(_, value)| value.clone()).or_else(own).and_then(|value| value.into_string().ok())
}

fn set(job: &mut JobSpec, lanes: &str, policy: &str) {
    for app in &mut job.apps {
        environment::set(&mut app.set, LANES.as_bytes(), lanes.as_bytes());
        environment::set(&mut app.set, POLICY.as_bytes(), policy.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Command, parse};
    use std::ffi::OsString;

    fn settled(line: &str, file_limit: u64) -> Result<(String, String, Vec<String>), String> {
        let words = format!("--launcher fork --hosts a,b {line} x");
        let Ok(Command::Run(options)) = parse(words.split_whitespace().map(OsString::from)) else {
            panic!("{line} is no command line")
        };
        let mut job = super::super::setup::plan(&options)?.job;
        let warnings = settle(&options, &mut job, file_limit)?;
        let text = |name: &str| {
            let found = job.apps[0].set.iter().find(|(other, _)| other == name.as_bytes());
            found.map_or(String::new(), |(_, value)| String::from_utf8(value.clone()).unwrap())
        };
        Ok((text(LANES), text(POLICY), warnings))
    }

    #[test]
    fn the_option_counts_and_says_so() {
        let (lanes, policy, warnings) = settled("-n 4 --lanes 2:segregate", 1024).unwrap();
        assert_eq!((lanes.as_str(), policy.as_str(), warnings.len()), ("2", "segregate", 0));
        let (lanes, policy, warnings) = settled("-n 4 --set LANES=3 --lanes 4", 1024).unwrap();
        assert_eq!((lanes.as_str(), policy.as_str()), ("4", ""));
        assert_eq!(warnings, ["--lanes counts, not FERRULE_LANES=3"]);
    }

    #[test]
    fn settings_that_are_none_start_nothing() {
        let error = settled("-n 2 --set LANES=17", 1024).unwrap_err();
        assert!(error.contains("FERRULE_LANES=17 is not auto or a number from 1 to 16"), "{error}");
        let error = settled("-n 2 --set LANE_POLICY=best", 1024).unwrap_err();
        assert!(error.contains("is none of"), "{error}");
    }

    #[test]
    fn there_are_no_more_lanes_than_files() {
        // 20 ranks on two nodes: 10 peers over the network for each.
        let (lanes, policy, warnings) = settled("-n 20 --ppn 10 --lanes 16", 144).unwrap();
        assert_eq!((lanes.as_str(), policy.as_str()), ("8", "distribute"));
        assert!(warnings[0].starts_with("16 lanes to 10 processes of other nodes need 224 open files"), "{warnings:?}");
        let (lanes, policy, _) = settled("-n 20 --ppn 10 --lanes 4:segregate", 80).unwrap();
        assert_eq!((lanes.as_str(), policy.as_str()), ("1", "single"));
        assert!(settled("-n 20 --ppn 10 --lanes 16!", 144).unwrap_err().contains("(ulimit -n)"));
        assert!(settled("-n 20 --ppn 10 --lanes 8!", 144).unwrap().2.is_empty());
    }
}
