//! temp
#![no_main]
use std::sync::LazyLock;
static NAME: LazyLock<String> = LazyLock::new(|| std::env::var("FUZZ_TARGET").unwrap());
libfuzzer_sys::fuzz_target!(|data: &[u8]| fencegate_fuzz::run(&NAME, data));
