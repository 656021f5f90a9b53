//! Schedules of other processes: what is accepted is written again as it came, and never touches memory that it doesn't list.

use crate::datatypes::any_type;
use crate::input::Input;
use base::{Class, Error, Result};
use mpi::coll::builder::Builder;
use mpi::coll::comm_view::CommView;
use mpi::coll::portable::regions::{Access, Region};
use mpi::coll::portable::remote::{self, Memory};
use mpi::coll::portable::{Channel, Identity, Portable};
use mpi::coll::span::Span;

/// Where the owner's memory lies.
const BASE: usize = 1 << 40;
/// Reads and writes of one run: items without an end are cut short.
const ACCESSES: usize = 3000;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let bytes = if input.byte() < 64 {
        input.bytes(4096).to_vec()
    } else {
        let made = any_schedule(&mut input);
        let bytes = made.encode();
        assert_eq!(Portable::decode(&bytes).ok().as_ref(), Some(&made));
        play(made);
        damage(&mut input, bytes)
    };
    if let Ok(portable) = Portable::decode(&bytes) {
        assert_eq!(portable.encode(), bytes);
        play(portable);
    }
}

/// Some steps of a process that talks to itself.
fn any_schedule(input: &mut Input<'_>) -> Portable {
    let mut builder = Builder::default();
    let team = CommView::new(0, 1).team();
    for _ in 0..1 + input.below(6) {
        let (Some(a), Some(b)) = (any_span(input, &mut builder), any_span(input, &mut builder)) else { break };
        match input.below(5) {
            0 => builder.copy(a, b),
            1 => {
                let packed = builder.packed(a);
                builder.copy(a, packed);
                builder.copy(packed, a);
            }
            2 => {
                builder.send_empty(&team, 0);
                builder.recv_empty(&team, 0);
            }
            _ => {
                let received = builder.recv(&team, 0, b);
                builder.send(&team, 0, a);
                builder.wait_for(received);
            }
        }
    }
    builder.fence();
    let channels = [Channel { context: input.long(), tag: input.word() as i32 }; 2];
    let identity = Identity { process: 1, channels, round: 0 };
    let portable = Portable::new(builder.schedule(), builder.objects(), identity, |_, _| 1);
    portable.expect("types of the fuzzer are small")
}

fn any_span(input: &mut Input<'_>, builder: &mut Builder) -> Option<Span> {
    let datatype = any_type(input, 3)?;
    let ptr = std::ptr::without_provenance_mut(BASE + input.below(4096));
    Some(Span { ptr, count: input.below(4), shape: builder.shape(&datatype) })
}

/// Changes some words, mostly to small or to extreme numbers.
fn damage(input: &mut Input<'_>, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + input.below(3) {
        let at = 8 * input.below(bytes.len() / 8);
        let word = match input.below(4) {
            0 => input.long(),
            1 => u64::MAX >> input.below(64),
            2 => 1 << input.below(64),
            _ => input.below(12) as u64,
        };
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn play(portable: Portable) {
    let regions = [portable.regions(Access::Read).to_vec(), portable.regions(Access::Write).to_vec()];
    let _ = remote::run(vec![portable], &mut Guarded { regions, left: ACCESSES });
}

/// Memory that notices whoever leaves the regions.
struct Guarded {
    regions: [Vec<Region>; 2],
    left: usize,
}

impl Guarded {
    fn access(&mut self, address: u64, len: usize, lists: &[Access]) -> Result {
        let range = Region { from: address, to: address + len as u64 };
        let listed = |access: &Access| self.regions[*access as usize].iter().any(|region| region.contains(&range));
        assert!(lists.iter().any(listed), "{range:?} isn't listed");
        self.left = self.left.checked_sub(1).ok_or(Error::new(Class::ERR_OTHER, "enough"))?;
        Ok(())
    }
}

impl Memory for Guarded {
    fn get(&mut self, _: usize, address: u64, into: &mut [u8]) -> Result {
        into.fill(7);
        self.access(address, into.len(), &[Access::Read, Access::Write])
    }

    fn put(&mut self, _: usize, address: u64, from: &[u8]) -> Result {
        self.access(address, from.len(), &[Access::Write])
    }
}
