//! The handshake of a data connection: both ends prove that they belong to the job, or to two that have connected, without sending the key. No I/O.
//!
//! ```text
//! dialler ─ Hello{magic, version, link, from, to, jobs, nonce_d, format} ─────────► listener
//! dialler ◄ Challenge{magic, nonce_l, security, mac(key, "l", …)} listener
//! dialler ─ Proof{terms_d, mac(key, "d", hello, nonce_l, terms_d)} ► listener
//! dialler ◄ Answer{verdict, terms_l, mac(key, verdict, …, terms_l)}  listener     then frames both ways
//! ```
//! A pair of processes has one link, or several with numbers ([`LinkId`]), each of which goes on over broken connections. [`Terms`] say which connection of the pair this one is, and how
//! many bytes of the link the process has received: there its peer goes on. They are told when it is certain that this connection
//! is to be the next one, so nothing can arrive any more over an older one.
//! Both say how they protect what follows ([`Security`]), under the MAC. If that differs, the listener ends the connection after its challenge, so each side
//! knows for certain what the other one wants; keys of records come from the secret, the hello and the listener's nonce ([`secret`]).
//! Fresh nonces on both sides make every recorded message useless. The dialler sends its proof on one connection only, and
//! the listener accepts one only: when both have sent a proof, the connection that the lower rank dialled is kept.
//! The MAC is SipHash-2-4, run twice under different prefixes for 128 bits.

use super::security::Security;
use base::ids::{JobId, ProcId};
use base::{Peer, WorldRank};
use protocol::control::exchange::Id;
use protocol::control::handshake::{Key, same, siphash};
use protocol::lanes::LANES_MAX;
use protocol::processes::{Name, SharedProcesses};
use protocol::wire::WIRE_VERSION;
use std::collections::HashMap;

/// Bytes of [`hello`].
pub const HELLO_BYTES: usize = 56;
/// Bytes of [`challenge`].
pub const CHALLENGE_BYTES: usize = 41;
/// Bytes of [`proof`].
pub const PROOF_BYTES: usize = TERMS_BYTES + 16;
/// Bytes of [`answer`].
pub const ANSWER_BYTES: usize = 8 + TERMS_BYTES + 16;

const TERMS_BYTES: usize = 16;

/// Most links of a pair.
pub const LINKS_MAX: u8 = LANES_MAX as u8;

/// One of the links with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkId {
    /// Whom it leads to.
    pub peer: Peer,
    /// Its number among those of the pair, below [`LINKS_MAX`] and equal on both sides.
    pub number: u8,
}

/// On which terms a process goes on with its link to another.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Terms {
    /// The number of the connection among those of the link, from 1: larger than that of any earlier one.
    pub connection: u64,
    /// Bytes of the link that the process has received.
    pub received: u64,
}

impl Terms {
    fn encode(self) -> [u8; TERMS_BYTES] {
        let mut out = [0; TERMS_BYTES];
        out[..8].copy_from_slice(&self.connection.to_le_bytes());
        out[8..].copy_from_slice(&self.received.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Terms {
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Terms { connection: half(0), received: half(8) }
    }
}

/// The listener's last word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Frames may travel.
    Accepted,
    /// For the listener the link is over: one of the two has said goodbye, or was given up.
    Over,
}

impl Verdict {
    fn word(self) -> [u8; 8] {
        match self {
            Verdict::Accepted => *b"accepted",
            Verdict::Over => *b"is over.",
        }
    }
}

const MAGIC: [u8; 8] = *b"ferrule\n";

/// Who we are.
#[derive(Clone)]
pub struct Identity {
    /// This process and those that it knows.
    pub processes: SharedProcesses,
    /// Secret of the job.
    pub key: [u8; 16],
    /// Stands for the settings that change what travels: equal on all ranks.
    pub format: u32,
    /// How its connections are protected: equal on all ranks.
    pub security: Security,
    /// Endpoint ids, if the job has exchanged some.
    pub ids: Ids,
    /// Secrets with processes of other jobs: each has one with this process.
    pub others: HashMap<ProcId, [u8; 16]>,
}

/// Endpoint ids, one per ordered pair of ranks (`protocol::control::exchange`): who calls a rank must know the id by which this
/// one of its peers may call it. None in most jobs.
#[derive(Clone, Default)]
pub struct Ids {
    /// By which others may call this rank.
    pub own: HashMap<WorldRank, Id>,
    /// By which this rank may call others.
    pub theirs: HashMap<WorldRank, Id>,
}

impl Identity {
    /// This process.
    pub fn me(&self) -> ProcId {
        self.processes.borrow().own_id()
    }

