//! Fuzz target: selectors, expressions, amounts, URLs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::text(bytes));
