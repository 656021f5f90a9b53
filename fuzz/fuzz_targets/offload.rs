//! See `fuzz::offload`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::offload::run(data));
