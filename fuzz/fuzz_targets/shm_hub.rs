//! See `fuzz::shm_hub`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::shm_hub::run(data));
