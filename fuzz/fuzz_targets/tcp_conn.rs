//! See `fuzz::tcp_conn`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tcp_conn::run(data));
