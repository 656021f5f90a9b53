//! The command line of each engine. Pure functions: description of a container → argv.

use super::{Container, Engine};

/// `PATH` in a container whose engine knows none of the image.
const PLAIN_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the host adds to the description.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Words of the engine.
    pub command: Vec<String>,
    /// The job directory on the host, and where it is seen inside.
    pub job_dir: Option<(String, String)>,
    /// Variables besides the container's.
    pub env: Vec<(String, String)>,
    /// The image has `/ch/environment` (charliecloud only).
    pub image_environment: bool,
}

/// The command that runs the agent inside and carries its standard input and output.
pub fn start(container: &Container, found: &Found) -> Vec<String> {
    let mut words = found.command.clone();
    match container.engine {
        Engine::Docker | Engine::Podman => run(container, found, &mut words),
        Engine::Charliecloud => ch_run(container, found, &mut words),
        Engine::Exec => {
            words.extend(["exec", "-i"].map(String::from));
            push_env(container, found, &mut words);
            words.extend(container.args.iter().cloned());
            words.extend([container.name.clone(), container.agent.clone(), "--agent".into()]);
        }
    }
    words
}

fn environment(container: &Container, found: &Found) -> Vec<String> {
    let job_dir = found.job_dir.iter().map(|(_, inside)| format!("FERRULE_JOB_DIR={inside}"));
    let all = container.env.iter().chain(&found.env);
    all.map(|(name, value)| format!("{name}={value}")).chain(job_dir).collect()
}

fn push_env(container: &Container, found: &Found, words: &mut Vec<String>) {
    for pair in environment(container, found) {
        words.extend(["-e".into(), pair]);
    }
}

fn run(container: &Container, found: &Found, words: &mut Vec<String>) {
    // The agent's reaper is process 1 and reaps, so no --init. Without --log-driver the engine would write the link to disk.
    words.extend(["run", "-i", "--rm", "--log-driver", "none", "--name"].map(String::from));
    words.extend([container.name.clone(), "--label".into(), format!("ferrule.job={:016x}", container.job_id)]);
    words.extend(["--entrypoint".into(), container.agent.clone()]);
    for (path, writable) in &container.binds {
        words.extend(["-v".into(), format!("{path}:{path}{}", if *writable { "" } else { ":ro" })]);
    }
    if let Some((outside, inside)) = &found.job_dir {
        words.extend(["-v".into(), format!("{outside}:{inside}")]);
    }
    push_env(container, found, words);
    if !container.network.is_empty() {
        words.extend(["--network".into(), container.network.clone()]);
    }
    words.extend(container.args.iter().cloned());
    words.extend([container.image.clone(), "--agent".into()]);
}

fn ch_run(container: &Container, found: &Found, words: &mut Vec<String>) {
    // ch-run hands the host's variables on, unlike the other engines.
    words.extend(["--unset-env=*", "--env-no-expand"].map(String::from));
    words.push(format!("--set-env=PATH={PLAIN_PATH}"));
    if found.image_environment {
        words.push("--set-env".into());
    }
    words.extend(environment(container, found).into_iter().map(|pair| format!("--set-env={pair}")));
    // The host's /tmp, and so the job directory, is there anyway.
    let binds = container.binds.iter().filter(|(path, _)| !path.starts_with("/tmp/"));
    words.extend(binds.map(|(path, _)| format!("--bind={path}:{path}")));
    words.extend(container.args.iter().cloned());
    words.extend([container.image.clone(), "--".into(), container.agent.clone(), "--agent".into()]);
}

/// The command that ends and removes the container, if it is one of ours.
pub fn remove(container: &Container, found: &Found) -> Option<Vec<String>> {
    let words: &[&str] = match container.engine {
        Engine::Docker => &["rm", "-f", "-v"],
        Engine::Podman => &["rm", "-f", "-v", "-t", "0"],
        Engine::Charliecloud | Engine::Exec => return None,
    };
    Some(with(found, words, &[&container.name]))
}

/// The command that prints, for each directory bound into container `name`: writable, outside, inside.
pub fn mounts(found: &Found, name: &str) -> Vec<String> {
    let format = "{{range .Mounts}}{{.RW}}\t{{.Source}}\t{{.Destination}}\n{{end}}";
    with(found, &["inspect", "--type", "container", "--format", format], &[name])
}

