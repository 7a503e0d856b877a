//! Fuzz target: an object as a client sends it, protobuf.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::protobuf(bytes));
