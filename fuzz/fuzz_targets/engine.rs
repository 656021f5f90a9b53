//! See `fuzz::engine`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::engine::run(data));