    /// Whether this process comes before `peer`; both sides agree on it.
    pub fn is_before(&self, peer: Peer) -> bool {
        self.processes.borrow().id(peer).is_some_and(|id| self.me() < id)
    }

    /// The number of the pair of this process and `peer`, the same at both ends: the sum of their ranks.
    pub fn pair(&self, peer: Peer) -> u64 {
        let theirs = self.processes.borrow().id(peer).map_or(0, |id| id.rank.0);
        u64::from(self.me().rank.0) + u64::from(theirs)
    }

    /// How messages for humans name `peer`.
    pub fn name(&self, peer: Peer) -> Name {
        self.processes.borrow().name(peer)
    }

    /// Whether this process has a secret with another one.
    pub fn has_secret_with(&self, id: ProcId) -> bool {
        id.job == self.me().job || self.others.contains_key(&id)
    }

    /// The secret of a connection that `from` has dialled to `to`, one of which is this process.
    fn secret(&self, from: ProcId, to: ProcId) -> [u8; 16] {
        let me = self.me();
        let other = if to == me { from } else { to };
        if other.job != me.job {
            // Nobody has been told of a process without its secret; should that be wrong, nobody knows this one.
            return self.others.get(&other).copied().unwrap_or_else(sys::process::random);
        }
        let id = if to == me { self.ids.own.get(&from.rank) } else { self.ids.theirs.get(&to.rank) };
        id.map_or(self.key, |id| Key(self.key).derive(id).0)
    }
}

/// Why the other end is not a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// It speaks another language.
    Garbage,
    /// It has another version of Ferrule.
    Version,
    /// Its settings change what travels.
    Settings,
    /// It protects connections in another way.
    Security {
        /// As it says.
        theirs: Security,
        /// As this process does.
        ours: Security,
    },
    /// It belongs to another job.
    Job,
    /// It wanted another rank.
    Misdirected,
    /// It doesn't know the key, or replays somebody else's messages.
    Proof,
    /// It goes on with bytes that were never sent, or are acknowledged.
    Position,
    /// Its connection is older than the last one of the pair.
    Stale,
    /// It did not say who it is in time.
    Silent,
    /// It closed the connection in the middle of a word.
    Truncated,
    /// It closed the connection before it had said who it is; so does a peer that was faster elsewhere.
    Left,
    /// There are too many connections of unknown people.
    Crowd,
}

impl std::fmt::Display for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stranger::Security { theirs, ours } => {
                return write!(f, "its FERRULE_TCP_SECURITY is {theirs}, ours is {ours}");
            }
            Stranger::Garbage => "it does not speak ferrule's protocol",
            Stranger::Version => "it has another version of ferrule",
            Stranger::Settings => {
                "its FERRULE_TCP_EAGER_MAX, FERRULE_TCP_PACKET_MAX, FERRULE_TCP_RECONNECT, FERRULE_TCP_REPLAY_MAX, FERRULE_LANES or FERRULE_LANE_POLICY is not ours"
            }
            Stranger::Job => "it belongs to another job",
            Stranger::Misdirected => "it wanted another rank",
            Stranger::Proof => "it does not know the job key",
            Stranger::Position => "it wants to go on where it can't have stopped",
            Stranger::Stale => "it goes on with a connection that has been replaced",
            Stranger::Silent => "it did not introduce itself in time (FERRULE_TCP_HELLO_TIMEOUT_MS)",
            Stranger::Truncated => "it left in the middle of its introduction",
            Stranger::Left => "it left without introducing itself",
            Stranger::Crowd => "too many connections wait to be introduced (FERRULE_TCP_HALF_OPEN_MAX)",
        })
    }
}

