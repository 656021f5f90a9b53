//! Agents started by a command template, as on other hosts: the tree, both ways of linking, and unauthenticated connections.

use crate::harness::{is_named, kill, run, run_with_input, start_with, temporary};
use std::io::{Read, Write};
use std::net::TcpStream;

const TEMPLATE: [&str; 2] = ["--launcher-exec", "env WHERE={host} {command}"];

fn with<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    TEMPLATE.iter().chain(rest).copied().collect()
}

#[test]
fn ranks_run_below_every_agent_of_a_tree() {
    for width in ["1", "2", "16"] {
        let done = run(&with(&[
            "--tree-width",
            width,
            "-hosts",
            "a,b,c,d,e",
            "-n",
            "10",
            "sh",
            "-c",
            "echo $WHERE$FERRULE_LOCAL_RANK",
        ]));
        assert_eq!(done.code, 0, "{}", done.stderr);
        // With a narrow tree the template nests, and the innermost host wins.
        assert_eq!(done.lines(), ["a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1", "e0", "e1"]);
    }
}

#[test]
fn input_output_and_exit_codes_come_through_the_tree() {
    let input: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    let done = run_with_input(
        &with(&["--tree-width", "1", "--stdin", "2", "-hosts", "a,b,c", "-n", "3", "cat"]),
        input.as_bytes(),
    );
    assert!(done.out() == input);
    let done = run(&with(&[
        "--tree-width",
        "1",
        "-hosts",
        "a,b,c",
        "-n",
        "3",
        "sh",
        "-c",
        "test $FERRULE_RANK = 2 && exit 9; sleep 1000",
    ]));
    assert_eq!(done.code, 9);
    assert!(done.stderr.contains("rank 2") && done.stderr.contains("on c"), "{}", done.stderr);
}

/// The agent is given a network namespace of its own, without any interface, so only the launcher's stdio reaches the parent.
#[test]
fn without_a_network_the_launcher_carries_the_link() {
    let template = "sh -c 'echo a banner; exec unshare -rn {command}'";
    if run(&["unshare", "-rn", "true"]).code != 0 {
        println!("skipped: no user namespaces here");
        return;
    }
    let done =
        run_with_input(&["--launcher-exec", template, "-hosts", "a,b", "-n", "2", "-l", "cat"], b"through stdio\n");
    assert_eq!((done.code, done.out()), (0, "[0] through stdio\n"), "{}", done.stderr);
    assert!(done.stderr.contains("a banner"), "{}", done.stderr);
}

#[test]
fn a_launcher_that_fails_is_named() {
    let done = run(&["--launcher-exec", "sh -c 'exit 3' {command}", "-hosts", "far", "-n", "1", "true"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("launcher of the node agent on far exited with code 3"), "{}", done.stderr);
    let done = run(&["--launcher-exec", "sh -c 'exec {command} </dev/null'", "-hosts", "far", "-n", "1", "true"]);
    assert!(done.stderr.contains("no invitation on standard input"), "{}", done.stderr);
}

#[test]
fn a_killed_remote_agent_or_reaper_ends_the_job() {
    for (name, index) in [("ferrule-agent", 0), ("ferrule-agent", 1), ("mpiexec", 0)] {
        let job = start_with(&with(&["-hosts", "a,b", "-n", "2", "sleep", "1000"]), &[]);
        let pids = job.wait_for(|pids| pids.iter().filter(|p| is_named(**p, "sleep")).count() == 2);
        let victims: Vec<i32> = pids.into_iter().filter(|p| is_named(*p, name)).collect();
        kill(victims[index], 9);
        let done = job.finish(b"");
        assert_eq!(done.code, 1, "{name}: {}", done.stderr);
        assert!(done.stderr.contains("node agent on"), "{}", done.stderr);
    }
}

#[test]
fn unauthenticated_connections_at_the_agents_port_are_dropped() {
    let first = 20_000 + std::process::id() % 20_000;
    let range = format!("{first}-{}", first + 20);
    let job = start_with(
        &with(&["-hosts", "a", "-n", "1", "sh", "-c", "read x; echo $x"]),
        &[("FERRULE_PORT_RANGE", &range)],
    );
    job.wait_for(|pids| pids.iter().any(|p| is_named(*p, "sh")));
    let connect =
        || (first..=first + 20).find_map(|p| TcpStream::connect(("127.0.0.1", p as u16)).ok()).expect("the port");
    let mut quiet = connect();
    let mut greeting = [0; 24];
    quiet.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..6], b"FERRUL");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"FERRUL\x01\x00", &[b'F'; 44]] {
        let mut caller = connect();
        caller.write_all(bytes).unwrap();
    }
    // A well-formed answer with a wrong proof, and a replay of our own challenge.
    let mut forger = connect();
    forger.read_exact(&mut greeting).unwrap();
    let mut forged = [0u8; 44];
    forged[..24].copy_from_slice(&greeting);
    forger.write_all(&forged).unwrap();
    let mut nothing = Vec::new();
    let _ = forger.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    let done = job.finish(b"still here\n");
    assert_eq!((done.code, done.out()), (0, "still here\n"), "{}", done.stderr);
    assert!(done.stderr.contains("dropped a connection from"), "{}", done.stderr);
}

/// A stand-in for ssh: takes its options, and hands the joined words to a shell in an environment of its own.
#[test]
fn ssh_is_used_as_ssh_wants_it() {
    let folder = temporary("ssh");
    std::fs::create_dir(&folder).unwrap();
    let script = "#!/bin/sh\nwhile :; do case $1 in -T) shift;; -o) shift 2;; *) break;; esac; done\nhost=$1; shift\n\
                  exec env -i PATH=$PATH LAUNCH_TEST_MARK=$LAUNCH_TEST_MARK AT=$host sh -c \"$*\"\n";
    std::fs::write(folder.join("ssh"), script).unwrap();
    std::fs::set_permissions(folder.join("ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let show = "echo $AT $FERRULE_RANK $GIVEN $SSH_SECRET $(pwd)";
    let args = ["-hosts", "far1.invalid,far2.invalid", "--tree-width", "1", "-wdir", "/", "-n", "2", "sh", "-c", show];
    let env = [("PATH", path.as_str()), ("GIVEN", "given"), ("SSH_SECRET", "secret")];
    let done = start_with(&args, &env).finish(b"");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(done.lines(), ["far1.invalid 0 given /", "far2.invalid 1 given /"], "{}", done.stderr);
}
