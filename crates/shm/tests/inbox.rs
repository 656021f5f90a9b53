//! Inboxes: connecting, fairness, and peers that write nonsense.

use shm::cells::{CellName, Place};
use shm::inbox::{Inbox, Polled, Record};
use shm::layout::{CELL_BYTES, CellCounts, HEADER_WORDS, Identity, PIECE_MAX, SEGMENT_BYTES};
use shm::outbox::Outbox;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use sys::mem::Mapping;

const ME: Identity = Identity { nonce: 0x1234_5678_9abc_def0_1122_3344_5566_7788, probe_address: 1, probe_value: 2 };

fn send(outbox: &mut Outbox, value: u64, payload: &[u8]) -> bool {
    let Ok(Some(room)) = outbox.reserve(payload.len()) else { return false };
    // SAFETY: as many bytes were reserved.
    unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), room.payload, payload.len()) };
    let _ = outbox.publish(room, &[value, 0, 0]);
    true
}

fn take(inbox: &mut Inbox) -> Option<(usize, u64, Vec<u8>)> {
    let Some(Polled::Record(record)) = inbox.poll() else { return None };
    let out = (inbox.sender(&record), record.header()[0], bytes_of(&record));
    let _ = inbox.release(&record);
    Some(out)
}

fn bytes_of(record: &Record) -> Vec<u8> {
    let mut bytes = vec![0; record.len()];
    // SAFETY: the payload is `len` bytes until the release.
    unsafe { std::ptr::copy_nonoverlapping(record.payload(), bytes.as_mut_ptr(), record.len()) };
    bytes
}

