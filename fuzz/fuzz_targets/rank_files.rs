//! See `fuzz::rank_files`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rank_files::run(data));
