//! Sealed frames of a control link: whatever is done to the stream, what opens is a beginning of what was sealed.

use crate::input::Input;
use protocol::control::frame::{HEADER, RANK_LIMIT, Splitter};
use protocol::control::handshake::{self, Handshake, Key, Step};
use protocol::control::sealed::{Seals, TAG};

/// The seals of a parent and a child that have met.
fn met(key: Key) -> (Seals, Seals) {
    let (mut parent, mut child) = (Handshake::of_parent([1; 16]), Handshake::of_child(7, [2; 16]));
    child.take(&handshake::challenge([1; 16]));
    let Ok(Step::Answer(answer)) = child.step(|_| key) else { panic!("our own challenge") };
    parent.take(&answer);
    let Ok(Step::Met(of_parent)) = parent.step(|_| key) else { panic!("our own answer") };
    child.take(&of_parent.last);
    let Ok(Step::Met(of_child)) = child.step(|_| key) else { panic!("our own proof") };
    (of_parent.seals, of_child.seals)
}

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let key = Key(*b"sixteen secrets!");
    let (mut parent, mut child) = met(key);
    let (mut said, mut frames) = (Vec::new(), Vec::new());
    for n in 0..1 + input.below(6) {
        let body = vec![n as u8; 1 + input.below(100)];
        let mut sealed = Vec::new();
        parent.seal(&[&(body.len() as u32).to_le_bytes(), &body[..]].concat(), &mut sealed);
        assert_eq!(sealed.len(), HEADER + body.len() + TAG);
        said.push(body);
        frames.push(sealed);
    }
    let stream = harmed(&mut input, frames);
    let (mut splitter, mut seen, step) = (Splitter::default(), Vec::new(), 1 + input.below(300));
    'reading: for part in stream.chunks(step) {
        splitter.feed(part);
        loop {
            let mut body = match splitter.next_frame(RANK_LIMIT + TAG) {
                Ok(Some(body)) => body.to_vec(),
                Ok(None) => break,
                Err(_) => break 'reading,
            };
            if child.open(&mut body).is_err() {
                assert!(body.is_empty() && child.open(&mut vec![0; 40]).is_err());
                break 'reading;
            }
            seen.push(body);
        }
    }
    assert!(said.starts_with(&seen), "{seen:?} of {said:?}");
}

/// The stream, with frames and bytes changed, left out, repeated or moved.
fn harmed(input: &mut Input<'_>, mut frames: Vec<Vec<u8>>) -> Vec<u8> {
    for _ in 0..input.below(4) {
        let (a, b) = (input.below(frames.len()), input.below(frames.len()));
        match input.byte() % 4 {
            0 => frames.swap(a, b),
            1 => frames[a] = frames[b].clone(),
            2 => frames[a].truncate(b),
            _ => frames[a].extend_from_slice(input.bytes(20)),
        }
    }
    let mut stream = frames.concat();
    for _ in 0..input.below(4) {
        let at = input.below(stream.len().max(1));
        if let Some(byte) = stream.get_mut(at) {
            *byte ^= input.byte();
        }
    }
    stream
}
