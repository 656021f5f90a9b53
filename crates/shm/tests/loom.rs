//! The order of memory accesses, explored by loom: every interleaving and every value that a load may return (with a bound on
//! preemptions). The payload is loom's `UnsafeCell`, so that a missing acquire or release is a reported race.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;
use shm::cells::{Cells, States};
use shm::ring::{Consumer, Producer, Words};
use shm::sleep::{self, Asleep};

const LINES: usize = 8;

/// A ring in loom's memory.
#[derive(Clone)]
struct Model(Arc<Memory>);

struct Memory {
    words: Vec<AtomicU64>,
    payload: Vec<UnsafeCell<u64>>,
    consumed: AtomicU64,
}

impl Model {
    fn new() -> Model {
        Model(Arc::new(Memory {
            words: (0..LINES).map(|_| AtomicU64::new(0)).collect(),
            payload: (0..LINES).map(|_| UnsafeCell::new(0)).collect(),
            consumed: AtomicU64::new(0),
        }))
    }

    fn fill(&self, line: usize, lines: usize, value: u64) {
        for cell in &self.0.payload[line..line + lines] {
            // SAFETY: loom reports it if anybody else has access now.
            cell.with_mut(|p| unsafe { *p = value });
        }
    }

    fn check(&self, line: usize, lines: usize, value: u64) {
        for cell in &self.0.payload[line..line + lines] {
            // SAFETY: as above.
            assert_eq!(cell.with(|p| unsafe { *p }), value);
        }
    }
}

impl Words for Model {
    fn load(&self, line: usize, order: Ordering) -> u64 {
        self.0.words[line].load(order)
    }
    fn store(&self, line: usize, value: u64, order: Ordering) {
        self.0.words[line].store(value, order);
    }
    fn load_consumed(&self, order: Ordering) -> u64 {
        self.0.consumed.load(order)
    }
    fn store_consumed(&self, value: u64, order: Ordering) {
        self.0.consumed.store(value, order);
    }
}

/// Sends records of these payload sizes through the ring, from one thread to another.
fn transfer(sizes: &'static [usize], preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Model::new();
        let sender = model.clone();
        let producer = thread::spawn(move || {
            let mut producer = Producer::new(sender.clone(), LINES);
            for (i, &len) in sizes.iter().enumerate() {
                let slot = loop {
                    match producer.reserve(len).unwrap() {
                        Some(slot) => break slot,
                        None => thread::yield_now(),
                    }
                };
                sender.fill(slot.line, (len + 32).div_ceil(64), i as u64 + 1);
                producer.publish(slot);
            }
        });
        let mut consumer = Consumer::new(model.clone(), LINES);
        for (i, &len) in sizes.iter().enumerate() {
            let record = loop {
                match consumer.peek().unwrap() {
                    Some(record) => break record,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(record.len as usize, len);
            model.check(record.line, (len + 32).div_ceil(64), i as u64 + 1);
            consumer.release(record.len);
        }
        producer.join().unwrap();
    });
}

#[test]
fn payload_is_visible_with_its_word() {
    transfer(&[8, 40], 4);
}

#[test]
fn room_is_reused_only_after_it_was_read() {
    transfer(&[96, 96, 96, 96, 96, 96], 2);
}

#[test]
fn pads_at_the_end_of_the_ring() {
    transfer(&[8, 96, 96, 96, 8, 96], 2);
}

/// The asleep word in loom's memory.
#[derive(Clone)]
struct Word(Arc<AtomicBool>);

impl Asleep for Word {
    fn load(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    fn store(&self, asleep: bool) {
        self.0.store(asleep, Ordering::Relaxed);
    }
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
    fn own_barrier(&self) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
    fn sleeper_barrier(&self) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// Whoever sleeps without having seen a message is woken by the one who sent it.
fn nobody_oversleeps(senders: usize) {
    loom::model(move || {
        let word = Word(Arc::new(AtomicBool::new(false)));
        let bell = Arc::new(AtomicBool::new(false));
        let messages: Arc<Vec<AtomicU64>> = Arc::new((0..senders).map(|_| AtomicU64::new(0)).collect());
        let threads: Vec<_> = (0..senders)
            .map(|i| {
                let (word, bell, messages) = (word.clone(), bell.clone(), messages.clone());
                thread::spawn(move || {
                    messages[i].store(1, Ordering::Release);
                    if sleep::must_ring(&word, false) {
                        bell.store(true, Ordering::Release);
                    }
                })
            })
            .collect();
        sleep::fall_asleep(&word);
        let seen = messages.iter().all(|m| m.load(Ordering::Acquire) == 1);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(seen || bell.load(Ordering::Acquire), "asleep, a message is there, and nobody rang");
    });
}

#[test]
fn one_sender_wakes_the_sleeper() {
    nobody_oversleeps(1);
}

#[test]
fn two_senders_wake_the_sleeper() {
    nobody_oversleeps(2);
}

/// A sender that found the ring full sleeps until the receiver wakes it.
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        const RECORDS: usize = 6;
        let model = Model::new();
        let word = Word(Arc::new(AtomicBool::new(false)));
        let bell = Arc::new(loom::sync::Notify::new());
        let (sender, wants_room, wake) = (model.clone(), word.clone(), bell.clone());
        let producer = thread::spawn(move || {
            let mut producer = Producer::new(sender, LINES);
            for _ in 0..RECORDS {
                let slot = loop {
                    if let Some(slot) = producer.reserve(96).unwrap() {
                        break slot;
                    }
                    sleep::fall_asleep(&wants_room);
                    if let Some(slot) = producer.reserve(96).unwrap() {
                        break slot;
                    }
                    // Loom reports a deadlock if nobody notifies.
                    wake.wait();
                };
                producer.publish(slot);
            }
        });
        let mut consumer = Consumer::new(model, LINES);
        for _ in 0..RECORDS {
            let record = loop {
                match consumer.peek().unwrap() {
                    Some(record) => break record,
                    None => thread::yield_now(),
                }
            };
            if consumer.release(record.len) && sleep::must_ring(&word, false) {
                bell.notify();
            }
        }
        producer.join().unwrap();
    });
}

