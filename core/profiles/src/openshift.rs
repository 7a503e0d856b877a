//! The control plane of OpenShift: its operators render the arguments of each component into `config.yaml` of a ConfigMap.
//!
//! It is only read: the operators write over whatever anybody else writes there.

use serde_json::Value;

use crate::steps::Component;

/// What an operator has rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// For which component.
    pub component: Component,
    /// Where the ConfigMap `config` is.
    namespace: &'static str,
    /// The field that holds arguments: lists of texts by name.
    arguments: &'static str,
}

/// The components whose arguments a profile is about.
pub const RENDERED: [Rendered; 2] = [
    Rendered {
        component: Component::ControllerManager,
        namespace: "openshift-kube-controller-manager",
        arguments: "extendedArguments",
    },
    Rendered { component: Component::ApiServer, namespace: "openshift-kube-apiserver", arguments: "apiServerArguments" },
];

/// Where the definition of the kind is.
pub const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodes.config.openshift.io";

/// Returns whether the definition of the kind is ours to write to: that of OpenShift is not.
pub fn is_ours(definition: &Value) -> bool {
    definition["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "lifesign"
}

/// The key of the ConfigMap that the configuration is in.
pub const KEY: &str = "config.yaml";

impl Rendered {
    /// Returns the path of the ConfigMap.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/config", self.namespace)
    }

    /// Returns the command line that a configuration stands for.
    pub fn command(&self, config: &Value) -> Vec<String> {
        let arguments = config[self.arguments].as_object().into_iter().flatten();
        let values = |(name, values): (&String, &Value)| -> Vec<String> {
            let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
            values.map(|value| format!("--{name}={value}")).collect()
        };
        arguments.flat_map(values).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stock::StaticPods;

    #[test]
    fn only_a_definition_with_our_label_is_ours() {
        assert!(is_ours(&json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "lifesign"}}})));
        assert!(!is_ours(&json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "openshift"}}})));
        assert!(!is_ours(&json!({"metadata": {}})));
    }

    #[test]
    fn what_operators_render_counts_like_arguments_of_a_static_pod() {
        let [manager, server] = RENDERED;
        assert_eq!(manager.path(), "/api/v1/namespaces/openshift-kube-controller-manager/configmaps/config");
        let mut pods = StaticPods::default();
        let config =
            json!({"extendedArguments": {"node-monitor-grace-period": ["2m0s"], "feature-gates": ["A=true", "B=false"]}});
        assert!(pods.take_rendered(&manager, &config) && !pods.take_rendered(&manager, &config), "news once");
        let config = json!({"apiServerArguments": {"default-not-ready-toleration-seconds": ["60"], "odd": 1}});
        assert!(pods.take_rendered(&server, &config));
        let of = |component| pods.of(component).map(|(_, values)| values.unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!(of(Component::ControllerManager), ["grace 2m0s"]);
        assert_eq!(of(Component::ApiServer), ["tolerations 60s/300s"]);
        assert_eq!(manager.command(&json!("odd")), Vec::<String>::new());
    }
}
