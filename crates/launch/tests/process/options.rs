//! Options that change what is started, where and with which environment.

use crate::harness::{run, start_with, temporary};

#[test]
fn several_programs_make_one_job() {
    let done = run(&[
        "-n",
        "1",
        "sh",
        "-c",
        "echo a $FERRULE_RANK $FERRULE_SIZE",
        ":",
        "-n",
        "2",
        "sh",
        "-c",
        "echo b $FERRULE_RANK",
    ]);
    assert_eq!(done.lines(), ["a 0 3", "b 1", "b 2"]);
    let file = temporary("config");
    std::fs::write(&file, "# programs\n-n 1 echo one\n\n-n 2 -env X 'a b' sh -c \"echo $X\"\n").unwrap();
    let done = run(&["-configfile", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
    assert_eq!(done.lines(), ["a b", "a b", "one"]);
}

#[test]
fn variables_are_set_passed_and_withheld() {
    let show = ["sh", "-c", "echo $A-$B-$C-$FERRULE_X"];
    let go = |options: &[&str]| {
        let args: Vec<&str> = options.iter().chain(&show).copied().collect();
        start_with(&args, &[("B", "2"), ("C", "3")]).finish(b"").out().trim().to_string()
    };
    assert_eq!(go(&["-genv", "A", "1", "-x", "B", "--set", "x=9"]), "1-2-3-9");
    assert_eq!(go(&["-env", "A", "1", "-envlist", "PATH,C"]), "1--3-");
    assert_eq!(go(&["-genvnone", "-x", "C=4"]), "--4-");
    assert_eq!(go(&["-genvlist", "B", "-envall"]), "-2-3-");
}

#[test]
fn a_job_inside_a_rank_does_not_inherit_its_place() {
    let inner = format!("env -u MARK {} -n 2 sh -c 'echo $FERRULE_RANK/$FERRULE_SIZE'", env!("CARGO_BIN_EXE_mpiexec"));
    let done = run(&["-n", "3", "sh", "-c", &inner]);
    assert_eq!(done.lines(), ["0/2", "0/2", "0/2", "1/2", "1/2", "1/2"]);
}

#[test]
fn a_variable_that_is_empty_counts_as_unset() {
    let empty =
        [("MPIEXEC_TIMEOUT", ""), ("FERRULE_TREE_WIDTH", ""), ("FERRULE_STARTUP", ""), ("FERRULE_BIND_TO", " ")];
    let done = start_with(&["-n", "2", "echo", "ran"], &empty).finish(b"");
    assert_eq!((done.code, done.out(), done.stderr.as_str()), (0, "ran\nran\n", ""));
}

#[test]
fn nothing_is_launched_when_only_the_plan_is_wanted() {
    let file = temporary("not-launched");
    let path = file.to_str().unwrap();
    let hosts = ["--launcher", "fork", "-hosts", "one:2,two:1", "--do-not-launch"];
    let done = run(&[&hosts[..], &["-n", "2", "touch", path, ":", "-n", "1", "touch", path]].concat());
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let planned = format!("rank 0 on one: touch {path}\nrank 1 on one: touch {path}\nrank 2 on two: touch {path}\n");
    assert_eq!(done.out(), planned);
    assert!(!file.exists());
}

#[test]
fn directories_and_hosts_are_obeyed() {
    assert_eq!(run(&["-wdir", "/", "pwd"]).out(), "/\n");
    let file = temporary("hosts");
    std::fs::write(&file, "one slots=2\ntwo:1 # last\n").unwrap();
    let show = "echo $FERRULE_RANK $FERRULE_LOCAL_RANK $FERRULE_LOCAL_SIZE";
    let done = run(&["--launcher", "fork", "--hostfile", file.to_str().unwrap(), "sh", "-c", show]);
    std::fs::remove_file(file).unwrap();
    assert_eq!(done.lines(), ["0 0 2", "1 1 2", "2 0 1"]);
}

#[test]
fn bindings_are_made_and_shown() {
    let done = run(&["--bind-to", "core", "--report-bindings", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert!(done.stderr.contains("bound to cpus"), "{}", done.stderr);
    let list = done.out().split_whitespace().last().unwrap().to_string();
    assert!(done.stderr.contains(&format!("bound to cpus {list}\n")), "{list}: {}", done.stderr);
}

/// CPUs that this process may use.
fn allowed() -> Vec<usize> {
    sys::affinity::allowed().unwrap().iter().collect()
}

#[test]
fn ranks_get_the_cpus_that_the_user_lists() {
    let cpus = allowed();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let list = format!("user:{first},{last},{first}+{last}");
    let done = run(&["-l", "-n", "3", "--bind-to", &list, "grep", "Cpus_allowed_list", "/proc/self/status"]);
    let both = sys::affinity::CpuSet::from_list(&format!("{first},{last}")).unwrap().to_list();
    let wanted: Vec<String> = [first.to_string(), last.to_string(), both]
        .iter()
        .enumerate()
        .map(|(r, c)| format!("[{r}] Cpus_allowed_list:\t{c}"))
        .collect();
    assert_eq!(done.lines(), wanted, "{}", done.stderr);
    let done = run(&["-n", "1", "--bind-to", "user:1023", "true"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("cpu 1023 is not there"), "{}", done.stderr);
}

#[test]
fn a_hybrid_rank_gets_its_cores_and_a_thread_for_each() {
    let cpus = allowed();
    let show = "grep Cpus_allowed_list /proc/self/status; echo $OMP_NUM_THREADS $OMP_PLACES $OMP_PROC_BIND";
    let count = cpus.len().to_string();
    let pe = format!("slot:PE={count}");
    let done = run(&["-n", "1", "--bind-to", "hwthread", "--map-by", &pe, "sh", "-c", show]);
    let all = sys::affinity::allowed().unwrap().to_list();
    // One processor makes no hybrid rank.
    let hint = if cpus.len() > 1 { format!("{count} threads close") } else { String::new() };
    assert_eq!(done.out(), format!("Cpus_allowed_list:\t{all}\n{hint}\n"), "{}", done.stderr);
    let done =
        run(&["-n", "1", "-env", "OMP_NUM_THREADS", "1", "--bind-to", &format!("hwthread:{count}"), "sh", "-c", show]);
    assert_eq!(done.out(), format!("Cpus_allowed_list:\t{all}\n1\n"), "{}", done.stderr);
    let mine = ["-env", "OMP_PROC_BIND", "false", "--bind-to"];
    let done = run(&[&["-n", "1"], &mine[..], &[&format!("hwthread:{count}"), "sh", "-c", show]].concat());
    assert_eq!(done.out(), format!("Cpus_allowed_list:\t{all}\nfalse\n"), "{}", done.stderr);
    let done = run(&["-n", "1", "--map-by", "slot:PE=4096", "true"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("needs 4096 cores"), "{}", done.stderr);
}

#[test]
fn a_rank_file_says_where_each_rank_runs_and_on_which_cores() {
    let cpus = allowed();
    let all = sys::affinity::allowed().unwrap().to_list();
    let last = cpus.len() - 1;
    let file = temporary("ranks");
    let path = file.to_str().unwrap();
    let show = "echo $(grep Cpus_allowed_list /proc/self/status) $FERRULE_LOCAL_RANK $OMP_NUM_THREADS";
    let go = |text: &str, options: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let words = ["--launcher", "fork", "--rankfile", path, "-l"];
        run(&[&words, options, &["sh", "-c", show]].concat())
    };
    let text = format!("rank 1=one slot=0\nrank 0=two slot={last}\nrank 2=+n0 slot=*\n");
    let threads = if last > 0 { format!(" {}", cpus.len()) } else { String::new() };
    let done = go(&text, &["--bind-to", "hwthread", "-hosts", "one,two"]);
    let wanted = [
        format!("[0] Cpus_allowed_list: {} 0", cpus[last]),
        format!("[1] Cpus_allowed_list: {} 0", cpus[0]),
        format!("[2] Cpus_allowed_list: {all} 1{threads}"),
    ];
    assert_eq!(done.lines(), wanted, "{}", done.stderr);
    let done = go(&text, &["--bind-to", "none", "-hosts", "one,two"]);
    assert!(done.lines().iter().all(|line| line.contains(&format!("list: {all} "))), "{:?}", done.lines());
    let done = go("rank 0=one slot=60000\n", &[]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("one: rank file: rank 0: core 60000 of this host is not there"), "{}", done.stderr);
    let done = go("rank 0=one\n", &[]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains(&format!("rank file {path}: line 1: expected 'rank N=HOST slot=CORES'")),
        "{}",
        done.stderr
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn ranks_stay_in_the_set_of_cpus() {
    let cpu = allowed()[0].to_string();
    let show = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    for options in
        [&["--cpu-set", &cpu][..], &["--cpu-list", &cpu, "--bind-to", "core"], &["--map-by", &format!("pe-list={cpu}")]]
    {
        let done = run(&[&["-n", "2"], options, &show].concat());
        assert_eq!(done.lines(), vec![format!("Cpus_allowed_list:\t{cpu}"); 2], "{}", done.stderr);
    }
    let done = run(&["-n", "1", "--cpu-set", "1023", "true"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("--cpu-set: cpu 1023 is not there"), "{}", done.stderr);
}

#[test]
fn options_without_which_the_job_would_be_another_are_refused() {
    for words in [&["--membind", "local"][..], &["--mca", "rmaps_base_mapping_policy", "core"], &["--nolocal"]] {
        let done = run(&[words, &["-n", "1", "echo", "ran"]].concat());
        assert_eq!((done.code, done.out()), (2, ""));
        assert!(done.stderr.contains("is not supported: "), "{}", done.stderr);
    }
}

#[test]
fn needless_and_foreign_options_do_no_harm() {
    let done = run(&["--mca", "btl", "self,tcp", "--oversubscribe", "--allow-run-as-root", "-n", "1", "echo", "x"]);
    assert_eq!((done.out(), done.stderr.as_str()), ("x\n", "mpiexec: warning: option -mca is ignored\n"));
}

#[test]
fn misspelt_settings_are_told() {
    let done = run(&["--set", "PORT_RANG=1-2", "true"]);
    assert!(done.stderr.contains("did you mean FERRULE_PORT_RANGE?"), "{}", done.stderr);
}
