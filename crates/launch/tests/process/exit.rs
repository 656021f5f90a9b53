//! Exit codes and what the user is told.

use crate::harness::{run, temporary};

#[test]
fn the_exit_code_is_that_of_the_rank_that_failed() {
    for (script, code, text) in [
        ("exit 0", 0, ""),
        ("test $FERRULE_RANK = 2 && exit 7; sleep 100", 7, "rank 2 (pid"),
        ("test $FERRULE_RANK = 1 && kill -SEGV $$; sleep 100", 139, "was killed by SIGSEGV"),
        ("test $FERRULE_RANK = 0 && kill -9 $$; sleep 100", 137, "was killed by SIGKILL"),
    ] {
        let done = run(&["-n", "3", "sh", "-c", script]);
        assert_eq!(done.code, code, "{script}: {}", done.stderr);
        assert!(done.stderr.contains(text), "{script}: {}", done.stderr);
    }
}

#[test]
fn programs_that_can_not_run_are_told_as_a_shell_does() {
    let done = run(&["-n", "2", "no-such-program"]);
    assert_eq!(done.code, 127);
    assert!(done.stderr.contains("cannot start no-such-program"), "{}", done.stderr);
    assert_eq!(run(&["/etc/passwd"]).code, 126);
    let script = temporary("script");
    let path = script.to_str().unwrap();
    for (text, code, words) in [("#!/no/such", 127, "whose interpreter is missing"), ("echo", 126, "begins with #!")] {
        // By another process: what this one has open for writing, children of other tests have for a moment, too.
        let make = format!("echo '{text}' >{path}; chmod 755 {path}");
        assert!(std::process::Command::new("sh").args(["-c", &make]).status().unwrap().success());
        let done = run(&[path]);
        assert_eq!(done.code, code, "{}", done.stderr);
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
    let _ = std::fs::remove_file(&script);
    let done = run(&["-wdir", "/no/such/directory", "true"]);
    assert_eq!(done.code, 127);
    assert!(done.stderr.contains("/no/such/directory"), "{}", done.stderr);
}

#[test]
fn wrong_command_lines_are_refused() {
    for (args, text) in [
        (&["-n", "x", "true"][..], "needs a number"),
        (&["-hostfil", "x", "true"], "did you mean --hostfile?"),
        (&["-n", "2"], "without a program"),
        (&["--stdin", "5", "-n", "2", "true"], "only 2 ranks"),
        (&["-f", "/no/such/file", "true"], "cannot read host file"),
        (&["--launcher", "pigeon", "true"], "neither ssh nor fork"),
    ] {
        let done = run(args);
        assert_eq!(done.code, 2, "{args:?}");
        assert!(done.stderr.contains(text), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let done = run(&["--timeout", "0.3", "-n", "2", "sleep", "1000"]);
    assert_eq!(done.code, 124);
    assert!(done.stderr.contains("--timeout"), "{}", done.stderr);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let done =
        run(&["-n", "2", "sh", "-c", "trap '' TERM; test $FERRULE_RANK = 0 && exit 3; while :; do sleep 1; done"]);
    assert_eq!(done.code, 3);
}

#[test]
fn survivors_go_on_if_asked_to() {
    let script = "test $FERRULE_RANK = 0 && kill -9 $$; sleep 0.3; echo alive";
    let done = run(&["--continue-on-failure", "-n", "3", "sh", "-c", script]);
    assert_eq!((done.code, done.out()), (137, "alive\nalive\n"), "{}", done.stderr);
}

#[test]
fn many_ranks_start() {
    let done = run(&["-n", "128", "sh", "-c", "echo $FERRULE_RANK"]);
    assert_eq!((done.code, done.lines().len()), (0, 128));
}
