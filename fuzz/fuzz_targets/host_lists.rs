//! See `fuzz::host_lists`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::host_lists::run(data));
