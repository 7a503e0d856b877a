//! Fuzz target: an object as a client sends it, JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::object(bytes));