/// The command that prints the variables of container `name`, a line each.
pub fn variables(found: &Found, name: &str) -> Vec<String> {
    with(found, &["inspect", "--type", "container", "--format", "{{range .Config.Env}}{{println .}}{{end}}"], &[name])
}

/// The command that copies directory `from` to the new directory `to` in the container.
pub fn copy(container: &Container, found: &Found, from: &str) -> Vec<String> {
    with(found, &["cp"], &[from, &format!("{}:{}", container.name, container.copy_to)])
}

/// The command that removes the copy.
pub fn remove_copy(container: &Container, found: &Found) -> Vec<String> {
    with(found, &["exec"], &[&container.name, "rm", "-rf", &container.copy_to])
}

fn with(found: &Found, verb: &[&str], rest: &[&str]) -> Vec<String> {
    let words = verb.iter().chain(rest).map(|w| w.to_string());
    found.command.iter().cloned().chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::super::spec::example;
    use super::*;

    fn found(command: &str) -> Found {
        Found {
            command: command.split(' ').map(String::from).collect(),
            job_dir: Some(("/tmp/ferrule-77/job".into(), "/tmp/ferrule-77/job".into())),
            ..Default::default()
        }
    }

    #[test]
    fn docker_and_podman_run() {
        for (engine, command) in [(Engine::Docker, "docker"), (Engine::Podman, "podman --root /r")] {
            let mut container = example(engine);
            container.network = "host".into();
            let wanted = format!(
                "{command} run -i --rm --log-driver none --name ferrule-1-0 --label ferrule.job=0000000000000001 --entrypoint \
                 /d/bin/mpiexec -v /d:/d:ro -v /w:/w -v /tmp/ferrule-77/job:/tmp/ferrule-77/job -e FERRULE_LOG=info -e \
                 FERRULE_JOB_DIR=/tmp/ferrule-77/job --network host --cpus 2 image --agent"
            );
            assert_eq!(start(&container, &found(command)).join(" "), wanted);
        }
        let removal = |engine| remove(&example(engine), &found("e")).map(|w| w.join(" "));
        assert_eq!(removal(Engine::Docker).unwrap(), "e rm -f -v ferrule-1-0");
        assert_eq!(removal(Engine::Podman).unwrap(), "e rm -f -v -t 0 ferrule-1-0");
        assert_eq!((removal(Engine::Exec), removal(Engine::Charliecloud)), (None, None));
    }

    #[test]
    fn charliecloud_gets_no_variables_of_the_host() {
        let wanted = "ch-run --unset-env=* --env-no-expand --set-env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                      --set-env=FERRULE_LOG=info --set-env=FERRULE_JOB_DIR=/tmp/ferrule-77/job --bind=/d:/d --bind=/w:/w \
                      --cpus 2 image -- /d/bin/mpiexec --agent";
        assert_eq!(start(&example(Engine::Charliecloud), &found("ch-run")).join(" "), wanted);
        let mut in_tmp = example(Engine::Charliecloud);
        in_tmp.binds = vec![("/tmp/w".into(), true)];
        assert!(!start(&in_tmp, &found("ch-run")).iter().any(|w| w.starts_with("--bind")));
        let with_environment = Found { image_environment: true, ..found("ch-run") };
        assert!(start(&example(Engine::Charliecloud), &with_environment).contains(&"--set-env".into()));
    }

    #[test]
    fn exec_starts_the_agent_in_a_container_that_runs() {
        let mut container = example(Engine::Exec);
        container.name = "web".into();
        container.copy_to = "/tmp/ferrule-77".into();
        let none = Found { job_dir: None, ..found("podman") };
        assert_eq!(
            start(&container, &none).join(" "),
            "podman exec -i -e FERRULE_LOG=info --cpus 2 web /d/bin/mpiexec --agent"
        );
        assert_eq!(copy(&container, &none, "/s/.").join(" "), "podman cp /s/. web:/tmp/ferrule-77");
        assert_eq!(remove_copy(&container, &none).join(" "), "podman exec web rm -rf /tmp/ferrule-77");
        assert!(
            mounts(&none, "web").join(" ").starts_with("podman inspect --type container --format {{range .Mounts}}")
        );
    }
}
