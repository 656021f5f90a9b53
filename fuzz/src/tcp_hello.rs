//! The introduction of a data connection: a stranger's messages are refused, whatever they are made from.

use crate::input::Input;
use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank};
use channel::tcp::hello::{self, Identity, LINKS_MAX, LinkId, Terms, Verdict};
use channel::tcp::security::Security;
use protocol::processes::Processes;

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let identity = |me: u32| Identity {
        processes: Processes::shared(ProcId { job: JobId(77), rank: WorldRank(me) }, 4),
        key: *b"sixteen secrets!",
        format: 3,
        security: Security::Encrypt,
        ids: Default::default(),
        others: Default::default(),
    };
    let (dialler, listener) = (identity(1), identity(2));
    let (theirs, ours) = ([5; 16], [6; 16]);
    let mut greeting = hello::hello(&dialler, LinkId { peer: Peer(2), number: input.byte() % LINKS_MAX }, &theirs);
    let mut challenge = hello::challenge(&listener, &greeting, &ours);
    let true_challenge = challenge;
    assert_eq!(hello::check_challenge(&dialler, &greeting, &challenge), Ok(ours), "both know the key");
    let (from_dialler, from_listener) = (Terms { connection: 7, received: 70 }, Terms { connection: 8, received: 80 });
    let true_proof = hello::proof(&dialler, &greeting, &ours, from_dialler);
    let true_answer = hello::answer(&listener, &greeting, &ours, Verdict::Accepted, from_listener);
    let (mut proof, mut answer) = (true_proof, true_answer);
    let true_greeting = greeting;
    while !input.is_empty() {
        match input.byte() % 5 {
            0 => greeting[input.below(true_greeting.len())] = input.byte(),
            1 => challenge[input.below(true_challenge.len())] = input.byte(),
            2 => proof[input.below(true_proof.len())] = input.byte(),
            3 => answer[input.below(true_answer.len())] = input.byte(),
            _ => {
                (greeting, challenge) = (input.array(), input.array());
                (proof, answer) = (input.array(), input.array());
            }
        }
        if let Ok(LinkId { peer, number }) = hello::check_hello(&listener, &greeting) {
            let processes = listener.processes.borrow();
            assert!(
                processes.id(peer).is_some() && peer != processes.me() && number < LINKS_MAX,
                "an impossible peer: {peer:?}, {number}"
            );
        }
        let same = greeting == true_greeting;
        let answered = hello::check_challenge(&dialler, &true_greeting, &challenge).is_ok();
        assert_eq!(answered, challenge == true_challenge, "a forged challenge");
        let proven = hello::check_proof(&listener, &greeting, &ours, &proof);
        assert_eq!(proven.is_ok(), same && proof == true_proof, "a forged proof");
        assert!(proven.is_err() || proven == Ok(from_dialler), "terms that nobody has told");
        let accepted = hello::check_answer(&dialler, &greeting, &ours, &answer);
        assert_eq!(accepted.is_ok(), same && answer == true_answer, "a forged answer");
        assert!(accepted.is_err() || accepted == Ok((Verdict::Accepted, from_listener)), "terms that nobody has told");
    }
}
