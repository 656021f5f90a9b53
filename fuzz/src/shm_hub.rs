//! A process's inbox with an honest sender of pieces and one that writes any record: what the honest one sends arrives, and nothing is written
//! outside of the place that a message has.

use crate::input::Input;
use base::Peer;
use base::ids::{JobId, ProcId, WorldRank};
use channel::buffer::RecvBuf;
use channel::shm::{ShmEvent, ShmHub};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::processes::Processes;
use protocol::wire::{HEADER_BYTES, Header};
use shm::layout::HEADER_WORDS;
use shm::outbox::Outbox;

const NONCE: u128 = 0x1234_5678_9abc_def0_1122_3344_5566_7788;
const HONEST: usize = 1;
const HOSTILE: usize = 2;
/// Bytes of the message that is being received, and of what stands before and behind it.
const MESSAGE: usize = 64 << 10;
const MARGIN: usize = 64;
/// Bit of a record's first byte: the rest of its payload is in a cell.
const SPILLED: u64 = 0x80;

/// Plays one input.
pub fn run(data: &[u8]) {
    base::log::set_silent(); // a line for each record that is refused
    let mut input = Input::new(data);
    let processes = Processes::shared(ProcId { job: JobId(1), rank: WorldRank(0) }, 3);
    let peers: Vec<Peer> = processes.borrow().own_job().collect();
    let mut hub = ShmHub::create(&processes, peers.clone(), NONCE, false).expect("a hub");
    let open = |slot| Outbox::open(hub.descriptors()[0], slot, NONCE).expect("its inbox");
    let (mut honest, mut hostile) = (open(HONEST), open(HOSTILE));
    let header = Header { kind: Kind::DATA, number: Number::NONE, source: 1, tag: 2, token: 3, context: 4 };
    let mut message = Message::new();
    let mut sent = 0;
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => sent += send_piece(&mut honest, &header, sent, input.below(9000)),
            3 => write_record(&mut hostile, &header, &mut input),
            4 => {
                // The next pieces of either, as if the message were the hostile one's, too.
                let sender = if input.flag() { HONEST } else { HOSTILE };
                if sender == HONEST {
                    message.take(&mut hub, peers[HONEST], &header);
                } else {
                    Message::new().take(&mut hub, peers[HOSTILE], &header);
                }
            }
            _ => poll(&mut hub, peers[HONEST], &mut message),
        }
    }
    while message.arrived < sent {
        let before = message.arrived;
        message.take(&mut hub, peers[HONEST], &header);
        (0..3).for_each(|_| poll(&mut hub, peers[HONEST], &mut message));
        assert!(message.arrived > before, "{before} of {sent} bytes have arrived, and no more come");
    }
    message.check();
}

/// A message on its way.
struct Message {
    memory: Vec<u8>,
    arrived: usize,
}

impl Message {
    fn new() -> Message {
        Message { memory: vec![0xaa; MARGIN + MESSAGE + MARGIN], arrived: 0 }
    }

    fn room(&mut self) -> RecvBuf {
        // SAFETY: the room is used before this message is touched again.
        unsafe { RecvBuf::contiguous(self.memory.as_mut_ptr().add(MARGIN), MESSAGE) }
    }

    fn take(&mut self, hub: &mut ShmHub, peer: Peer, header: &Header) {
        let (room, arrived) = (self.room(), self.arrived);
        self.arrived += hub.take_pieces(peer, header, &room, arrived..MESSAGE);
        assert!(self.arrived <= MESSAGE);
        self.check_margins();
    }

    /// What has arrived is what [`send_piece`] sends; nothing else was touched.
    fn check(&self) {
        let all = &self.memory[MARGIN..MARGIN + MESSAGE];
        assert!(all[..self.arrived].iter().enumerate().all(|(at, byte)| *byte == byte_at(at)));
        assert!(all[self.arrived..].iter().all(|byte| *byte == 0xaa));
        self.check_margins();
    }

    fn check_margins(&self) {
        assert!(self.memory[..MARGIN].iter().chain(&self.memory[MARGIN + MESSAGE..]).all(|byte| *byte == 0xaa));
    }
}

fn byte_at(at: usize) -> u8 {
    (at % 151) as u8
}

/// Sends the bytes of the message from `at` on; how many.
fn send_piece(outbox: &mut Outbox, header: &Header, at: usize, len: usize) -> usize {
    let len = len.min(outbox.piece_max()).min(MESSAGE - at);
    if len == 0 {
        return 0;
    }
    let Some((cell, data)) = outbox.claim_cell(len, false) else { return 0 };
    // SAFETY: as many bytes were claimed.
    (0..len).for_each(|i| unsafe { data.add(i).write(byte_at(at + i)) });
    let mut body = (at as u64).to_le_bytes().to_vec();
    body.extend([cell.number(), len as u32].into_iter().flat_map(u32::to_le_bytes));
    let Some(room) = outbox.reserve(body.len()).expect("an honest ring") else { return 0 };
    // SAFETY: as many bytes were reserved.
    unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), room.payload, body.len()) };
    let [first, b, c] = words_of(header);
    let _ = outbox.publish_cell(room, &[first | SPILLED, b, c], cell); // nobody sleeps here
    len
}

/// A record whose header and body are nearly those of a piece, or anything.
fn write_record(outbox: &mut Outbox, header: &Header, input: &mut Input<'_>) {
    let mut words = words_of(header);
    words[0] |= SPILLED;
    if input.flag() {
        words[input.below(HEADER_WORDS)] ^= 1 << input.below(64);
    }
    let mut body = (input.below(MESSAGE) as u64).to_le_bytes().to_vec();
    body.extend(if input.flag() { (input.below(4) as u32).to_le_bytes() } else { input.array() });
    body.extend(if input.flag() { (input.below(10_000) as u32).to_le_bytes() } else { input.array() });
    if input.flag() {
        body.truncate(input.below(17));
    }
    // The hostile sender may have broken its own ring's words only by what it publishes, so this can't fail.
    let Some(room) = outbox.reserve(body.len()).expect("its own ring") else { return };
    // SAFETY: as many bytes were reserved.
    unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), room.payload, body.len()) };
    let _ = outbox.publish(room, &words); // nobody sleeps here
}

fn words_of(header: &Header) -> [u64; HEADER_WORDS] {
    let bytes: [u8; HEADER_BYTES] = header.encode();
    std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|i| bytes[word * 8 + i])))
}

/// Takes a packet, whatever it is. A piece of the honest sender belongs to the message.
fn poll(hub: &mut ShmHub, honest: Peer, message: &mut Message) {
    let packet = match hub.poll() {
        None => return,
        Some(ShmEvent::Lost(peer)) => return assert_ne!(peer, honest),
        Some(ShmEvent::Packet(packet)) => packet,
    };
    if packet.peer == honest {
        let at: [u8; 8] = packet.body().expect("the place of a piece");
        assert_eq!(u64::from_le_bytes(at), message.arrived as u64, "pieces come in order");
        let len = packet.len() - 8;
        let room = message.room();
        hub.deliver(&packet, 8, &room, message.arrived, len);
        message.arrived += len;
    } else {
        let mut memory = Message::new();
        let room = memory.room();
        hub.deliver(&packet, 0, &room, 0, packet.len());
        memory.check_margins();
    }
    hub.release(&packet);
}
