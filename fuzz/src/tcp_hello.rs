//! The introduction of a data connection: a stranger's messages are refused, whatever they are made from.

use crate::input::Input;
use base::Peer;
use channel::tcp::hello::{self, Identity};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let identity =
        |me: u32| Identity { me: Peer(me), size: 4, job_id: 77, key: *b"sixteen secrets!", ids: Default::default() };
    let (dialler, listener) = (identity(1), identity(2));
    let (theirs, ours) = ([5; 16], [6; 16]);
    let mut greeting = hello::hello(&dialler, Peer(2), &theirs);
    let mut challenge = hello::challenge(&listener, &greeting, &ours);
    let true_challenge = challenge;
    let mut proof = hello::proof(&dialler, &greeting, &challenge).expect("both know the key");
    let true_proof = proof;
    let true_greeting = greeting;
    while !input.is_empty() {
        match input.byte() % 4 {
            0 => greeting[input.below(true_greeting.len())] = input.byte(),
            1 => challenge[input.below(true_challenge.len())] = input.byte(),
            2 => proof[input.below(true_proof.len())] = input.byte(),
            _ => (greeting, challenge, proof) = (input.array(), input.array(), input.array()),
        }
        if let Ok(peer) = hello::check_hello(&listener, &greeting) {
            assert!(peer.0 < 4 && peer != listener.me, "an impossible peer: {peer:?}");
        }
        let same = greeting == true_greeting;
        let answered = hello::proof(&dialler, &true_greeting, &challenge).is_ok();
        assert_eq!(answered, challenge == true_challenge, "a forged challenge");
        let proven = hello::check_proof(&listener, &greeting, &ours, &proof);
        assert_eq!(proven, same && proof == true_proof, "a forged proof");
    }
}
