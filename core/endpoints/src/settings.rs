//! What can be set: limits, gates, periods.

use std::time::Duration;

use api::{FeatureGates, Gate};

/// The most endpoints of a slice unless set otherwise; Kubernetes default.
pub const MAX_ENDPOINTS_PER_SLICE: u64 = 100;
/// How many Services are synced at a time unless set otherwise; Kubernetes default.
pub const CONCURRENT_SYNCS: u64 = 5;

/// What decides the content of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most endpoints that the controller puts into a slice.
    pub max_endpoints_per_slice: usize,
    /// Gate `EndpointSliceTerminatingCondition`: terminating pods are listed, all three conditions are written.
    pub terminating_condition: bool,
    /// Gate `PreferSameTrafficDistribution`: `PreferSameZone` and `PreferSameNode` are understood.
    pub prefer_same: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new(&FeatureGates::default())
    }
}

impl Settings {
    /// Returns the default limits with these gates.
    pub fn new(gates: &FeatureGates) -> Settings {
        Settings {
            max_endpoints_per_slice: MAX_ENDPOINTS_PER_SLICE as usize,
            terminating_condition: gates.enabled(Gate::EndpointSliceTerminatingCondition),
            prefer_same: gates.enabled(Gate::PreferSameTrafficDistribution),
        }
    }
}

/// What decides when a Service is synced, beside what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What decides the content of slices.
    pub settings: Settings,
    /// How many Services are synced at a time.
    pub concurrent_syncs: usize,
    /// How long changes of pods are collected before a Service is synced.
    pub batch: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config { settings: Settings::default(), concurrent_syncs: CONCURRENT_SYNCS as usize, batch: Duration::ZERO }
    }
}

/// A flag with a value out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} must be between {min} and {max}, not {value}")]
pub struct OutOfRange {
    /// The flag, without dashes.
    pub flag: &'static str,
    /// The least allowed value.
    pub min: u64,
    /// The greatest allowed value.
    pub max: u64,
    /// What was given.
    pub value: u64,
}

impl Config {
    /// Returns the configuration with these values of the command line, or which flag is out of its range.
    pub fn new(
        gates: &FeatureGates,
        max_endpoints_per_slice: u64,
        concurrent_syncs: u64,
        batch: Duration,
    ) -> Result<Config, OutOfRange> {
        let max = within("max-endpoints-per-slice", 1, 1000, max_endpoints_per_slice)?;
        let concurrent_syncs = within("concurrent-service-endpoint-syncs", 1, 50, concurrent_syncs)?;
        Ok(Config { settings: Settings { max_endpoints_per_slice: max, ..Settings::new(gates) }, concurrent_syncs, batch })
    }
}

fn within(flag: &'static str, min: u64, max: u64, value: u64) -> Result<usize, OutOfRange> {
    if (min..=max).contains(&value) { Ok(value as usize) } else { Err(OutOfRange { flag, min, max, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_named_with_its_bounds() {
        let config = |max, syncs| Config::new(&FeatureGates::default(), max, syncs, Duration::ZERO);
        assert_eq!(config(100, 5), Ok(Config::default()));
        assert!(config(1, 1).is_ok() && config(1000, 50).is_ok());
        let error = config(0, 5).unwrap_err().to_string();
        assert_eq!(error, "--max-endpoints-per-slice must be between 1 and 1000, not 0");
        let error = config(100, 51).unwrap_err().to_string();
        assert_eq!(error, "--concurrent-service-endpoint-syncs must be between 1 and 50, not 51");
    }
}
