//! Advice for users who start containers by their own command line: processes of `docker run` know nothing of the job.

use std::ffi::OsString;

/// Engines whose containers don't inherit what mpiexec gives to their command.
const ENGINES: &[&str] = &["docker", "podman", "nerdctl", "kubectl"];

/// What to say about a program of several ranks that is in truth an engine's command.
pub fn about(argv: &[OsString], ranks: u32) -> Option<String> {
    let program = argv.first()?.to_str()?;
    let name = program.rsplit('/').next()?;
    let verb = argv.iter().skip(1).filter_map(|a| a.to_str()).find(|a| *a == "run" || *a == "exec")?;
    if ranks < 2 || !ENGINES.contains(&name) {
        return None;
    }
    let instead = match (name, verb) {
        ("docker" | "podman", "run") => format!("--container {name} --container-image IMAGE"),
        ("docker" | "podman", _) => "--container exec --container-name NAME".into(),
        _ => format!("--launcher-exec '{name} exec -i {{host}} {{command}}'"),
    };
    Some(format!(
        "`{name} {verb}` passes nothing of the job on, so that each MPI process in it would be rank 0 of 1; use {instead}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_told_from_programs() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let told = about(&words("/usr/bin/docker run --rm image prog"), 2).unwrap();
        assert!(told.contains("--container docker"), "{told}");
        assert!(about(&words("podman exec -i c prog"), 2).unwrap().contains("--container exec"));
        assert_eq!(about(&words("docker run image prog"), 1), None);
        assert_eq!(about(&words("docker ps"), 2), None);
        assert_eq!(about(&words("./prog run"), 4), None);
        assert_eq!(about(&[], 4), None);
    }
}
