//! What arrives over UCX: hellos that somebody has changed are refused, and any front and any answer about a registration is read or refused.

use crate::input::Input;
use base::WorldRank;
use base::ids::{JobId, ProcId};
use channel::ucx::wire::{self, Front, Hello, KeyFacts, Kind};

/// Each change costs a MAC over 16 KiB.
const CHANGES_MAX: usize = 12;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let key = wire::transport_key(b"sixteen secrets!");
    let hello = Hello {
        ucx_minor: input.byte(),
        lane: input.byte() % 16,
        format: u32::from_le_bytes(input.array()),
        from: ProcId { job: JobId(77), rank: WorldRank(u32::from(input.byte())) },
        to: WorldRank(u32::from(input.byte())),
        rank_ids: [u128::from_le_bytes(input.array()), 5],
        generation: u64::from(input.byte()),
        address: (0..input.byte()).collect(),
    };
    let honest = hello.encode(&key);
    assert_eq!(Hello::decode(&key, &honest).as_ref(), Ok(&hello), "an honest hello");
    let mut bytes = honest.clone();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        match input.byte() % 5 {
            0 => {
                // The fixed part, the address and the MAC; the sample rarely.
                let at = input.below(bytes.len().clamp(1, 400));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = input.byte();
                }
            }
            1 => bytes.truncate(input.below(honest.len())),
            2 => bytes.extend(input.array::<9>()),
            3 => bytes.clone_from(&honest),
            // The length of the address, as a number of any size.
            _ => bytes.iter_mut().skip(72).zip(input.array::<8>()).for_each(|(byte, new)| *byte = new),
        }
        let read = Hello::decode(&key, &bytes);
        assert_eq!(read.is_ok(), bytes == honest, "a forged hello");
    }
    front_is_read_back(data);
    if let Some((facts, packed)) = KeyFacts::decode(data) {
        assert_eq!([&facts.encode()[..], packed].concat(), data, "facts that nobody has told");
    }
}

/// What is read as a front means the same when it is written again.
fn front_is_read_back(data: &[u8]) {
    let Some(front) = Front::decode(data) else { return };
    let again = match &front.header {
        Some(header) => {
            let (bytes, len) = wire::packet(header, front.body(), front.sequence, front.token);
            Front::decode(&bytes[..len])
        }
        None => Front::decode(&front.encode()),
    };
    assert_eq!(again, Some(front));
    assert_eq!(front.header.is_some(), front.kind == Kind::Packet);
}
