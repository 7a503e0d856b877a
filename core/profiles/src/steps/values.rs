//! The values of one component, as steps and answers carry them.

use std::fmt;
use std::time::Duration;

use api::duration;
use serde_json::{Value, json};

use super::{Component, Fields, StepError};
use crate::plan::Step;
use crate::profile::{Profile, REPORT_FREQUENCY};

/// The three settings of a kubelet that a profile is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeletValues {
    /// How often the status is computed.
    pub update_frequency: Duration,
    /// How often an unchanged status is posted.
    pub report_frequency: Duration,
    /// The duration of the Lease, which is renewed every quarter of it.
    pub lease_duration: Duration,
}

impl KubeletValues {
    /// Returns the settings for a heartbeat interval: the Lease is tied to it.
    pub fn of(heartbeat: Duration) -> KubeletValues {
        let lease_duration = api::lease::duration_of(heartbeat);
        KubeletValues { update_frequency: heartbeat, report_frequency: REPORT_FREQUENCY, lease_duration }
    }
}

/// The values of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentValues {
    /// Of a kubelet.
    Kubelet(KubeletValues),
    /// Of a controller manager.
    ControllerManager {
        /// `--node-monitor-grace-period`.
        grace: Duration,
    },
    /// Of an API server.
    ApiServer {
        /// `--default-not-ready-toleration-seconds`.
        not_ready_seconds: i64,
        /// `--default-unreachable-toleration-seconds`.
        unreachable_seconds: i64,
    },
}

impl ComponentValues {
    /// Returns the component that they are for.
    pub const fn component(&self) -> Component {
        match self {
            ComponentValues::Kubelet(_) => Component::Kubelet,
            ComponentValues::ControllerManager { .. } => Component::ControllerManager,
            ComponentValues::ApiServer { .. } => Component::ApiServer,
        }
    }

    /// Returns the step of a plan that they mean for the component of a node.
    pub fn step(&self, node: &str) -> Step {
        let name = node.to_owned();
        match *self {
            ComponentValues::Kubelet(kubelet) => Step::Node { name, heartbeat: kubelet.update_frequency },
            ComponentValues::ControllerManager { grace } => Step::Kcm { name, grace },
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => {
                Step::Kas { name, not_ready_seconds, unreachable_seconds }
            }
        }
    }

    /// Returns whether each value is one of a profile; the grace of `Default` is an option.
    pub fn is_preset(&self) -> bool {
        let presets = || Profile::ALL.into_iter().map(Profile::values);
        let is_toleration = |seconds| presets().any(|values| values.default_unreachable_toleration_seconds == seconds);
        match self {
            ComponentValues::Kubelet(kubelet) => {
                presets().any(|values| KubeletValues::of(values.lease_renew_interval()) == *kubelet)
            }
            ComponentValues::ControllerManager { grace } => {
                let optional = (40..=60).contains(&grace.as_secs()) && grace.subsec_nanos() == 0;
                optional || presets().any(|values| values.node_monitor_grace_period == *grace)
            }
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => {
                is_toleration(*not_ready_seconds) && is_toleration(*unreachable_seconds)
            }
        }
    }

    /// Returns them with the names of the components' own settings.
    pub fn to_json(&self) -> Value {
        match self {
            ComponentValues::Kubelet(kubelet) => json!({
                "nodeStatusUpdateFrequency": duration::format(kubelet.update_frequency),
                "nodeStatusReportFrequency": duration::format(kubelet.report_frequency),
                "nodeLeaseDurationSeconds": kubelet.lease_duration.as_secs(),
            }),
            ComponentValues::ControllerManager { grace } => json!({"nodeMonitorGracePeriod": duration::format(*grace)}),
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => json!({
                "defaultNotReadyTolerationSeconds": not_ready_seconds,
                "defaultUnreachableTolerationSeconds": unreachable_seconds,
            }),
        }
    }

    /// Reads the values of a component; nothing else may be there.
    pub fn read(component: Component, value: Value) -> Result<ComponentValues, StepError> {
        let mut fields = Fields::of(value).map_err(|_| StepError("values: must be an object".to_owned()))?;
        let values = match component {
            Component::Kubelet => ComponentValues::Kubelet(KubeletValues {
                update_frequency: fields.span("nodeStatusUpdateFrequency")?,
                report_frequency: fields.span("nodeStatusReportFrequency")?,
                lease_duration: Duration::from_secs(fields.number("nodeLeaseDurationSeconds")?),
            }),
            Component::ControllerManager => {
                ComponentValues::ControllerManager { grace: fields.span("nodeMonitorGracePeriod")? }
            }
            Component::ApiServer => {
                let mut seconds = |name| fields.number(name).map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
                ComponentValues::ApiServer {
                    not_ready_seconds: seconds("defaultNotReadyTolerationSeconds")?,
                    unreachable_seconds: seconds("defaultUnreachableTolerationSeconds")?,
                }
            }
        };
        fields.finish()?;
        Ok(values)
    }

    /// Returns the arguments of a static pod that set them; none for a kubelet, which has a file.
    pub fn arguments(&self) -> Vec<(&'static str, String)> {
        match self {
            ComponentValues::Kubelet(_) => Vec::new(),
            ComponentValues::ControllerManager { grace } => vec![("node-monitor-grace-period", duration::format(*grace))],
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => vec![
                ("default-not-ready-toleration-seconds", not_ready_seconds.to_string()),
                ("default-unreachable-toleration-seconds", unreachable_seconds.to_string()),
            ],
        }
    }
}

/// `heartbeat 20s`, `grace 2m0s`, `tolerations 60s/60s`; a kubelet whose other settings are its own says them, too.
impl fmt::Display for ComponentValues {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComponentValues::Kubelet(kubelet) => {
                let update = duration::format(kubelet.update_frequency);
                if *kubelet == KubeletValues::of(kubelet.update_frequency) {
                    return write!(out, "heartbeat {update}");
                }
                let (report, lease) = (duration::format(kubelet.report_frequency), kubelet.lease_duration.as_secs());
                write!(out, "status every {update}, unchanged every {report}, Lease {lease}s")
            }
            ComponentValues::ControllerManager { grace } => write!(out, "grace {}", duration::format(*grace)),
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => {
                write!(out, "tolerations {not_ready_seconds}s/{unreachable_seconds}s")
            }
        }
    }
}
