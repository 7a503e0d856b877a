//! Fuzz target: an AdmissionReview as an API server sends it to the webhook.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::review(bytes));
