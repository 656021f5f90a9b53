//! Ranks that talk to their agent. A rank is this test program again, which plays the role that a variable names.

use crate::harness::{Done, role as arguments, run};
use base::WorldRank;
use channel::bootstrap::{Bootstrap, EndpointAddress, Event};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

fn go(options: &[&str], ranks: &str, name: &str) -> Done {
    let exe = std::env::current_exe().unwrap();
    let variable = format!("LAUNCH_TEST_ROLE={name}");
    run(&arguments(options, ranks, &variable, exe.to_str().unwrap()))
}

/// Not a test: the entry of the ranks.
#[test]
fn role() {
    let Ok(name) = std::env::var("LAUNCH_TEST_ROLE") else { return };
    // Ends the line that the test harness has begun.
    println!();
    let mut rank = Bootstrap::from_environment().expect("a job");
    match name.as_str() {
        "exchange" => exchange(&mut rank),
        "abort" => abort(&mut rank),
        "unfinished" => {
            rank.initialized().unwrap();
            rank.barrier().unwrap();
        }
        "late-crash" => {
            rank.finalize().unwrap();
            std::process::exit(i32::from(rank.job().rank.0 == 0) * 6);
        }
        "survive" => survive(&mut rank),
        "dump" => dump(&mut rank),
        "absent" => absent(&mut rank),
        _ => panic!("no role {name}"),
    }
    std::process::exit(0);
}

fn address(rank: &Bootstrap) -> EndpointAddress {
    let extra = vec![rank.job().rank.0 as u8; 1000];
    let addresses = vec!["10.0.0.1:5".parse().unwrap()];
    let rank_id = u128::from(rank.job().rank.0);
    EndpointAddress { rank_id, pid: std::process::id(), tcp: addresses, extra, ..EndpointAddress::default() }
}