/// The dialler's first message.
pub fn hello(id: &Identity, to: LinkId, nonce: &[u8; 16]) -> [u8; HELLO_BYTES] {
    let me = id.me();
    let called = id.processes.borrow().id(to.peer).expect("an endpoint is a process");
    let mut out = [0; HELLO_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8] = WIRE_VERSION;
    out[9] = to.number;
    out[10] = id.security.code();
    out[12..16].copy_from_slice(&me.rank.0.to_le_bytes());
    out[16..20].copy_from_slice(&called.rank.0.to_le_bytes());
    out[20..28].copy_from_slice(&me.job.0.to_le_bytes());
    out[28..44].copy_from_slice(nonce);
    out[44..48].copy_from_slice(&id.format.to_le_bytes());
    out[48..].copy_from_slice(&called.job.0.to_le_bytes());
    out
}

/// The listener reads a hello; whom it claims to be from, and which link it is for.
///
/// What it says about its security is compared after the challenge, which tells it ours: [`check_security`].
pub fn check_hello(id: &Identity, bytes: &[u8; HELLO_BYTES]) -> Result<LinkId, Stranger> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (from, to) = parties(bytes);
    let me = id.me();
    let known = id.processes.borrow().peer(from);
    match () {
        () if bytes[..8] != MAGIC => Err(Stranger::Garbage),
        () if bytes[8] != WIRE_VERSION => Err(Stranger::Version),
        () if to.job != me.job || !id.has_secret_with(from) => Err(Stranger::Job),
        () if to.rank != me.rank => Err(Stranger::Misdirected),
        () if from == to || bytes[9] >= LINKS_MAX => Err(Stranger::Garbage),
        () if word(44) != id.format => Err(Stranger::Settings),
        () => known.map(|peer| LinkId { peer, number: bytes[9] }).ok_or(Stranger::Garbage),
    }
}

/// Whether the dialler's security is ours.
pub fn check_security(id: &Identity, hello: &[u8; HELLO_BYTES]) -> Result<(), Stranger> {
    same_security(id, hello[10])
}

fn same_security(id: &Identity, code: u8) -> Result<(), Stranger> {
    let (theirs, ours) = (Security::of_code(code).ok_or(Stranger::Garbage)?, id.security);
    if theirs == ours { Ok(()) } else { Err(Stranger::Security { theirs, ours }) }
}

/// What the two ends of a connection know and nobody else does, from which the keys of its records are made; `nonce` is the listener's.
pub fn secret(id: &Identity, hello: &[u8; HELLO_BYTES], nonce: &[u8; 16]) -> Vec<u8> {
    let (from, to) = parties(hello);
    [&id.secret(from, to), &hello[..], nonce].concat()
}

/// Who has dialled, and whom.
fn parties(hello: &[u8; HELLO_BYTES]) -> (ProcId, ProcId) {
    let rank = |at: usize| WorldRank(u32::from_le_bytes(std::array::from_fn(|i| hello[at + i])));
    let job = |at: usize| JobId(u64::from_le_bytes(std::array::from_fn(|i| hello[at + i])));
    (ProcId { job: job(20), rank: rank(12) }, ProcId { job: job(48), rank: rank(16) })
}

/// The listener's answer to a hello.
pub fn challenge(id: &Identity, hello: &[u8; HELLO_BYTES], nonce: &[u8; 16]) -> [u8; CHALLENGE_BYTES] {
    let mut out = [0; CHALLENGE_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..24].copy_from_slice(nonce);
    let security = id.security.code();
    out[24] = security;
    out[25..].copy_from_slice(&mac(id, b'l', hello, nonce, &[security]));
    out
}

/// The dialler checks the listener's answer to its hello; the listener's nonce.
pub fn check_challenge(
    id: &Identity,
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
) -> Result<[u8; 16], Stranger> {
    let nonce = std::array::from_fn(|i| challenge[8 + i]);
    if challenge[..8] != MAGIC {
        return Err(Stranger::Garbage);
    }
    if !same(&challenge[25..], &mac(id, b'l', hello, &nonce, &challenge[24..25])) {
        return Err(Stranger::Proof);
    }
    same_security(id, challenge[24])?;
    Ok(nonce)
}

