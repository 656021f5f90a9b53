//! See `fuzz::slurm_lists`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::slurm_lists::run(data));