#[test]
fn records_of_every_size_arrive_in_order() {
    let mut inbox = Inbox::create(3, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut outbox = Outbox::open(inbox.fd(), 2, ME.nonce).unwrap();
    assert_eq!(outbox.identity(), ME);
    let payload: Vec<u8> = (0..outbox.payload_max()).map(|i| (i * 7) as u8).collect();
    for len in (0..=payload.len()).chain((0..200).rev()) {
        assert!(send(&mut outbox, len as u64, &payload[..len]));
        assert_eq!(take(&mut inbox), Some((2, len as u64, payload[..len].to_vec())));
    }
    assert!(take(&mut inbox).is_none());
}

#[test]
fn a_full_ring_refuses_until_it_is_read() {
    let mut inbox = Inbox::create(1, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut outbox = Outbox::open(inbox.fd(), 0, ME.nonce).unwrap();
    let sent = (0..1000).take_while(|i| send(&mut outbox, *i, b"x")).count();
    assert_eq!(sent, 64);
    assert!(outbox.reserve(1).expect("a full ring is not a corrupt one").is_none());
    let taken = std::iter::from_fn(|| take(&mut inbox)).count();
    assert_eq!(taken, 64);
    assert!(send(&mut outbox, 1, b"y"));
}

#[test]
fn a_sender_without_room_is_woken_once() {
    let mut inbox = Inbox::create(1, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut outbox = Outbox::open(inbox.fd(), 0, ME.nonce).unwrap();
    while send(&mut outbox, 0, b"x") {}
    outbox.want_room();
    assert!(!send(&mut outbox, 0, b"x"));
    let mut wakes = 0;
    while let Some(Polled::Record(record)) = inbox.poll() {
        wakes += u32::from(inbox.release(&record));
    }
    assert_eq!(wakes, 1);
    assert!(send(&mut outbox, 0, b"x"));
}

/// Polls, and holds what comes; who sent it.
fn hold(inbox: &mut Inbox) -> Option<usize> {
    let Some(Polled::Record(record)) = inbox.poll() else { return None };
    assert!(inbox.hold(&record, 4), "nothing was held for too long");
    Some(inbox.sender(&record))
}

#[test]
fn a_held_record_waits_until_it_is_wanted_and_others_pass() {
    let mut inbox = Inbox::create(3, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut boxes: Vec<Outbox> = (0..3).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
    for early in [0, 2] {
        assert!(send(&mut boxes[early], 7, b"early") && send(&mut boxes[early], 8, b"behind it"));
        assert_eq!(hold(&mut inbox), Some(early));
        for i in 0..100 {
            assert!(send(&mut boxes[1], i, b"now"));
            assert_eq!(take(&mut inbox), Some((1, i, b"now".to_vec())));
        }
        assert!(take(&mut inbox).is_none(), "held");
        inbox.resume(early);
        assert_eq!(take(&mut inbox), Some((early, 7, b"early".to_vec())));
        assert_eq!(take(&mut inbox), Some((early, 8, b"behind it".to_vec())));
    }
}

#[test]
fn nothing_is_held_for_long() {
    for senders in [1, 3] {
        let mut inbox = Inbox::create(senders, 4096, CellCounts::fixed(4), &ME).unwrap();
        let mut boxes: Vec<Outbox> = (0..senders).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
        // Once by polls that find nothing, once by going to sleep; what has once waited for long doesn't wait again.
        for sleeps in [false, true] {
            for i in 0..3 {
                assert!(send(&mut boxes[0], i, b"x"));
            }
            assert_eq!(hold(&mut inbox), Some(0));
            if sleeps {
                inbox.arm();
            } else {
                assert!(
                    (0..20).any(|_| matches!(inbox.poll(), Some(Polled::Record(record)) if !inbox.hold(&record, 4)))
                );
            }
            for i in 0..3 {
                let Some(Polled::Record(record)) = inbox.poll() else { panic!("{senders} senders: nothing comes") };
                assert!(!inbox.hold(&record, 4), "{i}");
                assert_eq!(record.header()[0], i);
                let _ = inbox.release(&record);
            }
            if sleeps {
                inbox.disarm();
            }
            assert!((0..20).all(|_| inbox.poll().is_none()), "empty: from now on records may be held again");
        }
    }
}

#[test]
fn busy_senders_do_not_keep_a_held_record_for_ever() {
    let mut inbox = Inbox::create(2, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut boxes: Vec<Outbox> = (0..2).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
    assert!(send(&mut boxes[0], 7, b"early"));
    assert_eq!(hold(&mut inbox), Some(0));
    let mut others = 0;
    while let Some((1, ..)) = {
        assert!(send(&mut boxes[1], 1, b"more"));
        take(&mut inbox)
    } {
        others += 1;
        assert!(others < 1000, "the held record is never taken");
    }
}

#[test]
fn nobody_starves() {
    let mut inbox = Inbox::create(100, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut boxes: Vec<Outbox> = (0..100).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
    let mut seen = [0; 100];
    for i in 0..20_000 {
        // Sender 0 always has something; the others once.
        send(&mut boxes[0], i, b"busy");
        if i == 100 {
            boxes.iter_mut().for_each(|b| assert!(send(b, i, b"once")));
        }
        if let Some((sender, ..)) = take(&mut inbox) {
            seen[sender] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n >= 1), "{seen:?}");
}

#[test]
fn an_armed_inbox_looks_everywhere_and_asks_for_the_bell() {
    let mut inbox = Inbox::create(200, 4096, CellCounts::fixed(4), &ME).unwrap();
    let mut boxes: Vec<Outbox> = (0..200).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
    assert!(take(&mut inbox).is_none());
    assert!(send(&mut boxes[150], 1, b""));
    inbox.arm();
    assert_eq!(take(&mut inbox).unwrap().0, 150);
    let mut ring = |s: usize| {
        let room = boxes[s].reserve(0).unwrap().unwrap();
        boxes[s].publish(room, &[0; 3])
    };
    assert!(ring(3), "the owner sleeps");
    assert!(!ring(4), "somebody has rung already");
    assert!(inbox.disarm());
    inbox.arm();
    assert!(inbox.disarm());
    assert!(!ring(3), "the owner is awake");
}

#[test]
fn foreign_memory_is_refused() {
    let inbox = Inbox::create(4, 4096, CellCounts::fixed(4), &ME).unwrap();
    assert!(Outbox::open(inbox.fd(), 0, ME.nonce ^ 1).is_err(), "another process");
    assert!(Outbox::open(inbox.fd(), 4, ME.nonce).is_err(), "no such ring");
    let empty = sys::mem::sealed_memfd(c"ferrule-test", 65536).unwrap();
    assert!(Outbox::open(empty.as_fd(), 0, ME.nonce).is_err(), "no inbox");
    let small = sys::mem::sealed_memfd(c"ferrule-test", 100).unwrap();
    assert!(Outbox::open(small.as_fd(), 0, ME.nonce).is_err(), "smaller than a page");
    for (at, value) in [(0, 7u64), (8, 2), (88, 5), (16, 5), (16, u64::MAX), (24, 8192), (24, 4097), (24, 0)] {
        let inbox = Inbox::create(4, 4096, CellCounts::fixed(4), &ME).unwrap();
        let raw = Mapping::shared(inbox.fd(), 4096).unwrap();
        // SAFETY: a page is mapped.
        unsafe { raw.as_ptr().add(at).cast::<u64>().write_volatile(value) };
        assert!(Outbox::open(inbox.fd(), 0, ME.nonce).is_err(), "{at} {value}");
    }
}

/// A small generator, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A word that is more likely to do harm than a random one.
fn evil(random: &mut Random, words: &[u64]) -> u64 {
    match random.below(6) {
        0 => random.next(),
        1 => u64::MAX,
        2 => words[random.below(words.len())],
        3 => words[random.below(words.len())] ^ 1 << random.below(64),
        4 => words[random.below(words.len())] | 0xffff_ffff,
        _ => words[random.below(words.len())].wrapping_add(1 << (32 + random.below(8))),
    }
}

#[test]
fn random_writes_lose_lanes_but_never_memory() {
    for seed in 1..=300 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let mut inbox = Inbox::create(3, 4096, CellCounts::fixed(4), &ME).unwrap();
        let size = sys::mem::fixed_size(inbox.fd()).unwrap();
        let raw = Mapping::shared(inbox.fd(), size).unwrap();
        let mut boxes: Vec<Outbox> = (0..3).map(|s| Outbox::open(inbox.fd(), s, ME.nonce).unwrap()).collect();
        for _ in 0..400 {
            match random.below(8) {
                0 => {
                    // SAFETY: the word is inside the mapping.
                    let words = unsafe { std::slice::from_raw_parts(raw.as_ptr().cast::<u64>(), size / 8).to_vec() };
                    let (at, value) = (random.below(words.len()), evil(&mut random, &words));
                    // First words of lines matter most.
                    let at = if random.below(2) == 0 { at & !7 } else { at };
                    // SAFETY: as above.
                    unsafe { raw.as_ptr().cast::<u64>().add(at).write_volatile(value) };
                }
                1..4 => {
                    let (s, len) = (random.below(3), random.below(900));
                    send(&mut boxes[s], seed, &vec![len as u8; len]);
                }
                4 => {
                    inbox.arm();
                    assert!(inbox.disarm());
                }
                _ => {
                    take(&mut inbox);
                }
            }
        }
    }
}

#[test]
fn cells_go_round_and_come_back() {
    let mut inbox = Inbox::create(2, 4096, CellCounts::fixed(3), &ME).unwrap();
    let mut outboxes = [0, 1].map(|sender| Outbox::open(inbox.fd(), sender, ME.nonce).unwrap());
    let name = |outbox: &mut Outbox| {
        let (cell, _) = outbox.claim_cell(1, true).expect("a cell is free");
        let room = outbox.reserve(0).unwrap().unwrap();
        let _ = outbox.publish_cell(room, &[0; HEADER_WORDS], cell);
        cell
    };
    let named = [(); 3].map(|()| name(&mut outboxes[0]));
    assert_eq!(named.map(CellName::place), [0, 1, 2].map(|index| Place::Cell { index, kept: false }));
    assert!(outboxes[1].claim_cell(1, true).is_none() && !outboxes[1].waits_for_cells());
    outboxes[0].want_room();
    assert!(outboxes[0].waits_for_cells());
    let Some(Polled::Record(record)) = inbox.poll() else { panic!("no record") };
    assert!(inbox.release_with_cell(&record, named[0]), "the sender sleeps until a cell is free");
    assert!(inbox.payload(CellName::new(2, false), CELL_BYTES).is_some(), "the last cell");
    for (name, len) in
        [(CellName::new(3, false), 0), (CellName::new(2, false), CELL_BYTES + 1), (CellName::in_segments(0), 1)]
    {
        assert!(inbox.payload(name, len).is_none(), "{name:?}");
    }
    assert_eq!(outboxes[1].claim_cell(1, true).map(|(cell, _)| cell), Some(CellName::new(0, false)));
    for cell in &named[1..] {
        let Some(Polled::Record(record)) = inbox.poll() else { panic!("no record") };
        let _ = inbox.release_with_cell(&record, *cell);
    }
    assert!(!outboxes[0].waits_for_cells());
    name(&mut outboxes[0]);
    inbox.free_cells_of(0);
    assert_eq!(name(&mut outboxes[0]), CellName::new(2, false), "its holder is gone");
}

#[test]
fn a_sender_keeps_its_share_of_the_cells() {
    let mut inbox = Inbox::create(3, 65536, CellCounts::fixed(16), &ME).unwrap();
    let mut outbox = Outbox::open(inbox.fd(), 0, ME.nonce).unwrap();
    let mut used = Vec::new();
    for _ in 0..3 {
        for _ in 0..8 {
            let (cell, _) = outbox.claim_cell(1, true).expect("its share is free");
            let room = outbox.reserve(0).unwrap().unwrap();
            let _ = outbox.publish_cell(room, &[0; HEADER_WORDS], cell);
            used.push(cell);
        }
        let extra = outbox.claim_cell(1, true).expect("others have left some").0;
        assert!(matches!(extra.place(), Place::Cell { kept: false, .. }), "all of its own are under way");
        for at in 1..=8 {
            let Some(Polled::Record(record)) = inbox.poll() else { panic!("no record") };
            let _ = inbox.release_with_cell(&record, used[used.len() + at - 9]);
        }
        let room = outbox.reserve(0).unwrap().unwrap();
        let _ = outbox.publish_cell(room, &[0; HEADER_WORDS], extra);
        let Some(Polled::Record(record)) = inbox.poll() else { panic!("no record") };
        let _ = inbox.release_with_cell(&record, extra);
    }
    let share: Vec<CellName> = (0..8).map(|cell| CellName::new(cell, true)).collect();
    assert_eq!(used.chunks(8).collect::<Vec<_>>(), [&share[..]; 3]);
}

const SEGMENTS: usize = 16;
/// Inbox of three senders that can lend segments.
fn lender() -> Inbox {
    Inbox::create(3, 4096, CellCounts { cells: 8, segments: SEGMENTS }, &ME).unwrap()
}

fn kib(inbox: &Inbox) -> u64 {
    std::fs::File::from(inbox.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() / 2
}

/// Sends a payload of `len` times `value` by cell or segment; its place.
fn send_large(outbox: &mut Outbox, len: usize, value: u8) -> Option<CellName> {
    send_by_cell(outbox, len, value, true)
}

/// As [`send_large`]; whether lent segments are used.
fn send_by_cell(outbox: &mut Outbox, len: usize, value: u8, borrows: bool) -> Option<CellName> {
    let (name, data) = outbox.claim_cell(len, borrows)?;
    // SAFETY: there is room for so many bytes.
    unsafe { data.write_bytes(value, len) };
    let room = outbox.reserve(0).unwrap().unwrap();
    let _ = outbox.publish_cell(room, &[u64::from(name.number()), len as u64, u64::from(value)], name);
    Some(name)
}

/// Receives what [`send_large`] has sent.
fn take_large(inbox: &mut Inbox) {
    let Some(Polled::Record(record)) = inbox.poll() else { panic!("no record") };
    let [number, len, value] = record.header();
    let (name, len) = (CellName::from_number(number as u32), len as usize);
    let data = inbox.payload(name, len).expect("its sender was given it");
    let mut bytes = vec![0; len];
    // SAFETY: so many bytes are mapped.
    unsafe { std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr(), len) };
    assert!(bytes.iter().all(|byte| *byte == value as u8), "{name:?} was overwritten before it was read");
    let _ = inbox.release_with_cell(&record, name);
}

/// The segment that a place is in, if it is in one.
fn segment(name: CellName) -> Option<usize> {
    match name.place() {
        Place::Segments { line } => Some(line * 64 / SEGMENT_BYTES),
        Place::Cell { .. } => None,
    }
}

#[test]
fn lent_segments_are_used_until_both_rest() {
    let mut inbox = lender();
    let mut outbox = Outbox::open(inbox.fd(), 1, ME.nonce).unwrap();
    for sender_first in [true, false] {
        assert_eq!(outbox.piece_max(), CELL_BYTES);
        for i in 0..20 {
            assert_eq!(segment(send_large(&mut outbox, CELL_BYTES, i).unwrap()), None, "nothing is lent");
            take_large(&mut inbox);
        }
        let calm = kib(&inbox);
        inbox.lend(4, 4);
        let mut used: Vec<usize> = Vec::new();
        for i in 0..100u8 {
            let len = outbox.piece_max().min(5000 * usize::from(i % 8 + 1));
            used.extend(segment(send_large(&mut outbox, len, i).unwrap()));
            take_large(&mut inbox);
        }
        assert_eq!((used.len(), used.iter().max()), (100, Some(&3)), "all of the share is gone round through");
        assert!(used.iter().collect::<std::collections::HashSet<_>>().len() == 4 && outbox.piece_max() == PIECE_MAX);
        assert!(kib(&inbox) >= calm + 256);
        if sender_first {
            outbox.rest();
            inbox.arm();
        } else {
            inbox.arm();
            assert_eq!(
                segment(send_large(&mut outbox, PIECE_MAX, 1).unwrap()),
                used.last().map(|s| (s + 1) % 4),
                "still held"
            );
            take_large(&mut inbox);
            assert_eq!(outbox.piece_max(), CELL_BYTES, "it has noticed");
            for i in 0..20 {
                send_large(&mut outbox, CELL_BYTES, i);
                take_large(&mut inbox);
            }
        }
        inbox.disarm();
        assert_eq!(kib(&inbox), calm, "the sender rests first: {sender_first}");
    }
}

#[test]
fn short_messages_stay_in_cells_and_notice_when_nothing_is_lent_any_more() {
    let mut inbox = lender();
    let mut outbox = Outbox::open(inbox.fd(), 1, ME.nonce).unwrap();
    inbox.lend(4, 4);
    let send = |outbox: &mut Outbox, inbox: &mut Inbox, len, borrows| {
        let place = segment(send_by_cell(outbox, len, 1, borrows).unwrap());
        take_large(inbox);
        place
    };
    assert_eq!(send(&mut outbox, &mut inbox, CELL_BYTES, false), None);
    assert_eq!(send(&mut outbox, &mut inbox, CELL_BYTES, true), Some(0));
    assert_eq!(send(&mut outbox, &mut inbox, CELL_BYTES, false), None);
    assert_eq!(send(&mut outbox, &mut inbox, PIECE_MAX, false), Some(0), "too large for a cell");
    let held = kib(&inbox);
    inbox.arm();
    assert_eq!(send(&mut outbox, &mut inbox, CELL_BYTES, false), None);
    assert_eq!(outbox.piece_max(), CELL_BYTES, "it has noticed");
    assert!(kib(&inbox) <= held - 64 + CELL_BYTES as u64 / 1024, "given back, but for a new cell");
}

#[test]
fn a_full_share_waits_for_the_receiver() {
    let mut inbox = lender();
    let mut outbox = Outbox::open(inbox.fd(), 1, ME.nonce).unwrap();
    inbox.lend(SEGMENTS, 2);
    for round in 0..10 {
        let sent = (0..100).take_while(|i| send_large(&mut outbox, PIECE_MAX, round * 8 + i).is_some()).count();
        assert!(sent == 4 || round > 0 && sent == 2, "two segments of two pieces: {sent}");
        assert!(outbox.waits_for_cells());
        let left = if round % 2 == 0 { 2 } else { 0 };
        (left..4).for_each(|_| take_large(&mut inbox));
        (0..left).for_each(|_| take_large(&mut inbox));
    }
}

#[test]
fn a_smaller_share_gives_segments_back() {
    let mut inbox = lender();
    let mut outboxes = [0, 1].map(|sender| Outbox::open(inbox.fd(), sender, ME.nonce).unwrap());
    inbox.lend(SEGMENTS, SEGMENTS);
    for i in 0..40 {
        send_large(&mut outboxes[0], PIECE_MAX, i).unwrap();
        take_large(&mut inbox);
    }
    assert_eq!(segment(send_large(&mut outboxes[1], CELL_BYTES, 1).unwrap()), None, "the other one holds all");
    take_large(&mut inbox);
    inbox.lend(SEGMENTS, SEGMENTS / 2);
    for i in 0..200 {
        for outbox in &mut outboxes {
            send_large(outbox, CELL_BYTES, i).unwrap();
            take_large(&mut inbox);
        }
    }
    for outbox in &mut outboxes {
        assert!(segment(send_large(outbox, PIECE_MAX, 1).unwrap()).is_some());
        take_large(&mut inbox);
    }
}