/// The dialler's proof, and its terms; `nonce` is the listener's.
pub fn proof(id: &Identity, hello: &[u8; HELLO_BYTES], nonce: &[u8; 16], terms: Terms) -> [u8; PROOF_BYTES] {
    let mut out = [0; PROOF_BYTES];
    out[..TERMS_BYTES].copy_from_slice(&terms.encode());
    out[TERMS_BYTES..].copy_from_slice(&mac(id, b'd', hello, nonce, &terms.encode()));
    out
}

/// The listener checks the dialler's proof; `nonce` is that of its challenge.
pub fn check_proof(
    id: &Identity,
    hello: &[u8; HELLO_BYTES],
    nonce: &[u8; 16],
    proof: &[u8; PROOF_BYTES],
) -> Result<Terms, Stranger> {
    let terms = Terms::decode(&proof[..TERMS_BYTES]);
    let good = same(&proof[TERMS_BYTES..], &mac(id, b'd', hello, nonce, &terms.encode()));
    if good { Ok(terms) } else { Err(Stranger::Proof) }
}

/// The listener's verdict and terms; `nonce` is its own.
pub fn answer(
    id: &Identity,
    hello: &[u8; HELLO_BYTES],
    nonce: &[u8; 16],
    verdict: Verdict,
    terms: Terms,
) -> [u8; ANSWER_BYTES] {
    let mut out = [0; ANSWER_BYTES];
    let word = verdict.word();
    out[..8].copy_from_slice(&word);
    out[8..8 + TERMS_BYTES].copy_from_slice(&terms.encode());
    out[8 + TERMS_BYTES..].copy_from_slice(&mac(id, word[0], hello, nonce, &terms.encode()));
    out
}

/// The dialler checks the listener's last word; `nonce` is the listener's.
pub fn check_answer(
    id: &Identity,
    hello: &[u8; HELLO_BYTES],
    nonce: &[u8; 16],
    answer: &[u8; ANSWER_BYTES],
) -> Result<(Verdict, Terms), Stranger> {
    let verdict = [Verdict::Accepted, Verdict::Over].into_iter().find(|v| v.word() == answer[..8]);
    let verdict = verdict.ok_or(Stranger::Garbage)?;
    let terms = Terms::decode(&answer[8..8 + TERMS_BYTES]);
    let good = same(&answer[8 + TERMS_BYTES..], &mac(id, verdict.word()[0], hello, nonce, &terms.encode()));
    if good { Ok((verdict, terms)) } else { Err(Stranger::Proof) }
}

