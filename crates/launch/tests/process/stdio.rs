//! Standard input, output and error.

use crate::harness::{run, run_with_input, temporary};

#[test]
fn input_goes_to_rank_0_all_or_none() {
    let cat = ["-n", "2", "cat"];
    assert_eq!(run_with_input(&cat, b"one\ntwo\n").out(), "one\ntwo\n");
    assert_eq!(run_with_input(&["--stdin", "all", "-n", "2", "cat"], b"x\n").out(), "x\nx\n");
    assert_eq!(run_with_input(&["--stdin", "none", "-n", "2", "cat"], b"x\n").out(), "");
    assert_eq!(run_with_input(&["-l", "-s", "1", "-n", "2", "cat"], b"x\n").out(), "[1] x\n");
}

#[test]
fn bytes_pass_unchanged_in_any_amount() {
    let mut state = 1u32;
    let input: Vec<u8> = (0..5_000_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let done = run_with_input(&["-n", "1", "cat"], &input);
    assert_eq!(done.code, 0);
    assert!(done.stdout == input);
}

#[test]
fn a_rank_that_does_not_read_does_not_block_the_job() {
    let done = run_with_input(&["-n", "2", "true"], &vec![b'x'; 1 << 20]);
    assert_eq!(done.code, 0);
}

#[test]
fn lines_of_ranks_never_mix() {
    let script = "i=0; while [ $i -lt 2000 ]; do echo $FERRULE_RANK-$FERRULE_RANK-$FERRULE_RANK-$i; i=$((i+1)); done";
    let done = run(&["-n", "4", "sh", "-c", script]);
    assert_eq!(done.out().lines().count(), 8000);
    for rank in 0..4 {
        let mine: Vec<&str> = done.out().lines().filter(|l| l.starts_with(&format!("{rank}-"))).collect();
        let wanted: Vec<String> = (0..2000).map(|i| format!("{rank}-{rank}-{rank}-{i}")).collect();
        assert_eq!(mine, wanted);
    }
}

#[test]
fn streams_are_kept_apart_tagged_and_flushed_at_the_end() {
    let done = run(&["-l", "-n", "2", "sh", "-c", "echo out; echo err >&2; printf last"]);
    assert_eq!(done.lines(), ["[0] last", "[0] out", "[1] last", "[1] out"], "{:?}", done.out());
    let mut errors: Vec<&str> = done.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] err", "[1] err"]);
    assert_eq!(run(&["-n", "1", "printf", "a\\nb"]).out(), "a\nb");
}

#[test]
fn output_of_a_dying_rank_is_not_lost() {
    let done = run(&["-n", "1", "sh", "-c", "seq 1 50000; kill -9 $$"]);
    assert_eq!((done.code, done.out().lines().count()), (137, 50_000));
}

#[test]
fn output_can_go_to_files() {
    let path = temporary("out");
    let pattern = format!("{}-%r", path.display());
    assert_eq!(run(&["-outfile-pattern", &pattern, "-n", "2", "sh", "-c", "echo $FERRULE_RANK"]).out(), "");
    for rank in 0..2 {
        let file = format!("{}-{rank}", path.display());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{rank}\n"));
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn each_rank_can_have_a_directory_for_its_output() {
    let path = temporary("directory");
    let go = |words: &str| {
        let to = format!("{}{words}", path.display());
        run(&[
            "--output-filename",
            &to,
            "-n",
            "11",
            "sh",
            "-c",
            "[ $FERRULE_RANK = 1 ] || echo o$FERRULE_RANK; echo e >&2",
        ])
    };
    let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap();
    let shown = go("");
    assert_eq!((shown.code, shown.lines().len(), shown.stderr.lines().count()), (0, 10, 11));
    // A second job begins with empty files.
    assert_eq!(go("").code, 0);
    assert_eq!(
        (read("1/rank.03/stdout"), read("1/rank.10/stdout"), read("1/rank.03/stderr")),
        ("o3\n".into(), "o10\n".into(), "e\n".into())
    );
    // A silent rank has its file, too.
    assert_eq!(read("1/rank.01/stdout"), "");
    let hidden = go(":nocopy,nojobid");
    assert_eq!((hidden.code, hidden.out(), hidden.stderr.as_str()), (0, "", ""));
    assert_eq!((read("rank.00/stdout"), read("rank.00/stderr")), ("o0\n".into(), "e\n".into()));
    std::fs::remove_dir_all(&path).unwrap();
    let done = run(&["--output-filename", "/proc/nowhere", "echo", "ran"]);
    assert_eq!((done.code, done.out()), (2, ""));
    assert!(done.stderr.contains("cannot write /proc/nowhere/1/rank.0: "), "{}", done.stderr);
}
