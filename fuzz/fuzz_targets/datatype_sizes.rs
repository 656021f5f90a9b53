//! See `fuzz::datatype_sizes`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::datatype_sizes::run(data));
