//! The ring against a `VecDeque`: any sequence of sends, looks and releases, with payloads that try to look like ready words.

use proptest::prelude::*;
use shm::ring::{Consumer, LINE, PREFIX, Producer, Words, payload_max};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

const LINES: usize = 32;

#[derive(Clone)]
struct Memory(Rc<(RefCell<Vec<u8>>, Cell<u64>)>);

impl Memory {
    fn new() -> Memory {
        Memory(Rc::new((RefCell::new(vec![0; LINES * LINE]), Cell::new(0))))
    }
    fn write(&self, line: usize, bytes: &[u8]) {
        let at = line * LINE + PREFIX;
        self.0.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&self, line: usize, len: usize) -> Vec<u8> {
        let at = line * LINE + PREFIX;
        self.0.0.borrow()[at..at + len].to_vec()
    }
}

impl Words for Memory {
    fn load(&self, line: usize, _: Ordering) -> u64 {
        let memory = self.0.0.borrow();
        u64::from_ne_bytes(memory[line * LINE..line * LINE + 8].try_into().unwrap())
    }
    fn store(&self, line: usize, value: u64, _: Ordering) {
        self.0.0.borrow_mut()[line * LINE..line * LINE + 8].copy_from_slice(&value.to_ne_bytes());
    }
    fn load_consumed(&self, _: Ordering) -> u64 {
        self.0.1.get()
    }
    fn store_consumed(&self, value: u64, _: Ordering) {
        self.0.1.set(value);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { len: usize, forged: bool },
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..=payload_max(LINES), any::<bool>()).prop_map(|(len, forged)| Step::Send { len, forged }),
        2 => (0..=PREFIX, any::<bool>()).prop_map(|(len, forged)| Step::Send { len, forged }),
        5 => Just(Step::Take),
    ]
}

/// A payload each of whose lines would be a ready word of the next lap, if the ring looked at it.
fn forged_payload(position: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0xff; len];
    for line in 1..=len.div_ceil(LINE) {
        let word = (position + (line + LINES) as u64) << 32 | 8;
        let at = line * LINE - PREFIX;
        if at + 8 <= len {
            out[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn behaves_like_a_queue(steps in prop::collection::vec(step(), 1..400)) {
        let memory = Memory::new();
        let (mut producer, mut consumer) = (Producer::new(memory.clone(), LINES), Consumer::new(memory.clone(), LINES));
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        // Position of the next record, as the ring counts it; follows the lines that records occupy.
        let mut position = LINES as u64;
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send { len, forged } => {
                    let Some(slot) = producer.reserve(len).unwrap() else {
                        prop_assert!(!model.is_empty(), "an empty ring must have room");
                        continue;
                    };
                    position += (slot.line as u64).wrapping_sub(position) % LINES as u64;
                    let payload = if forged { forged_payload(position, len) } else { vec![n as u8; len] };
                    memory.write(slot.line, &payload);
                    producer.publish(slot);
                    position += (len + PREFIX).div_ceil(LINE) as u64;
                    model.push_back(payload);
                }
                Step::Take => {
                    let found = consumer.peek().unwrap();
                    prop_assert_eq!(found, consumer.peek().unwrap());
                    match model.pop_front() {
                        None => prop_assert!(found.is_none()),
                        Some(expected) => {
                            let record = found.expect("what was sent arrives");
                            prop_assert_eq!(memory.read(record.line, record.len as usize), expected);
                            consumer.release(record.len);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nonsense_from_the_producer_is_refused_or_bounded(words in prop::collection::vec(any::<u64>(), LINES), tags in any::<u32>()) {
        let memory = Memory::new();
        for (line, word) in words.iter().enumerate() {
            // Half of them have the right tag.
            let word = if tags >> line & 1 == 1 { (LINES + line) as u64 } else { 0 } << 32 | (word & 0xfff);
            memory.store(line, word, Ordering::Relaxed);
        }
        let mut consumer = Consumer::new(memory, LINES);
        for _ in 0..LINES {
            let Ok(Some(record)) = consumer.peek() else { break };
            prop_assert!(record.line * LINE + PREFIX + record.len as usize <= LINES * LINE);
            consumer.release(record.len);
        }
    }

    #[test]
    fn nonsense_from_the_consumer_is_refused(consumed in any::<u64>()) {
        let memory = Memory::new();
        let mut producer = Producer::new(memory.clone(), LINES);
        for _ in 0..LINES {
            let slot = producer.reserve(0).unwrap().unwrap();
            producer.publish(slot);
        }
        memory.store_consumed(consumed, Ordering::Relaxed);
        let sane = (LINES as u64..=2 * LINES as u64).contains(&consumed);
        prop_assert_eq!(producer.reserve(0).is_ok(), sane);
    }
}

#[test]
fn tags_survive_their_overflow() {
    // Positions whose low half is zero would make cleared memory look ready if clearing meant zero.
    let memory = Memory::new();
    let (mut producer, mut consumer) = (Producer::new(memory.clone(), LINES), Consumer::new(memory.clone(), LINES));
    let start = (1u64 << 32) - LINES as u64;
    producer.skip_to(start);
    consumer.skip_to(start);
    memory.store_consumed(start, Ordering::Relaxed);
    for i in 0..4 * LINES {
        assert_eq!(consumer.peek().unwrap(), None);
        let slot = producer.reserve(i % 200).unwrap().unwrap();
        producer.publish(slot);
        let record = consumer.peek().unwrap().unwrap();
        assert_eq!(record.len as usize, i % 200);
        consumer.release(record.len);
    }
}
