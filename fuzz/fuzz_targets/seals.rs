//! libFuzzer's program for the harness of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fencegate_fuzz::run("seals", data));
