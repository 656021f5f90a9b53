//! See `fuzz::tcp_hello`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tcp_hello::run(data));
