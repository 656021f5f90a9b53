//! See `fuzz::virtual_machines`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::virtual_machines::run(data));
