//! Both sides of the memory of operations, and what the next worker finds there.

use super::*;
use std::os::fd::AsFd;

const REACH: Reach = Reach { pid: 7, probe: (8, 9), by_pid: true };

fn pair(routes: usize) -> (Poster, Served, OwnedFd) {
    let (area, fd) = Area::create(2, routes, REACH).unwrap();
    let served = Served::new(Area::open(fd.as_fd()).unwrap(), 1).unwrap();
    (Poster::new(area), served, fd)
}

fn request(id: u64) -> Request {
    Request { address: 4096 + id, len: 10, id, channels: [(1, 2), (3, 4)], round: id % 3 }
}

#[test]
fn operations_go_and_come_back() {
    let (mut poster, mut served, _fd) = pair(3);
    assert_eq!(served.area().reach(), REACH);
    for round in 0..3 * SLOTS as u64 {
        let (at, rings) = poster.post(1, &request(round), 3).unwrap();
        assert!(!rings && served.has_more());
        assert_eq!(served.take(), Some(at));
        assert_eq!(served.take(), None);
        assert_eq!(served.request(at), Some((round + 1, request(round))));
        served.set_count(at, 2, true, 5);
        assert_eq!((served.count(at, 2, true), served.count(at, 2, false)), (5, 0));
        assert_eq!(poster.outcome(1, at), None);
        served.end(at, round);
        assert!(poster.has_ended(1, at));
        assert_eq!(poster.outcome(1, at), Some(round));
        assert_eq!(served.request(at), None);
    }
}

#[test]
fn a_full_queue_says_so_and_the_next_worker_finds_what_is_unfinished() {
    let (mut poster, mut served, fd) = pair(1);
    let all: Vec<u32> = (0..SLOTS as u64).map(|id| poster.post(1, &request(id), 1).unwrap().0).collect();
    assert_eq!(poster.post(1, &request(0), 1), None);
    assert!(poster.post(0, &request(0), 1).is_some());
    for at in &all[..10] {
        assert_eq!(served.take(), Some(*at));
        served.end(*at, 0);
    }
    drop(served);
    let mut next = Served::new(Area::open(fd.as_fd()).unwrap(), 1).unwrap();
    assert_eq!(next.unfinished().len(), SLOTS - 10);
    assert_eq!(next.take(), None);
    assert!(poster.outcome(1, all[0]).is_some());
    let (at, _) = poster.post(1, &request(77), 1).unwrap();
    assert_eq!(next.take(), Some(at));
}

#[test]
fn a_held_slot_is_not_used_again_and_the_next_worker_knows_why() {
    let (mut poster, mut served, fd) = pair(3);
    let (at, _) = poster.post(1, &request(5), 3).unwrap();
    assert_eq!(served.take(), Some(at));
    served.set_count(at, 0, true, 9);
    let received = [
        Received { process: 0, channel: 0, count: 4 },
        Received { process: u64::from(u32::MAX), channel: 1, count: 1 << 40 },
    ];
    served.set_count(at, 0, false, 4);
    served.set_count(at, 2, false, 1 << 40);
    served.hold(at, &[Some((0, 0)), None, Some((u64::from(u32::MAX), 1))]);
    assert!(served.held().is_empty(), "its operation is under way");
    served.end(at, 0);
    assert_eq!(poster.outcome(1, at), Some(0));
    let next = Served::new(Area::open(fd.as_fd()).unwrap(), 1).unwrap();
    assert_eq!(next.held(), [(at, request(5), received.to_vec())]);
    let (other, _) = poster.post(1, &request(6), 1).unwrap();
    assert_ne!(other, at);
    next.release(at);
    assert_eq!((next.held(), poster.post(1, &request(7), 1).unwrap().0), (Vec::new(), at));
}

#[test]
fn the_journal_is_read_by_the_next_worker() {
    let (_poster, served, fd) = pair(1);
    assert_eq!(served.read_journal(), None);
    served.write_journal((3, 4), 5, 6, &[7; 100]);
    let next = Served::new(Area::open(fd.as_fd()).unwrap(), 1).unwrap();
    let entry = Entry { slot: 3, sequence: 4, position: 5, address: 6, bytes: vec![7; 100] };
    assert_eq!(next.read_journal(), Some(entry));
    next.clear_journal();
    assert_eq!(served.read_journal(), None);
}

#[test]
fn bells_are_rung_for_sleepers_only() {
    let (mut poster, served, _fd) = pair(1);
    sleep::fall_asleep(&served.area().worker_sleeps(1));
    let (at, rings) = poster.post(1, &request(1), 1).unwrap();
    assert!(rings && !poster.cancel(1, at) && served.is_cancelled(at));
    sleep::fall_asleep(&poster.area().rank_sleeps());
    assert!(served.end(at, 0));
}

#[test]
fn foreign_memory_is_refused_and_nonsense_stays_inside() {
    let (_, _, fd) = pair(2);
    let mapping = Mapping::shared(fd.as_fd(), total_bytes(2, 2)).unwrap();
    let word = |at: usize| {
        // SAFETY: the mapping has these bytes; atomics, as everywhere.
        unsafe { &*mapping.as_ptr().add(at).cast::<AtomicU64>() }
    };
    let mut random = 88_172_645_463_325_252_u64;
    let mut served = Served::new(Area::open(fd.as_fd()).unwrap(), 0).unwrap();
    for _ in 0..100_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        word(HEADER + (random as usize >> 8) % (section_bytes(2) / WORD) * WORD).store(random >> 40, Relaxed);
        if let Some(at) = served.take() {
            served.request(at);
        }
        served.read_journal();
    }
    served.unfinished();
    served.held();
    for header in [header::MAGIC, header::VERSION, header::WORKERS, header::ROUTES] {
        let before = word(header * WORD).swap(1 << 40, Relaxed);
        assert!(Area::open(fd.as_fd()).is_err());
        word(header * WORD).store(before, Relaxed);
    }
    assert!(Area::open(fd.as_fd()).is_ok());
    assert!(Served::new(Area::open(fd.as_fd()).unwrap(), 2).is_err());
}
