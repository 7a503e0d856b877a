//! Fuzz target: an object and a patch of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::patch(bytes));
