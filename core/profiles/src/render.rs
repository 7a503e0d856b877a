//! What the applier writes into the configuration of a kubelet on a stock cluster.

use serde_json::{Value, json};

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
