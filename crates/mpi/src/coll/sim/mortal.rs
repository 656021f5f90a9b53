//! Schedules that are run by processes which die at any access to memory, one after another: each goes on where the one before has stopped, and the data are right.

use super::super::portable::remote::{End, Memory, Position, Progress, RunId, Runner, reconcile};
use super::super::portable::{Channel, Identity, Portable};
use super::super::span::{BYTES, Span};
use super::super::team::Team;
use super::*;
use crate::datatype::{self, Name};
use crate::op::{self, Predefined};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// What is left when a process dies.
#[derive(Default)]
struct Left {
    progress: Vec<Progress>,
    ended: Vec<bool>,
    /// Rank, position, address, bytes.
    journal: Option<(usize, Position, u64, Vec<u8>)>,
}

/// Memory of a process that dies after some accesses.
struct Mortal<'a> {
    left: &'a mut Left,
    /// By run.
    ranks: Vec<usize>,
    schedules: &'a [Rc<Portable>],
    breath: usize,
}

impl Mortal<'_> {
    fn breathe(&mut self) {
        self.breath = self.breath.checked_sub(1).unwrap_or_else(|| resume_unwind(Box::new("dead")));
    }

    fn write(&mut self, rank: usize, address: u64, from: &[u8]) {
        use super::super::portable::regions::Access::Write;
        assert!(self.schedules[rank].announces(Write, address, from.len()));
        let into = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // The last breath may come in the middle of a write.
        let (first, second) = from.split_at(from.len() / 2);
        // SAFETY: a step names it, and the test keeps its memory until the end.
        unsafe { std::ptr::copy(first.as_ptr(), into, first.len()) };
        self.breathe();
        // SAFETY: as above.
        unsafe { std::ptr::copy(second.as_ptr(), into.add(first.len()), second.len()) };
    }
}

impl Memory for Mortal<'_> {
    fn get(&mut self, _: RunId, address: u64, into: &mut [u8]) -> Result {
        self.breathe();
        let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn put(&mut self, run: RunId, address: u64, from: &[u8]) -> Result {
        self.write(self.ranks[run], address, from);
        Ok(())
    }

    fn put_once(&mut self, run: RunId, position: Position, address: u64, from: &[u8]) -> Result {
        let rank = self.ranks[run];
        self.left.journal = Some((rank, position, address, from.to_vec()));
        self.breathe();
        self.write(rank, address, from);
        self.left.progress[rank].position = Position { part: position.part + 1, ..position };
        self.breathe();
        self.left.journal = None;
        Ok(())
    }

    fn came_to(&mut self, run: RunId, position: Position) {
        self.breathe();
        self.left.progress[self.ranks[run]].position = position;
    }

    fn counted(&mut self, (run, endpoint): End, sends: bool, count: u64) {
        self.breathe();
        self.left.progress[self.ranks[run]].messages[endpoint as usize][usize::from(sends)] = count;
    }
}

/// One life: it does all that is left, unless it dies.
fn live(schedules: &[Rc<Portable>], left: &mut Left, breath: usize) {
    if let Some((rank, position, address, bytes)) = left.journal.take()
        && left.progress[rank].position == position
    {
        let into = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: as in `Mortal::write`.
        unsafe { std::ptr::copy(bytes.as_ptr(), into, bytes.len()) };
        left.progress[rank].position.part += 1;
    }
    let ranks: Vec<usize> = (0..schedules.len()).filter(|rank| !left.ended[*rank]).collect();
    let identity =
        |rank: usize| Identity { process: rank as u64, channels: [Channel { context: 1, tag: 2 }; 2], round: 0 };
    let mut runs: Vec<_> =
        ranks.iter().map(|&rank| (schedules[rank].clone(), identity(rank), left.progress[rank].clone())).collect();
    reconcile(&mut runs);
    ranks.iter().zip(&runs).for_each(|(&rank, run)| left.progress[rank] = run.2.clone());
    let mut memory = Mortal { left, ranks: ranks.clone(), schedules, breath };
    let mut runner = Runner::default();
    for (schedule, identity, progress) in runs {
        runner.add(schedule, identity, progress, &mut memory).unwrap();
    }
    let mut ended = Vec::new();
    runner.advance(&mut memory, |run, outcome| ended.push((run, outcome)));
    for (run, outcome) in ended {
        outcome.unwrap();
        memory.left.ended[ranks[run]] = true;
    }
}

#[test]
fn whoever_dies_is_replaced() {
    const RANKS: usize = 3;
    // More than two chunks; the vectors are moved within themselves by less than a chunk.
    const ITEMS: usize = 20_000;
    const SHIFT: usize = 100;
    let double = datatype::predefined(Name::MPI_DOUBLE);
    let start = |rank: usize, i: usize| 1.0 / (1 + rank * 7 + i % 1000) as f64 + i as f64;
    let mut memory: Vec<Vec<f64>> = vec![vec![0.0; ITEMS + SHIFT]; RANKS];
    let builders: Vec<Builder> = (0..RANKS)
        .map(|rank| {
            let mut b = Builder::default();
            b.set_reduction(op::predefined(Predefined::Sum), double);
            let own = Span { ptr: memory[rank].as_mut_ptr().cast(), count: ITEMS, shape: b.shape(double) };
            let from = b.temp_like(own);
            let team = Team::new(rank, RANKS);
            for _ in 0..2 {
                b.recv(&team, team.before(1), from);
                b.send(&team, team.after(1), own);
                b.fence();
                b.reduce(from, own);
            }
            let bytes = |first: usize| Span { ptr: own.slice(first, 1).ptr, count: ITEMS * 8, shape: BYTES };
            b.copy(bytes(0), bytes(SHIFT));
            b
        })
        .collect();
    let schedules: Vec<Rc<Portable>> = builders
        .iter()
        .map(|b| Portable::new(b.schedule(), b.objects(), Identity::default(), |_, peer| u64::from(peer)).unwrap())
        .map(Rc::new)
        .collect();
    let mut random = 88_172_645_463_325_252_u64;
    // A message of three chunks is six accesses and the note that it has arrived: some lives have to be that long.
    for most in [6, 9, 20, 60, 1000] {
        memory.iter_mut().enumerate().for_each(|(rank, vector)| {
            vector.iter_mut().enumerate().for_each(|(i, item)| *item = start(rank, i));
        });
        let progress =
            schedules.iter().map(|s| Progress { messages: vec![[0; 2]; s.endpoint_count()], ..Progress::default() });
        let mut left = Left { progress: progress.collect(), ended: vec![false; RANKS], journal: None };
        let mut lives = 0;
        while !left.ended.iter().all(|ended| *ended) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let breath = 3 + (random >> 20) as usize % most;
            let life = catch_unwind(AssertUnwindSafe(|| live(&schedules, &mut left, breath)));
            assert!(life.is_ok() || life.is_err_and(|what| what.is::<&str>()), "a life has ended by a failure");
            lives += 1;
            assert!(lives < 100_000, "nobody gets on");
        }
        let before = |rank: usize| (rank + RANKS - 1) % RANKS;
        let once = |rank: usize, i: usize| start(before(rank), i) + start(rank, i);
        for (rank, vector) in memory.iter().enumerate() {
            for i in 0..ITEMS {
                let twice = once(before(rank), i) + once(rank, i);
                assert!(vector[i + SHIFT].to_bits() == twice.to_bits(), "rank {rank}, item {i}, {lives} lives");
            }
        }
        assert!(most == 1000 || lives > 3);
    }
}
