//! Two workers of one thread over UCX's TCP and shared memory. `FERRULE_TEST_UCX` names another library than the system's.

use std::rc::Rc;
use std::time::{Duration, Instant};
use ucx::{Context, EndpointId, Event, Message, Payload, Progress, Ucx, Worker};

const WATCHDOG: Duration = Duration::from_secs(60);

fn library() -> Option<Ucx> {
    let file = std::env::var("FERRULE_TEST_UCX").unwrap_or_else(|_| "libucp.so.0".into());
    Ucx::load(&file).map_err(|why| println!("skipped: {why} (Debian: libucx0)")).ok()
}

struct Pair {
    workers: [Option<Worker>; 2],
    contexts: [Rc<Context>; 2],
    endpoints: [EndpointId; 2],
    messages: [Vec<Message>; 2],
    other: [Vec<Event>; 2],
}

impl Pair {
    fn over(ucx: Ucx, transports: &str) -> Pair {
        let settings = [("TLS", transports.to_string())];
        let contexts = [0, 1].map(|_| Context::open(ucx, &settings).unwrap());
        let mut workers = [0, 1].map(|at| Worker::open(&contexts[at]).unwrap());
        let addresses = [workers[0].address().to_vec(), workers[1].address().to_vec()];
        let endpoints = [0, 1].map(|at: usize| workers[at].connect(&addresses[1 - at], 70 + at as u64).unwrap());
        Pair {
            workers: workers.map(Some),
            contexts,
            endpoints,
            messages: Default::default(),
            other: Default::default(),
        }
    }

    fn worker(&mut self, at: usize) -> &mut Worker {
        self.workers[at].as_mut().unwrap()
    }

    fn progress(&mut self) {
        for at in 0..2 {
            let Some(worker) = &mut self.workers[at] else { continue };
            worker.progress();
            while let Some(event) = worker.event() {
                match event {
                    Event::Message(message) => self.messages[at].push(message),
                    other => self.other[at].push(other),
                }
            }
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Pair) -> bool) {
        let end = Instant::now() + WATCHDOG;
        while !done(self) {
            self.progress();
            assert!(Instant::now() < end, "no {what}: {:?}", self.other);
        }
    }

