//! Replays the committed inputs, mutations of them and random bytes through every target: what `make fuzz-smoke` does.

use std::path::Path;
use std::time::{Duration, Instant};
use testkit::rng::Rng;

/// Milliseconds for the random inputs of each target (`FUZZ_SMOKE_MS`).
fn budget() -> Duration {
    let given = std::env::var("FUZZ_SMOKE_MS").ok().and_then(|text| text.parse().ok());
    Duration::from_millis(given.unwrap_or(1000))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a committed input")).collect()
}

/// A new input: random, or a committed one with some bytes changed, cut or repeated.
fn invent(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    if corpus.is_empty() || rng.chance(20) {
        return (0..rng.below(400)).map(|_| rng.bits() as u8).collect();
    }
    let mut bytes = corpus[rng.below(corpus.len())].clone();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(&corpus[rng.below(corpus.len())]),
            2 => bytes.insert(at, rng.bits() as u8),
            _ if at < bytes.len() => bytes[at] = rng.bits() as u8,
            _ => {}
        }
    }
    bytes.truncate(4096);
    bytes
}

/// A panic names target and seed; the same seed makes the same input.
#[test]
fn no_input_breaks_a_target() {
    let mut summary = String::new();
    for (name, run) in fuzz::TARGETS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "target {name} has no committed inputs");
        corpus.iter().for_each(|bytes| run(bytes));
        let (start, mut seed) = (Instant::now(), 0);
        while start.elapsed() < budget() {
            let input = invent(&mut Rng::new(seed), &corpus);
            let outcome = std::panic::catch_unwind(|| run(&input));
            assert!(outcome.is_ok(), "target {name}, seed {seed}, input {input:?}");
            seed += 1;
        }
        summary += &format!("fuzz-smoke {name}: {} committed and {seed} random inputs\n", corpus.len());
    }
    eprint!("{summary}");
}
