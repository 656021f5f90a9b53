//! See `fuzz::shm_inbox`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::shm_inbox::run(data));
