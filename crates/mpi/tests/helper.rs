//! A helper process runs the all-to-all exchange of four ranks, which only lend it their memory.
//!
//! Each rank is a process of its own. It plans its part over private buffers, writes the schedule to shared memory, and then does nothing. The
//! helper (this test) reads the four schedules, runs them by `get` and `put` on the ranks' memory, and lets each rank check what it has got.

use base::{Class, Error, Result};
use mpi::coll::alltoall;
use mpi::coll::args::{BlockBuffer, Buffer};
use mpi::coll::builder::Builder;
use mpi::coll::comm_view::CommView;
use mpi::coll::portable::remote::{self, Memory};
use mpi::coll::portable::{Channel, Identity, Portable};
use mpi::datatype::{self, Datatype, Form};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

const RANKS: usize = 4;
/// Items that a rank sends to each.
const COUNT: usize = 3;
/// Names the rank to a process that plays one.
const RANK: &str = "HELPER_TEST_RANK";
/// Begins the line that says where the schedule is.
const READY: &str = "schedule in descriptor ";

/// Two pieces of 4 bytes, with a hole of 4 between them; items follow without a hole.
fn spread() -> Rc<Datatype> {
    let byte = datatype::byte();
    datatype::vector(Form::Int, 2, 4, 8, byte).expect("a small type")
}

const EXTENT: usize = 12;
const HOLE: u8 = 0xee;

/// What stands at `at` of item `i` of the block from one rank to another.
fn content(from: usize, to: usize, i: usize, at: usize) -> u8 {
    if (4..8).contains(&at) { HOLE } else { (100 * from + 20 * to + 5 * i + at) as u8 }
}

fn block(from: usize, to: usize) -> impl Iterator<Item = u8> {
    (0..COUNT).flat_map(move |i| (0..EXTENT).map(move |at| content(from, to, i, at)))
}

/// What a process that plays a rank does.
#[test]
#[ignore = "the other test starts it"]
fn rank() {
    let rank: usize = std::env::var(RANK).expect("the rank").parse().expect("a number");
    let mut from: Vec<u8> = (0..RANKS).flat_map(|to| block(rank, to)).collect();
    let mut into = vec![HOLE; from.len()];
    let datatype = spread();
    let (mut builder, view) = (Builder::default(), CommView::new(rank, RANKS));
    let buffer =
        |bytes: &mut Vec<u8>| BlockBuffer::Even(Buffer { ptr: bytes.as_mut_ptr(), count: COUNT, datatype: &datatype });
    alltoall::build(&mut builder, &view, Some(buffer(&mut from)), buffer(&mut into)).expect("valid arguments");
    let identity = Identity { process: rank as u64, channels: [Channel { context: 5, tag: 9 }; 2], round: 0 };
    let process_of = |_, peer| u64::from(peer);
    let portable = Portable::new(builder.schedule(), builder.objects(), identity, process_of).expect("a small type");
    let bytes = portable.encode();
    let shared = sys::mem::sealed_memfd(c"schedule", bytes.len()).expect("shared memory");
    let shared = File::from(shared);
    shared.write_all_at(&bytes, 0).expect("room for the schedule");
    println!("\n{READY}{}", shared.as_raw_fd());
    std::io::stdin().read_line(&mut String::new()).expect("the helper says when it is done");
    let expected: Vec<u8> = (0..RANKS).flat_map(|source| block(source, rank)).collect();
    assert_eq!(into, expected);
}

/// A rank's process, its memory and its schedule; `PermissionDenied` if we may not reach the memory.
fn start(rank: usize) -> std::io::Result<(Child, File, Portable)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "rank", "--ignored", "--nocapture"])
        .env(RANK, rank.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.as_mut().expect("it is a pipe")).lines();
    let fd = lines.map_while(std::result::Result::ok).find_map(|line| line.strip_prefix(READY).map(String::from));
    let fd = fd.expect("a rank says where its schedule is");
    let mut bytes = Vec::new();
    File::open(format!("/proc/{}/fd/{fd}", child.id()))?.read_to_end(&mut bytes)?;
    let schedule = Portable::decode(&bytes).expect("a rank writes valid schedules");
    let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", child.id()))?;
    Ok((child, memory, schedule))
}

/// The memory of the ranks, as `/proc` shows it to their parent.
struct Foreign<'a>(&'a [File]);

const GONE: Error = Error::new(Class::ERR_OTHER, "a rank's memory can't be reached");

impl Memory for Foreign<'_> {
    fn get(&mut self, owner: usize, address: u64, into: &mut [u8]) -> Result {
        self.0[owner].read_exact_at(into, address).map_err(|_| GONE)
    }

    fn put(&mut self, owner: usize, address: u64, from: &[u8]) -> Result {
        self.0[owner].write_all_at(from, address).map_err(|_| GONE)
    }
}

#[test]
fn a_helper_runs_an_alltoall_of_four_ranks() {
    let (mut schedules, mut memories, mut children) = (Vec::new(), Vec::new(), Vec::new());
    for rank in 0..RANKS {
        match start(rank) {
            Ok((child, memory, schedule)) => {
                children.push(child);
                memories.push(memory);
                schedules.push(schedule);
            }
            // Ranks end when their pipe does.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                println!("SKIP: the memory of children can't be reached here: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let outcomes = remote::run(schedules, &mut Foreign(&memories)).expect("the set is complete");
    assert!(outcomes.iter().all(Result::is_ok));
    for mut child in children {
        child.stdin.take().expect("it is a pipe").write_all(b"done\n").expect("the rank waits");
        assert!(child.wait().expect("it is ours").success(), "a rank has got something else");
    }
}
