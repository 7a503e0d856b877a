//! Feature gates: one table, one parser, the syntax of Kubernetes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A feature that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// `terminating` and `serving` in EndpointSlices; KEP-1672.
    EndpointSliceTerminatingCondition,
    /// `PreferSameZone` and `PreferSameNode` as traffic distribution.
    PreferSameTrafficDistribution,
    /// A container that refuses connections is asked every few milliseconds until it listens.
    ProbeOnListen,
    /// `timeoutMilliseconds` of probes; KEP-3066.
    SubSecondProbeTimeouts,
    /// `periodMilliseconds` and `initialDelayMilliseconds` of probes; KEP-3066.
    SubSecondProbes,
    /// The agent beats as often as the latency profile of its plane asks for.
    WorkerLatencyProfiles,
}

impl Gate {
    /// Every gate, by name.
    pub const ALL: [Gate; 6] = [
        Gate::EndpointSliceTerminatingCondition,
        Gate::PreferSameTrafficDistribution,
        Gate::ProbeOnListen,
        Gate::SubSecondProbeTimeouts,
        Gate::SubSecondProbes,
        Gate::WorkerLatencyProfiles,
    ];

    /// Returns the name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Gate::EndpointSliceTerminatingCondition => "EndpointSliceTerminatingCondition",
            Gate::PreferSameTrafficDistribution => "PreferSameTrafficDistribution",
            Gate::ProbeOnListen => "ProbeOnListen",
            Gate::SubSecondProbeTimeouts => "SubSecondProbeTimeouts",
            Gate::SubSecondProbes => "SubSecondProbes",
            Gate::WorkerLatencyProfiles => "WorkerLatencyProfiles",
        }
    }

    /// Returns whether the gate is on when nobody says otherwise.
    pub const fn default_on(self) -> bool {
        !matches!(self, Gate::SubSecondProbeTimeouts)
    }

    /// Returns the gate of that name.
    pub fn from_name(name: &str) -> Option<Gate> {
        Gate::ALL.into_iter().find(|gate| gate.name() == name)
    }
}

/// Which gates are on.
///
/// Written and read as `A=true,B=false`; what is not named has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    chosen: BTreeMap<Gate, bool>,
}

impl FeatureGates {
    /// Returns whether the gate is on.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.chosen.get(&gate).copied().unwrap_or_else(|| gate.default_on())
    }

    /// Returns these gates with one of them set.
    pub fn with(mut self, gate: Gate, on: bool) -> FeatureGates {
        self.chosen.insert(gate, on);
        self
    }
}

/// Why a list of feature gates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// The name is not one of ours.
    #[error("unknown feature gate {0:?} (known: {known})", known = known_gates())]
    Unknown(String),
    /// The value is not a boolean.
    #[error("feature gate {gate}: bad value {value:?}, use true or false (known: {known})", known = known_gates())]
    BadValue {
        /// The gate.
        gate: String,
        /// What was given.
        value: String,
    },
    /// There is no `=`.
    #[error("feature gate {0:?}: missing value, write {0}=true or {0}=false (known: {known})", known = known_gates())]
    MissingValue(String),
}

fn known_gates() -> String {
    Gate::ALL.map(|gate| format!("{}={}", gate.name(), gate.default_on())).join(", ")
}

impl FromStr for FeatureGates {
    type Err = GatesError;

    fn from_str(text: &str) -> Result<FeatureGates, GatesError> {
        let mut gates = FeatureGates::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| GatesError::MissingValue(item.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let gate = Gate::from_name(name).ok_or_else(|| GatesError::Unknown(name.to_owned()))?;
            // The spellings of Go's ParseBool, which Kubernetes uses.
            let on = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => return Err(GatesError::BadValue { gate: name.to_owned(), value: value.to_owned() }),
            };
            gates.chosen.insert(gate, on);
        }
        Ok(gates)
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Gate::ALL.map(|gate| format!("{}={}", gate.name(), self.enabled(gate)));
        out.write_str(&all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_overrides_the_defaults() {
        let gates: FeatureGates = "SubSecondProbes=false, SubSecondProbeTimeouts=true".parse().unwrap();
        assert!(!gates.enabled(Gate::SubSecondProbes));
        assert!(gates.enabled(Gate::SubSecondProbeTimeouts));
        assert!(gates.enabled(Gate::EndpointSliceTerminatingCondition));
        assert_eq!(gates.to_string().parse::<FeatureGates>().unwrap().to_string(), gates.to_string());
    }

    #[test]
    fn an_unknown_gate_is_an_error_that_lists_the_known_ones() {
        let error = "Foo=true".parse::<FeatureGates>().unwrap_err().to_string();
        assert!(error.contains("\"Foo\"") && Gate::ALL.iter().all(|gate| error.contains(gate.name())), "{error}");
        let error = "SubSecondProbes=maybe".parse::<FeatureGates>().unwrap_err().to_string();
        assert!(error.contains("maybe") && error.contains("SubSecondProbeTimeouts"), "{error}");
        assert!("SubSecondProbes".parse::<FeatureGates>().is_err());
    }
}
