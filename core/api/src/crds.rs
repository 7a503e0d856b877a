//! The definitions of our custom kinds, as they are installed: by the embedded API server at its start, and on a cluster
//! with the other manifests.

/// PodProbeMarker of `apps.kruise.io/v1alpha1`, as YAML.
pub const POD_PROBE_MARKERS: &str = include_str!("../../../deploy/crds/apps.kruise.io_podprobemarkers.yaml");
/// NodePodProbe of `apps.kruise.io/v1alpha1`, as YAML.
pub const NODE_POD_PROBES: &str = include_str!("../../../deploy/crds/apps.kruise.io_nodepodprobes.yaml");
/// The Node of `config.openshift.io/v1`, which holds the latency profile, as YAML.
pub const CONFIG_NODES: &str = include_str!("../../../deploy/crds/config.openshift.io_nodes.yaml");

/// Every definition, one YAML document each.
pub const ALL: [&str; 3] = [POD_PROBE_MARKERS, NODE_POD_PROBES, CONFIG_NODES];
