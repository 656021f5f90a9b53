//! See `fuzz::packet_table`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::packet_table::run(data));
