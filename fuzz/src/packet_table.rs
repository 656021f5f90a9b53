//! The table of packet kinds: any bytes as a header, and each kind with any body for an engine that has registered memory and accesses under way.
//!
//! A header is accepted if, and only if, the table has its kind. Memory that no packet names by its nonce stays as it is, and accesses to an
//! honest peer end as they should.

use crate::input::Input;
use base::Peer;
use protocol::endpoint::Endpoints;
use protocol::engine::Engine;
use protocol::kind::{BODY_MAX, Kind};
use protocol::memory::{Atomic, Change, Key, Target};
use protocol::order::{FIRST, Number};
use protocol::transport::Caps;
use protocol::wire::{HEADER_BYTES, Header};
use testkit::transport::{Bytes, Faults, SimTransport, World};

const ME: Peer = Peer(0);
const FRIEND: Peer = Peer(1);
const FOE: Peer = Peer(2);
const CAPS: Caps = Caps { packet_max: 64, piece_min: 8, eager_max: 48, fragments_max: 80, push_max: 92, pull_min: 100 };
const LEN: usize = 100;

/// Plays one input.
pub fn run(data: &[u8]) {
    for bytes in data.chunks_exact(HEADER_BYTES) {
        check_header(bytes.try_into().expect("as long as a header"));
    }
    let mut input = Input::new(data);
    let faults = Faults { refuse: 20, delay: 20, post: 20, ..Faults::default() };
    let world = World::new(input.byte().into(), faults, CAPS);
    let mut engines = [ME, FRIEND].map(|me| Engine::new(Endpoints::new(SimTransport::new(me, 3, &world))));
    let mut register = |at: usize| {
        let bytes = Bytes::new(vec![1; LEN]);
        (bytes.clone(), engines[at].register(bytes))
    };
    let [named, private, theirs] = [register(0), register(0), register(1)];
    let (source, sink) = (Bytes::new(vec![7; LEN]), Bytes::new(vec![0; LEN]));
    let add = Atomic { change: Change::Add(1), width: 8 };
    let mut open = vec![engines[0].post_put(FRIEND, &theirs.1, 0, source)];
    while !input.is_empty() {
        if input.byte() < 200 {
            let (header, payload) = packet(&mut input, &named.1);
            world.borrow_mut().inject(FOE, ME, header, payload);
        }
        if input.byte() < 20 {
            engines[0].post_get(FOE, &theirs.1, 0, Bytes::new(vec![0; LEN]));
            engines[0].post_atomic(FOE, &theirs.1, 8, add);
        }
        for engine in &mut engines {
            engine.progress();
        }
    }
    for patience in (0..100_000).rev() {
        for engine in &mut engines {
            engine.progress();
        }
        if open.iter().all(|id| engines[0].is_access_complete(*id)) {
            break;
        }
        assert!(patience > 0, "{:?}", engines[0].describe_pending());
    }
    open.drain(..).for_each(|id| assert_eq!(engines[0].take_access(id), Some(Ok(0))));
    let get = engines[0].post_get(FRIEND, &theirs.1, 0, sink.clone());
    for _ in 0..100_000 {
        for engine in &mut engines {
            engine.progress();
        }
        if engines[0].is_access_complete(get) {
            break;
        }
    }
    assert_eq!((engines[0].take_access(get), sink.bytes()), (Some(Ok(0)), vec![7; LEN]));
    assert_eq!(private.0.bytes(), vec![1; LEN], "memory that nobody has named was written");
}

/// A header is what it was, or no header.
fn check_header(bytes: &[u8; HEADER_BYTES]) {
    let known = Kind::ALL.iter().any(|kind| kind.byte() == bytes[0]);
    let header = Header::decode(bytes);
    assert_eq!(header.is_some(), known);
    if let Some(header) = header {
        assert!(header.kind.info().body <= BODY_MAX);
        assert_eq!(Header::decode(&header.encode()), Some(header));
    }
}

/// None, or one that is about to be expected, or any.
fn number(input: &mut Input<'_>) -> Number {
    match input.byte() % 4 {
        0 | 1 => Number::NONE,
        2 => Number::of(FIRST + input.below(6) as u64),
        _ => Number::from_bytes([input.byte(), input.byte(), input.byte()]),
    }
}

/// A packet of any kind, with the body that its kind has, or too little of it.
fn packet(input: &mut Input<'_>, key: &Key) -> (Header, Vec<u8>) {
    let kind = Kind::ALL[input.below(Kind::ALL.len())];
    let header = Header {
        kind,
        number: number(input),
        source: input.below(4) as u32,
        tag: input.below(3) as i32,
        token: input.below(8) as u32,
        context: u64::from(input.byte()) << 40,
    };
    let nonce = if input.flag() { key.nonce } else { input.long() };
    let target = Target { number: key.number + input.below(2) as u32, nonce, at: input.evil() as u64 };
    let mut payload = match kind {
        Kind::PUT | Kind::GET => target.encode_range(input.evil() as u64).to_vec(),
        Kind::ATOMIC => {
            let change = Change::CompareSwap { expected: input.long(), new: input.long() };
            target.encode_atomic(&Atomic { change, width: input.byte() % 16 }).to_vec()
        }
        _ => input.bytes(kind.info().body).to_vec(),
    };
    payload.extend_from_slice(input.bytes(24));
    if input.byte() > 230 {
        payload.truncate(input.below(32));
    }
    (header, payload)
}