/// `role` tells the four messages apart: `l` and `d` for challenge and proof, the first byte of the verdict for the answer.
/// `said` is what the message says besides, up to `TERMS_BYTES`.
fn mac(id: &Identity, role: u8, hello: &[u8; HELLO_BYTES], nonce: &[u8; 16], said: &[u8]) -> [u8; 16] {
    let (from, to) = parties(hello);
    let secret = id.secret(from, to);
    let mut text = [0; 2 + HELLO_BYTES + 16 + TERMS_BYTES];
    text[0] = role;
    text[2..2 + HELLO_BYTES].copy_from_slice(hello);
    text[2 + HELLO_BYTES..][..16].copy_from_slice(nonce);
    text[2 + HELLO_BYTES + 16..][..said.len()].copy_from_slice(said);
    let mut out = [0; 16];
    for half in 0..2u8 {
        text[1] = half;
        out[usize::from(half) * 8..][..8].copy_from_slice(&siphash(secret, &text).to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::processes::Processes;

    fn id(me: u32) -> Identity {
        let me = ProcId { job: JobId(77), rank: WorldRank(me) };
        Identity {
            processes: Processes::shared(me, 4),
            key: [9; 16],
            format: 5,
            security: Security::Mac,
            ids: Ids::default(),
            others: HashMap::new(),
        }
    }

    /// Link 1 with a peer.
    fn link(peer: u32) -> LinkId {
        LinkId { peer: Peer(peer), number: 1 }
    }

    const TERMS: Terms = Terms { connection: 3, received: 1 << 40 };

    #[test]
    fn only_members_of_the_job_agree() {
        let (dialler, listener) = (id(1), id(2));
        let h = hello(&dialler, link(2), &[1; 16]);
        assert_eq!(check_hello(&listener, &h), Ok(link(1)));
        let c = challenge(&listener, &h, &[2; 16]);
        assert_eq!(check_challenge(&dialler, &h, &c), Ok([2; 16]));
        let p = proof(&dialler, &h, &[2; 16], TERMS);
        assert_eq!(check_proof(&listener, &h, &[2; 16], &p), Ok(TERMS));
        assert_eq!(check_proof(&listener, &h, &[3; 16], &p), Err(Stranger::Proof), "a replayed proof");
        let a = answer(&listener, &h, &[2; 16], Verdict::Accepted, TERMS);
        assert_eq!(check_answer(&dialler, &h, &[2; 16], &a), Ok((Verdict::Accepted, TERMS)));
        assert_eq!(check_answer(&dialler, &h, &[3; 16], &a), Err(Stranger::Proof), "a replayed answer");
        let spy = Identity { key: [8; 16], ..id(1) };
        assert_eq!(check_challenge(&spy, &h, &c), Err(Stranger::Proof));
        assert_eq!(check_proof(&spy, &h, &[2; 16], &p), Err(Stranger::Proof));
        let other = hello(&dialler, link(2), &[5; 16]);
        assert_eq!(check_challenge(&dialler, &other, &c), Err(Stranger::Proof), "a replayed challenge");
    }

    #[test]
    fn both_sides_know_for_certain_that_their_security_differs() {
        let (dialler, listener) = (id(1), Identity { security: Security::Encrypt, ..id(2) });
        let h = hello(&dialler, link(2), &[1; 16]);
        assert_eq!(check_hello(&listener, &h), Ok(link(1)));
        let (mac, encrypt) = (Security::Mac, Security::Encrypt);
        assert_eq!(check_security(&listener, &h), Err(Stranger::Security { theirs: mac, ours: encrypt }));
        let c = challenge(&listener, &h, &[2; 16]);
        let differs = Stranger::Security { theirs: encrypt, ours: mac };
        assert_eq!(check_challenge(&dialler, &h, &c), Err(differs));
        assert_eq!(differs.to_string(), "its FERRULE_TCP_SECURITY is encrypt, ours is mac");
        // Whoever changes either on its way is found out, whatever he changes it to.
        for code in 0..=3 {
            let (mut changed, mut forged) = (h, c);
            changed[10] = code;
            forged[24] = code;
            let (answer, listener) = (challenge(&id(2), &changed, &[2; 16]), id(2));
            let is_true = code == mac.code();
            assert_eq!(check_security(&listener, &changed).is_ok(), is_true);
            assert_eq!(
                check_challenge(&dialler, &h, &answer),
                if is_true { Ok([2; 16]) } else { Err(Stranger::Proof) }
            );
            let wanted = if code == encrypt.code() { differs } else { Stranger::Proof };
            assert_eq!(check_challenge(&dialler, &h, &forged), Err(wanted));
        }
    }

    #[test]
    fn secrets_of_connections_differ() {
        let h = hello(&id(1), link(2), &[1; 16]);
        let base = secret(&id(1), &h, &[2; 16]);
        assert_eq!(secret(&id(2), &h, &[2; 16]), base, "both sides have the same one");
        assert_ne!(secret(&id(1), &h, &[3; 16]), base);
        assert_ne!(secret(&id(1), &hello(&id(1), link(2), &[4; 16]), &[2; 16]), base);
        assert_ne!(secret(&id(1), &hello(&id(1), link(3), &[1; 16]), &[2; 16]), base);
        assert_ne!(secret(&Identity { key: [8; 16], ..id(1) }, &h, &[2; 16]), base);
        assert_ne!(
            secret(&id(1), &hello(&Identity { security: Security::Encrypt, ..id(1) }, link(2), &[1; 16]), &[2; 16]),
            base
        );
    }

    #[test]
    fn terms_and_verdicts_cannot_be_changed() {
        let (dialler, listener) = (id(1), id(2));
        let h = hello(&dialler, link(2), &[1; 16]);
        let (p, a) = (proof(&dialler, &h, &[2; 16], TERMS), answer(&listener, &h, &[2; 16], Verdict::Accepted, TERMS));
        for at in 0..PROOF_BYTES {
            let mut wrong = p;
            wrong[at] ^= 1;
            assert_eq!(check_proof(&listener, &h, &[2; 16], &wrong), Err(Stranger::Proof), "byte {at}");
        }
        for at in 0..ANSWER_BYTES {
            let mut wrong = a;
            wrong[at] ^= 1;
            assert!(check_answer(&dialler, &h, &[2; 16], &wrong).is_err(), "byte {at}");
        }
        let mut over = a;
        over[..8].copy_from_slice(&Verdict::Over.word());
        assert_eq!(check_answer(&dialler, &h, &[2; 16], &over), Err(Stranger::Proof));
    }

    #[test]
    fn whoever_does_not_know_the_endpoint_id_is_refused() {
        let (mut dialler, mut listener) = (id(1), id(2));
        listener.ids.own.insert(WorldRank(1), [5; 16]);
        let h = hello(&dialler, link(2), &[1; 16]);
        let c = challenge(&listener, &h, &[2; 16]);
        assert_eq!(check_challenge(&dialler, &h, &c), Err(Stranger::Proof));
        dialler.ids.theirs.insert(WorldRank(2), [6; 16]);
        assert_eq!(check_challenge(&dialler, &h, &c), Err(Stranger::Proof));
        dialler.ids.theirs.insert(WorldRank(2), [5; 16]);
        let nonce = check_challenge(&dialler, &h, &c).unwrap();
        let p = proof(&dialler, &h, &nonce, TERMS);
        assert_eq!(check_proof(&listener, &h, &[2; 16], &p), Ok(TERMS));
        listener.ids.own.insert(WorldRank(1), [7; 16]);
        assert_eq!(check_proof(&listener, &h, &[2; 16], &p), Err(Stranger::Proof));
    }

    #[test]
    fn strangers_are_told_apart() {
        let good = hello(&id(1), link(2), &[1; 16]);
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            check_hello(&id(2), &bytes)
        };
        assert_eq!(with(0, 0), Err(Stranger::Garbage));
        assert_eq!(with(8, 99), Err(Stranger::Version));
        assert_eq!(with(9, 0), Ok(LinkId { number: 0, ..link(1) }));
        assert_eq!(with(9, LINKS_MAX), Err(Stranger::Garbage));
        assert_eq!(with(12, 9), Err(Stranger::Garbage));
        assert_eq!(with(12, 2), Err(Stranger::Garbage));
        assert_eq!(with(16, 3), Err(Stranger::Misdirected));
        assert_eq!(with(20, 0), Err(Stranger::Job));
        assert_eq!(with(44, 6), Err(Stranger::Settings));
        assert_eq!(with(48, 0), Err(Stranger::Job));
    }

    #[test]
    fn processes_of_two_jobs_agree_by_their_own_secret() {
        let of = |job| ProcId { job: JobId(job), rank: WorldRank(1) };
        let member = |me: ProcId, other: ProcId, secret: u8| {
            let processes = Processes::shared(me, 4);
            let peer = processes.borrow_mut().learn(other).unwrap();
            let identity = Identity { processes, others: HashMap::from([(other, [secret; 16])]), ..id(1) };
            (identity, LinkId { peer, number: 0 })
        };
        let ((dialler, there), (listener, back)) = (member(of(1), of(2), 5), member(of(2), of(1), 5));
        let h = hello(&dialler, there, &[1; 16]);
        assert_eq!(check_hello(&listener, &h), Ok(back));
        let c = challenge(&listener, &h, &[2; 16]);
        let nonce = check_challenge(&dialler, &h, &c).unwrap();
        let p = proof(&dialler, &h, &nonce, TERMS);
        assert_eq!(check_proof(&listener, &h, &[2; 16], &p), Ok(TERMS));
        // The key of the job is no help, nor is another connection's.
        let (wrong, _) = member(of(2), of(1), 9);
        assert_eq!(check_challenge(&dialler, &h, &challenge(&wrong, &h, &[2; 16])), Err(Stranger::Proof));
        let unconnected = Identity { others: HashMap::new(), ..listener };
        assert_eq!(check_hello(&unconnected, &h), Err(Stranger::Job));
        assert_eq!(check_challenge(&dialler, &h, &challenge(&unconnected, &h, &[2; 16])), Err(Stranger::Proof));
    }
}
