//! One thread of a program that calls MPI, and one of the library that comes in between: never both inside, and neither waits for ever. A process of its own, as the mode is the
//! process's.

use mpi::{bias, cs};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use sys::wake::{Bell, sleep_until_readable};

/// Changed inside only, in two steps.
struct Shared(Cell<u64>, Cell<u64>);

// SAFETY: only touched inside the critical section, which is what this test is about.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(Cell::new(0), Cell::new(0));

/// Counts in two steps; with `long` the other thread has time to come in between, if it may.
fn bump(long: bool) {
    let before = SHARED.0.get();
    SHARED.0.set(before + 1);
    if long {
        std::thread::yield_now();
        (0..5000).for_each(|_| std::hint::spin_loop());
    }
    std::hint::black_box(&SHARED);
    assert_eq!(SHARED.1.replace(before + 1), before, "both threads are inside");
}

/// A call of the program; every so often with a callback that calls again, or with a wait.
fn call(i: u64) {
    // SAFETY: the caller is outside, or in the callback below, whose caller doesn't use its section.
    let mut inside = match unsafe { cs::enter_biased() } {
        Some(inside) if i.is_multiple_of(2) => inside,
        // SAFETY: as above.
        _ => unsafe { cs::enter() },
    };
    bump(i % 16 == 3);
    if i % 64 == 1 {
        call(0);
    }
    if i.is_multiple_of(256) {
        cs::released(inside.section(), std::thread::yield_now);
    }
}

#[test]
fn a_thread_of_the_library_comes_in_between_calls() {
    const VISITS: u64 = 1000;
    let bell = Arc::new(Bell::new().expect("a descriptor"));
    bias::begin(Arc::clone(&bell));
    {
        // SAFETY: nobody is inside.
        let mut inside = unsafe { cs::enter_always() };
        cs::set_locking(inside.section(), false);
    }
    if bias::mode() != bias::Mode::Biased {
        assert!(!sys::wake::register_barrier(), "the kernel has membarrier");
    }
    let (over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut visits = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                call(calls.fetch_add(1, Ordering::Relaxed));
            }
        });
        while visits < VISITS {
            while !bias::claim() {
                assert!(sleep_until_readable(bell.as_fd(), Duration::from_secs(60)), "a call has left without a word");
                bell.silence();
            }
            for _ in 0..3 {
                // SAFETY: this thread is outside, and the claim keeps calls without the lock outside.
                let inside = unsafe { cs::enter_always() };
                bump(visits % 16 == 3);
                drop(inside);
            }
            bias::release();
            visits += 1;
            // The program computes for a while, or calls.
            if visits.is_multiple_of(2) {
                let before = calls.load(Ordering::Relaxed);
                while calls.load(Ordering::Relaxed) < before + 20 {
                    std::thread::yield_now();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(SHARED.0.get(), SHARED.1.get());
    assert!(SHARED.0.get() >= 3 * VISITS + calls.load(Ordering::Relaxed), "a change got lost");
    bias::end();
}
