//! Fuzz target: PodProbeMarkers, pods and a NodePodProbe as another admission may have stored them, JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::markers(bytes));
