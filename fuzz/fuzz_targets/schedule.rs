//! See `fuzz::schedule`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::schedule::run(data));
