//! See `fuzz::command_line`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::command_line::run(data));
