//! See `fuzz::shm_ring`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::shm_ring::run(data));
