//! See `fuzz::ucx_hello`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::ucx_hello::run(data));
