#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oscar_fuzz::checks::record(data));
