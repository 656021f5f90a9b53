//! See `fuzz::qmp`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::qmp::run(data));