fn wait(rank: &mut Bootstrap) -> Event {
    loop {
        if let Some(event) = rank.poll().unwrap() {
            return event;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every rank leaves a pipe's write end with its agent; peers under the same kernel write their number into it.
fn exchange(rank: &mut Bootstrap) {
    let job = rank.job().clone();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let address = address(rank);
    rank.register(&address, vec![OwnedFd::from(writer)]).unwrap();
    rank.initialized().unwrap();
    for peer in 0..job.size {
        rank.request_address(WorldRank(peer)).unwrap();
    }
    for _ in 0..job.size {
        let Event::Address { peer, address, fds, .. } = wait(rank) else { panic!("not an endpoint address") };
        assert_eq!((address.rank_id, address.extra.len()), (u128::from(peer.0), 1000));
        let kernel = |rank: WorldRank| job.kernel_of[job.node_of[rank.0 as usize] as usize];
        let near = kernel(peer) == kernel(job.rank);
        assert_eq!(fds.len(), usize::from(near));
        assert_eq!(job.local_ranks.contains(&peer.0), near);
        for fd in fds {
            std::fs::File::from(fd).write_all(&[job.rank.0 as u8]).unwrap();
        }
    }
    rank.barrier().unwrap();
    rank.barrier().unwrap();
    let mut heard = vec![0; job.local_ranks.len()];
    reader.read_exact(&mut heard).unwrap();
    heard.sort_unstable();
    assert_eq!(heard, job.local_ranks.iter().map(|r| *r as u8).collect::<Vec<_>>());
    rank.finalize().unwrap();
    let node = &job.node_names[job.node_of[job.rank.0 as usize] as usize];
    println!("rank {} of {} node {node} with {}", job.rank.0, job.size, job.local_ranks.len());
}

fn abort(rank: &mut Bootstrap) {
    rank.initialized().unwrap();
    if rank.job().rank.0 == 1 {
        rank.abort(42, "because of the test", &[]);
    }
    std::thread::sleep(Duration::from_secs(1000));
}

fn survive(rank: &mut Bootstrap) {
    rank.initialized().unwrap();
    rank.barrier().unwrap();
    if rank.job().rank.0 == 2 {
        let _ = sys::process::kill(std::process::id() as i32, 9);
    }
    let Event::PeerGone { peer, host, why } = wait(rank) else { panic!("not the death") };
    println!("{} on {host} {}", peer.0, why.contains("SIGKILL"));
    rank.finalize().unwrap();
}

fn dump(rank: &mut Bootstrap) {
    rank.initialized().unwrap();
    assert!(matches!(wait(rank), Event::Dump));
    println!("pending: nothing");
    std::thread::sleep(Duration::from_secs(1000));
}

/// Rank 0 never registers; whoever wants its endpoint address learns that it has ended.
fn absent(rank: &mut Bootstrap) {
    if rank.job().rank.0 == 0 {
        std::process::exit(0);
    }
    rank.request_address(WorldRank(0)).unwrap();
    let Event::PeerGone { peer, .. } = wait(rank) else { panic!("not the end") };
    println!("{} gone", peer.0);
    rank.finalize().unwrap();
}

fn lines_with<'a>(done: &'a Done, text: &str) -> Vec<&'a str> {
    done.lines().into_iter().filter(|l| l.contains(text)).collect()
}

#[test]
fn addresses_descriptors_and_barriers_on_one_node_and_on_several() {
    let done = go(&[], "4", "exchange");
    assert_eq!((done.code, lines_with(&done, "of 4").len()), (0, 4), "{}", done.stderr);
    let done = go(&["--launcher", "fork", "-hosts", "a:2,b:2,c"], "5", "exchange");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(lines_with(&done, "node b"), ["rank 2 of 5 node b with 2", "rank 3 of 5 node b with 2"]);
    let tree = ["--launcher-exec", "env {command}", "--tree-width", "2", "-hosts", "a,b,c,d,e,f,g"];
    let alone = [tree.as_slice(), &["-x", "FERRULE_LOCALITY=node"]].concat();
    let done = go(&alone, "14", "exchange");
    assert_eq!((done.code, lines_with(&done, "with 2").len()), (0, 14), "{}", done.stderr);
}

#[test]
fn agents_under_one_kernel_find_each_other() {
    let tree = ["--launcher-exec", "env {command}", "--tree-width", "2", "-hosts", "a,b,c,d,e,f,g"];
    let done = go(&tree, "14", "exchange");
    assert_eq!((done.code, lines_with(&done, "with 14").len()), (0, 14), "{}", done.stderr);
    // The launcher fork plays hosts: their agents look for each other only on demand.
    let fork = ["--launcher", "fork", "-hosts", "a:2,b:2,c", "-x", "FERRULE_LOCALITY=host"];
    let done = go(&fork, "5", "exchange");
    assert_eq!((done.code, lines_with(&done, "with 5").len()), (0, 5), "{}", done.stderr);
    // One of them must stay alone.
    let but_one = ["--launcher-exec", "env FERRULE_LOCALITY={host} {command}", "-hosts", "auto,off,host"];
    let done = go(&but_one, "3", "exchange");
    assert_eq!((done.code, lines_with(&done, "with 2").len()), (0, 2), "{}", done.stderr);
    assert_eq!(lines_with(&done, "node off with 1").len(), 1, "{}", done.stderr);
}

#[test]
fn one_program_after_another_under_one_rank() {
    let exe = std::env::current_exe().unwrap();
    let one = format!("{} bootstrap::role --exact --nocapture --test-threads=1", exe.display());
    let done = run(&["-n", "3", "-x", "LAUNCH_TEST_ROLE=exchange", "sh", "-c", &format!("{one} && {one}")]);
    assert_eq!((done.code, lines_with(&done, "of 3").len()), (0, 6), "{}", done.stderr);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let done = go(&[], "3", "abort");
    assert_eq!(done.code, 42, "{}", done.stderr);
    assert!(done.stderr.contains("called MPI_Abort with code 42: because of the test"), "{}", done.stderr);
}

#[test]
fn an_exit_without_finalize_is_a_failure() {
    let done = go(&[], "2", "unfinished");
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("without calling MPI_Finalize"), "{}", done.stderr);
    assert_eq!(go(&[], "2", "late-crash").code, 6);
}

#[test]
fn survivors_learn_of_a_death() {
    let done = go(&["--continue-on-failure", "--launcher", "fork", "-hosts", "a:2,b:2"], "4", "survive");
    assert_eq!(lines_with(&done, " on "), ["2 on b true", "2 on b true", "2 on b true"], "{}", done.stderr);
    assert_eq!(done.code, 137);
}

#[test]
fn pending_operations_are_asked_for_before_the_time_is_up() {
    let done = go(&["--timeout", "3"], "2", "dump");
    assert_eq!((done.code, lines_with(&done, "pending").len()), (124, 2), "{}", done.stderr);
}

#[test]
fn a_rank_that_never_joined_is_not_waited_for() {
    let done = go(&["--launcher", "fork", "-hosts", "a,b"], "3", "absent");
    assert_eq!((done.code, lines_with(&done, "gone").len()), (0, 2), "{}", done.stderr);
}
