//! What the applier writes on a stock cluster: a kubelet drop-in, and arguments of static pods.
//!
//! An empty profile writes nothing: whatever we wrote before is removed.

use api::duration;
use serde_json::{Value, json};

use crate::profile::{REPORT_FREQUENCY, Target, Values};

/// Returns the drop-in file of the kubelet; `None`: the file is removed.
///
/// All three fields are written: the update frequency alone would leave the Lease as it is, and in a main configuration
/// file it would drag the report frequency along.
pub fn kubelet_dropin(target: Target, values: &Values) -> Option<Value> {
    (target != Target::Empty).then(|| {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "nodeStatusUpdateFrequency": duration::format(values.node_status_update_frequency),
            "nodeStatusReportFrequency": duration::format(REPORT_FREQUENCY),
            "nodeLeaseDurationSeconds": values.node_lease_duration().as_secs(),
        })
    })
}

/// Returns the arguments of the controller manager; none: ours are removed.
pub fn kcm_args(target: Target, values: &Values) -> Vec<String> {
    if target == Target::Empty {
        return Vec::new();
    }
    vec![format!("--node-monitor-grace-period={}", duration::format(values.node_monitor_grace_period))]
}

/// Returns the arguments of the API server; none: ours are removed.
pub fn kas_args(target: Target, values: &Values) -> Vec<String> {
    if target == Target::Empty {
        return Vec::new();
    }
    vec![
        format!("--default-not-ready-toleration-seconds={}", values.default_not_ready_toleration_seconds),
        format!("--default-unreachable-toleration-seconds={}", values.default_unreachable_toleration_seconds),
    ]
}
