//! What several vector files have in common.

use std::collections::BTreeMap;

use api::{FeatureGates, Gate, ProbeType};
use serde::Deserialize;

/// A case; its name is in the verdict already.
pub(crate) type Case<Given, Expect> = testkit::Case<Given, Expect>;

/// Reads a probe type as the vectors write it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TypeName {
    Liveness,
    Readiness,
    Startup,
}

impl TypeName {
    pub(crate) fn probe_type(self) -> ProbeType {
        match self {
            TypeName::Liveness => ProbeType::Liveness,
            TypeName::Readiness => ProbeType::Readiness,
            TypeName::Startup => ProbeType::Startup,
        }
    }
}

pub(crate) fn type_name(probe: ProbeType) -> &'static str {
    match probe {
        ProbeType::Liveness => "liveness",
        ProbeType::Readiness => "readiness",
        ProbeType::Startup => "startup",
    }
}

pub(crate) fn gates(chosen: &BTreeMap<String, bool>) -> Result<FeatureGates, String> {
    chosen.iter().try_fold(FeatureGates::default(), |gates, (name, on)| {
        Ok(gates.with(Gate::from_name(name).ok_or_else(|| format!("no gate {name}"))?, *on))
    })
}
