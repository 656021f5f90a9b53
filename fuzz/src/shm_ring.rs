//! The ring's logic over memory that the other side rewrites between any two accesses. A slot or record must lie inside the
//! ring; and while nobody interferes, what goes in comes out.

use crate::input::Input;
use shm::ring::{Consumer, LINE, PREFIX, Producer, Words, payload_max};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The words of a ring, and the values that appear in them while we look.
struct Memory {
    words: RefCell<Vec<u64>>,
    consumed: Cell<u64>,
    /// Values for the next loads, instead of what is there.
    surprises: RefCell<VecDeque<u64>>,
}

#[derive(Clone)]
struct Shared(Rc<Memory>);

impl Shared {
    fn new(lines: usize) -> Shared {
        Shared(Rc::new(Memory {
            words: RefCell::new(vec![0; lines]),
            consumed: Cell::new(lines as u64),
            surprises: RefCell::default(),
        }))
    }

    fn surprise(&self, value: u64) -> u64 {
        self.0.surprises.borrow_mut().pop_front().unwrap_or(value)
    }
}

impl Words for Shared {
    fn load(&self, line: usize, _: Ordering) -> u64 {
        self.surprise(self.0.words.borrow()[line])
    }
    fn store(&self, line: usize, value: u64, _: Ordering) {
        self.0.words.borrow_mut()[line] = value;
    }
    fn load_consumed(&self, _: Ordering) -> u64 {
        self.surprise(self.0.consumed.get())
    }
    fn store_consumed(&self, value: u64, _: Ordering) {
        self.0.consumed.set(value);
    }
}

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let lines = 4usize << input.below(6);
    let memory = Shared::new(lines);
    let (mut producer, mut consumer) = (Producer::new(memory.clone(), lines), Consumer::new(memory.clone(), lines));
    if input.flag() {
        // Close to where the tags overflow, or anywhere below where positions would.
        let start = ((1 << 32 | u64::from(input.word()) << 20) - 2 * lines as u64) & !(lines as u64 - 1);
        producer.skip_to(start);
        consumer.skip_to(start);
        memory.store_consumed(start, Ordering::Relaxed);
    }
    let mut sent: VecDeque<u32> = VecDeque::new();
    let mut honest = true;
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => match producer.reserve(input.below(payload_max(lines) + 1)) {
                Ok(Some(slot)) => {
                    assert!(slot.line * LINE + PREFIX <= lines * LINE, "{slot:?} outside of the ring");
                    sent.push_back((slot.line * LINE) as u32);
                    producer.publish(slot);
                }
                Ok(None) => {}
                Err(_) => return assert!(!honest, "an honest ring is corrupt"),
            },
            3..=5 => match consumer.peek() {
                Ok(Some(record)) => {
                    let end = record.line * LINE + PREFIX + record.len as usize;
                    assert!(end <= lines * LINE, "{record:?} outside of the ring");
                    if honest {
                        assert_eq!(sent.pop_front(), Some((record.line * LINE) as u32));
                    }
                    consumer.release(record.len);
                }
                Ok(None) => assert!(!honest || sent.is_empty(), "a record is not seen"),
                Err(_) => return assert!(!honest, "an honest ring is corrupt"),
            },
            6 => {
                honest = false;
                let line = input.below(lines);
                let value = evil(&mut input, &memory, lines);
                memory.store(line, value, Ordering::Relaxed);
            }
            _ => {
                honest = false;
                let value = evil(&mut input, &memory, lines);
                if input.flag() {
                    memory.0.surprises.borrow_mut().push_back(value);
                } else {
                    memory.store_consumed(value, Ordering::Relaxed);
                }
            }
        }
    }
}

/// A word that is more likely to do harm than a random one.
fn evil(input: &mut Input<'_>, memory: &Shared, lines: usize) -> u64 {
    let words = memory.0.words.borrow();
    let (some, consumed) = (words[input.below(lines)], memory.0.consumed.get());
    match input.byte() % 6 {
        0 => input.long(),
        1 => some | 0xffff_ffff,
        2 => some & !0xffff_ffff | u64::from(input.word()),
        3 => some.wrapping_add((input.byte() as u64) << 32),
        4 => consumed.wrapping_add(input.below(2 * lines) as u64) << 32 | u64::from(input.word()),
        _ => consumed.wrapping_add_signed(input.evil()),
    }
}
