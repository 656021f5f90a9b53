//! A whole inbox in shared memory, with words of any page rewritten by a peer: lanes may be lost, memory may not, and every
//! record that is shown can be read to its end.

use crate::input::Input;
use shm::inbox::{Inbox, Polled};
use shm::layout::{CellCounts, Identity};
use shm::outbox::Outbox;
use sys::mem::Mapping;

const ME: Identity = Identity { nonce: 0x1234_5678_9abc_def0_1122_3344_5566_7788, probe_address: 1, probe_value: 2 };
const SENDERS: usize = 3;
const CELLS: CellCounts = CellCounts { cells: 1, segments: 1 };

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut inbox = Inbox::create(SENDERS, 4096, CELLS, &ME).expect("an inbox");
    let size = sys::mem::fixed_size(inbox.fd()).expect("its size");
    let raw = Mapping::shared(inbox.fd(), size).expect("its memory");
    let mut boxes: Vec<Option<Outbox>> = (0..SENDERS).map(|_| None).collect();
    while !input.is_empty() {
        match input.byte() % 8 {
            0 => {
                let (at, value) = (input.below(size / 8), input.long());
                write(&raw, if input.flag() { at & !7 } else { at }, value);
            }
            1 => {
                // The ready word of a line of a ring, with a plausible tag.
                let line = (size - SENDERS * 4096) / 64 + input.below(SENDERS * 64);
                let tag = 64 + input.below(256) as u64;
                write(&raw, line * 8, tag << 32 | u64::from(input.word()) >> input.below(32));
            }
            2..=4 => {
                let sender = input.below(SENDERS);
                if boxes[sender].is_none() || input.byte() == 0 {
                    boxes[sender] = Outbox::open(inbox.fd(), sender, ME.nonce).ok();
                }
                if let Some(outbox) = &mut boxes[sender] {
                    let len = input.below(outbox.payload_max() + 1);
                    send(outbox, len);
                }
            }
            5 => {
                inbox.arm();
                assert!(inbox.disarm());
            }
            _ => take(&mut inbox),
        }
    }
}

fn write(raw: &Mapping, word: usize, value: u64) {
    // SAFETY: all callers give words inside the mapping; nobody holds a reference into it.
    unsafe { raw.as_ptr().cast::<u64>().add(word).write_volatile(value) };
}

fn send(outbox: &mut Outbox, len: usize) {
    let Ok(Some(room)) = outbox.reserve(len) else { return };
    // SAFETY: as many bytes were reserved.
    unsafe { std::ptr::write_bytes(room.payload, len as u8, len) };
    let _ = outbox.publish(room, &[len as u64, 1, 2]);
}

fn take(inbox: &mut Inbox) {
    let Some(Polled::Record(record)) = inbox.poll() else { return };
    assert!(inbox.sender(&record) < SENDERS && record.len() <= 4096);
    let mut bytes = vec![0; record.len()];
    // SAFETY: the payload is `len` bytes until the release.
    unsafe { std::ptr::copy_nonoverlapping(record.payload(), bytes.as_mut_ptr(), record.len()) };
    std::hint::black_box((record.header(), bytes));
    let _ = inbox.release(&record); // nobody sleeps here
}
