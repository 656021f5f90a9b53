//! See `fuzz::region`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::region::run(data));