/// Cells in loom's memory, with what they hold.
#[derive(Clone)]
struct CellModel(Arc<CellMemory>);

struct CellMemory {
    states: Vec<AtomicU32>,
    hint: AtomicU32,
    open: AtomicU32,
    data: Vec<UnsafeCell<usize>>,
}

impl CellModel {
    fn new(count: usize) -> CellModel {
        CellModel(Arc::new(CellMemory {
            states: (0..count).map(|_| AtomicU32::new(0)).collect(),
            hint: AtomicU32::new(0),
            open: AtomicU32::new(count as u32),
            data: (0..count).map(|_| UnsafeCell::new(0)).collect(),
        }))
    }

    fn cells(&self) -> Cells<CellModel> {
        Cells::new(self.clone(), self.0.data.len())
    }

    /// By the holder of a cell.
    fn write(&self, cell: usize, value: usize) {
        // SAFETY: loom reports it if anybody else has access now.
        self.0.data[cell].with_mut(|p| unsafe { *p = value });
    }

    fn read(&self, cell: usize) -> usize {
        // SAFETY: as above.
        self.0.data[cell].with(|p| unsafe { *p })
    }
}

impl States for CellModel {
    fn load(&self, cell: usize, order: Ordering) -> u32 {
        self.0.states[cell].load(order)
    }
    fn store(&self, cell: usize, state: u32, order: Ordering) {
        self.0.states[cell].store(state, order);
    }
    fn claim(&self, cell: usize, state: u32, success: Ordering) -> bool {
        self.0.states[cell].compare_exchange(0, state, success, Ordering::Relaxed).is_ok()
    }
    fn load_hint(&self) -> u32 {
        self.0.hint.load(Ordering::Relaxed)
    }
    fn store_hint(&self, cell: u32) {
        self.0.hint.store(cell, Ordering::Relaxed);
    }
    fn load_open(&self, order: Ordering) -> u32 {
        self.0.open.load(order)
    }
    fn store_open(&self, cells: u32) {
        self.0.open.store(cells, Ordering::Relaxed);
    }
    fn fence(&self) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// Two senders share `count` cells: none is ever held by both, and a cell is written again only after it was freed.
fn share_cells(count: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = CellModel::new(count);
        let senders: Vec<_> = (0..2)
            .map(|who| {
                let model = model.clone();
                thread::spawn(move || {
                    let cells = model.cells();
                    for _ in 0..2 {
                        if let Some(cell) = cells.claim(who) {
                            assert!(cells.holds(who, cell));
                            model.write(cell, who);
                            assert_eq!(model.read(cell), who);
                            cells.free(cell);
                        }
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn one_cell_has_one_holder() {
    share_cells(1);
}

#[test]
fn two_cells_have_one_holder_each() {
    share_cells(2);
}

/// The owner closes the second of two cells while a sender uses it, or has just given it back: in the end it is empty.
#[test]
fn a_closed_cell_is_emptied() {
    const EMPTY: usize = 0;
    const FULL: usize = 1;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = CellModel::new(2);
        let (owner, sender) = (2, 0);
        let cells = model.cells();
        let claimed = [(); 2].map(|()| cells.claim(sender));
        assert_eq!(claimed, [Some(0), Some(1)]);
        let other = model.clone();
        let thread = thread::spawn(move || {
            other.write(1, FULL);
            other.cells().give_back(sender, 1, |run| run.for_each(|cell| other.write(cell, EMPTY)));
        });
        cells.set_open(1);
        cells.take_closed(owner, 1..2, |run| run.for_each(|cell| model.write(cell, EMPTY)));
        thread.join().unwrap();
        assert!(!cells.holds(owner, 1) && !cells.holds(sender, 1), "it can be claimed when it is opened again");
        assert_eq!(model.read(1), EMPTY);
        assert_eq!(cells.claim(sender), None, "the first one is held, the other closed");
    });
}
