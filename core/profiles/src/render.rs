//! What the applier writes on a stock cluster: a kubelet drop-in, and arguments of static pods.
//!
//! An empty profile writes nothing: whatever we wrote before is removed.

use serde_json::{Value, json};

use crate::profile::{Target, Values};
use crate::steps::{ComponentValues, KubeletValues};

/// Returns the drop-in file of the kubelet for these values.
///
/// All three fields are written: the update frequency alone would leave the Lease as it is, and in a main configuration
/// file it would drag the report frequency along. Kind and version are mandatory in every drop-in.
pub fn drop_in(values: &KubeletValues) -> Value {
    let mut config = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
    set_fields(&mut config, values);
    config
}

/// Gives a configuration of the kubelet these values.
pub fn set_fields(config: &mut Value, values: &KubeletValues) {
    let fields = ComponentValues::Kubelet(*values).to_json();
    for (name, value) in fields.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
}

/// Returns the drop-in file of the kubelet for a profile; `None`: the file is removed.
pub fn kubelet_dropin(target: Target, values: &Values) -> Option<Value> {
    (target != Target::Empty).then(|| drop_in(&KubeletValues::of(values.lease_renew_interval())))
}

/// Returns the arguments of the controller manager; none: ours are removed.
pub fn kcm_args(target: Target, values: &Values) -> Vec<String> {
    arguments(target, &ComponentValues::ControllerManager { grace: values.node_monitor_grace_period })
}

/// Returns the arguments of the API server; none: ours are removed.
pub fn kas_args(target: Target, values: &Values) -> Vec<String> {
    let values = ComponentValues::ApiServer {
        not_ready_seconds: values.default_not_ready_toleration_seconds,
        unreachable_seconds: values.default_unreachable_toleration_seconds,
    };
    arguments(target, &values)
}

fn arguments(target: Target, values: &ComponentValues) -> Vec<String> {
    let all = values.arguments().into_iter().filter(|_| target != Target::Empty);
    all.map(|(name, value)| format!("--{name}={value}")).collect()
}
