//! Topology hints: which consumers should prefer an endpoint.
//!
//! Hints are a function of the endpoint and the Service's mode. They are compared after packing: they can turn an unchanged
//! slice into an update but never move an endpoint. An endpoint that is not ready carries none in a slice that is written,
//! but a stale hint of such an endpoint is no reason to write: consumers ignore it.

use api::Service;
use api::endpointslice::{Endpoint, EndpointHints, ForName};

use crate::record::Record;
use crate::settings::Settings;

/// The older annotation that asks for hints by share; it has precedence when present.
pub const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The annotation that asks for hints by share.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// Which hints the endpoints of a Service carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None.
    None,
    /// Its zone.
    Zone,
    /// Its zone and its node.
    Node,
    /// By the share of each zone in the cluster's capacity: asked for by annotation, not provided, written as `None`.
    Auto,
}

impl Mode {
    /// Returns the mode of a Service.
    pub fn of(service: &Service, settings: &Settings) -> Mode {
        let annotations = &service.metadata.annotations;
        let asked = annotations.get(TOPOLOGY_AWARE_HINTS).or_else(|| annotations.get(TOPOLOGY_MODE));
        if asked.is_some_and(|value| value == "Auto" || value == "auto") {
            return Mode::Auto;
        }
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose") => Mode::Zone,
            Some("PreferSameZone") if settings.prefer_same => Mode::Zone,
            Some("PreferSameNode") if settings.prefer_same => Mode::Node,
            _ => Mode::None,
        }
    }

    /// Returns the hints that an endpoint should carry.
    pub fn hints(self, record: &Record) -> Option<EndpointHints> {
        let ready = record.conditions.is_ready();
        self.wanted(ready, record.zone.as_deref(), record.node.as_deref())
    }

    fn wanted(self, ready: bool, zone: Option<&str>, node: Option<&str>) -> Option<EndpointHints> {
        let (zones, nodes) = match self {
            Mode::Zone if ready => (zone, None),
            Mode::Node if ready => (zone, node),
            _ => (None, None),
        };
        let list = |name: Option<&str>| name.map(ForName::from).into_iter().collect::<Vec<_>>();
        let hints = EndpointHints { for_zones: list(zones), for_nodes: list(nodes) };
        (hints != EndpointHints::default()).then_some(hints)
    }

    /// Returns whether the stored hints of an endpoint are a reason to write its slice; the rest of it is as wanted.
    pub fn wants_write(self, stored: &Endpoint) -> bool {
        let ready = stored.conditions.is_ready();
        match self {
            Mode::None | Mode::Auto => stored.hints.is_some(),
            Mode::Zone | Mode::Node if !ready => false,
            Mode::Zone | Mode::Node => {
                let wanted = self.wanted(ready, stored.zone.as_deref(), stored.node_name.as_deref()).unwrap_or_default();
                stored.hints.as_ref().unwrap_or(&EndpointHints::default()) != &wanted
            }
        }
    }
}