    fn until_ended(&mut self, at: usize, tag: u64, progress: Progress) {
        if progress == Progress::Done {
            return;
        }
        self.until("end", |pair| {
            pair.other[at].iter().any(|e| matches!(e, Event::Ended(ended) if ended.tag == tag && ended.result.is_ok()))
        });
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

fn messages_of_all_sizes(ucx: Ucx, transports: &str) {
    let mut pair = Pair::over(ucx, transports);
    let sizes = [0, 1, 8, 500, 5000, 9000, 70_000, 300_000];
    for (i, len) in sizes.into_iter().enumerate() {
        let (header, to) = (pattern(1 + i * 16, i), pair.endpoints[0]);
        pair.worker(0).send(to, &header, |data| data.extend(pattern(len, i))).unwrap();
        pair.until("message", |pair| !pair.messages[1].is_empty());
        let message = pair.messages[1].remove(0);
        assert_eq!(message.header(), header);
        assert_eq!(pair.worker(1).bytes(&message.payload), Some(&pattern(len, i)[..]), "{len} bytes over {transports}");
        pair.worker(1).release(message.payload);
    }
    pair.until("end of all", |pair| pair.worker(0).posted() == 0);
}

fn offered_data_are_fetched_or_refused(ucx: Ucx, transports: &str) {
    let mut pair = Pair::over(ucx, transports);
    let bytes = pattern(3_000_000, 5);
    for is_wanted in [true, false] {
        let to = pair.endpoints[0];
        // SAFETY: `bytes` outlives the workers.
        let sent = unsafe { pair.worker(0).send_from(to, b"offer", (bytes.as_ptr(), bytes.len()), true, 11) }.unwrap();
        assert_eq!(sent, Progress::Posted);
        pair.until("offer", |pair| !pair.messages[1].is_empty());
        let message = pair.messages[1].remove(0);
        assert!(matches!(message.payload, Payload::Offered(_)) && message.payload.len() == bytes.len());
        assert_eq!(pair.worker(1).bytes(&message.payload), None);
        if is_wanted {
            let mut place = vec![0u8; bytes.len()];
            // SAFETY: `place` lives until the operation is over.
            let got = unsafe { pair.worker(1).receive(message.payload, place.as_mut_ptr(), 12) }.unwrap();
            pair.until_ended(1, 12, got);
            assert!(place == bytes);
        } else {
            pair.worker(1).release(message.payload);
        }
        pair.until_ended(0, 11, sent);
        pair.other[0].clear();
    }
}

fn remote_memory(ucx: Ucx, transports: &str) {
    let mut pair = Pair::over(ucx, transports);
    let mut memory = vec![0u8; 100_000];
    // SAFETY: `memory` outlives the mapping, and is only looked at when accesses are over.
    let mapping = unsafe { pair.contexts[1].map(memory.as_mut_ptr(), memory.len()) }.unwrap();
    let packed = mapping.packed_key().unwrap();
    let to = pair.endpoints[0];
    let key = pair.worker(0).unpack(to, &packed).unwrap();
    let (bytes, mut place) = (pattern(90_000, 1), vec![0u8; 90_000]);
    let address = memory.as_ptr().expose_provenance() as u64 + 5;
    // SAFETY: both live until the operations are over.
    unsafe {
        let put = pair.worker(0).put(key, (bytes.as_ptr(), bytes.len()), address, 21).unwrap();
        pair.until_ended(0, 21, put);
        let flush = pair.worker(0).flush(to, 22).unwrap();
        pair.until_ended(0, 22, flush);
        let get = pair.worker(0).get(key, (place.as_mut_ptr(), place.len()), address, 23).unwrap();
        pair.until_ended(0, 23, get);
    }
    assert!(place == bytes && memory[5..90_005] == bytes && memory[..5] == [0; 5]);
    drop(mapping);
}

fn a_sleeper_is_woken(ucx: Ucx, transports: &str) {
    let mut pair = Pair::over(ucx, transports);
    let to = pair.endpoints[0];
    pair.worker(0).send(to, b"first", |_| {}).unwrap();
    pair.until("message", |pair| !pair.messages[1].is_empty());
    let end = Instant::now() + WATCHDOG;
    while !pair.worker(1).arm() {
        pair.progress();
        assert!(Instant::now() < end, "a worker without work can be armed");
    }
    pair.worker(0).send(to, b"second", |_| {}).unwrap();
    let is_readable = sys::sock::wait_one(pair.worker(1).descriptor(), true, false, 10_000).unwrap();
    assert!(is_readable, "the descriptor tells of the message");
    pair.until("second message", |pair| pair.messages[1].len() == 2);
}

fn endpoints_close_and_open_again(ucx: Ucx, transports: &str) {
    let mut pair = Pair::over(ucx, transports);
    for round in 0..5 {
        for at in 0..2 {
            let to = pair.endpoints[at];
            pair.worker(at).send(to, b"round", |data| data.extend(pattern(100, round))).unwrap();
        }
        pair.until("messages", |pair| pair.messages.iter().all(|m| m.len() == round + 1));
        for at in 0..2 {
            let endpoint = pair.endpoints[at];
            pair.worker(at).close(endpoint);
        }
        pair.until("closed endpoints", |pair| {
            pair.other.iter().all(|o| o.iter().filter(|e| matches!(e, Event::Closed(_))).count() == round + 1)
        });
        let addresses = [0, 1].map(|at| pair.worker(at).address().to_vec());
        pair.endpoints = [0, 1].map(|at: usize| pair.worker(at).connect(&addresses[1 - at], 80 + at as u64).unwrap());
    }
}

fn all(transports: &str) {
    let Some(ucx) = library() else { return };
    println!("{ucx:?} over {transports}");
    messages_of_all_sizes(ucx, transports);
    offered_data_are_fetched_or_refused(ucx, transports);
    remote_memory(ucx, transports);
    a_sleeper_is_woken(ucx, transports);
    endpoints_close_and_open_again(ucx, transports);
}

#[test]
fn tcp() {
    all("tcp");
}

/// UCX's shared memory tells of lost peers only if the environment asks for it; so this test has a process of its own.
#[test]
fn shared_memory() {
    const ASKED: &str = "UCX_POSIX_ERROR_HANDLING";
    if std::env::var_os(ASKED).is_some() {
        return all("posix,cma");
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "shared_memory", "--nocapture"]).env(ASKED, "y").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text.lines().filter(|line| line.contains("skipped: ")).for_each(|line| println!("{line}"));
}

/// A peer that is gone breaks its endpoint, and what was posted ends.
#[test]
fn a_lost_peer_is_told() {
    let Some(ucx) = library() else { return };
    let mut pair = Pair::over(ucx, "tcp");
    let to = pair.endpoints[0];
    pair.worker(0).send(to, b"first", |_| {}).unwrap();
    pair.until("message", |pair| !pair.messages[1].is_empty());
    let bytes = pattern(3_000_000, 1);
    // SAFETY: `bytes` outlives the workers.
    let sent = unsafe { pair.worker(0).send_from(to, b"offer", (bytes.as_ptr(), bytes.len()), true, 31) }.unwrap();
    assert_eq!(sent, Progress::Posted);
    pair.workers[1] = None;
    pair.until("failure", |pair| pair.other[0].iter().any(|e| matches!(e, Event::Failed(70, _))));
    pair.worker(0).close(to);
    pair.until("end of all", |pair| pair.worker(0).posted() == 0);
    pair.progress();
    let ends =
        pair.other[0].iter().filter(|e| matches!(e, Event::Ended(ended) if ended.tag == 31 && ended.result.is_err()));
    assert_eq!(ends.count(), 1, "{:?}", pair.other[0]);
}

#[test]
fn libraries_that_are_none_are_refused() {
    assert!(Ucx::load("libno-such-ucp.so.0").unwrap_err().contains("libno-such-ucp"));
    assert!(Ucx::load("libc.so.6").unwrap_err().contains("ucp_get_version"));
}

#[test]
fn settings_with_impossible_values_are_told() {
    let Some(ucx) = library() else { return };
    let error = Context::open(ucx, &[("TLS", "no_such_transport".into())]).unwrap_err();
    assert!(!error.is_empty());
}
