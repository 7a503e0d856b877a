//! Fuzz target: a CustomResourceDefinition and an object of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::definition(bytes));
