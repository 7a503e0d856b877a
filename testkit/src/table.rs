//! The one table of vector files: which package's tests run which file.

/// Who runs a vector file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// The test target `vectors` of this package.
    Package(&'static str),
    /// Nobody yet: the capability has not landed. This list only shrinks.
    NotYetWired,
}

use Runner::Package;

/// Vector files, as `topic/file`, and who runs each.
pub type Table = &'static [(&'static str, Runner)];

/// Every vector file. A file that is not here is an error.
pub const FILES: Table = &[
    ("admission/custom", Package("lifesign-admission")),
    ("admission/pods", Package("lifesign-admission")),
    ("admission/review", Package("lifesign-admission")),
    ("api-server/apply", Package("lifesign-apiserver")),
    ("api-server/crd", Package("lifesign-apiserver")),
    ("api-server/crud", Package("lifesign-apiserver")),
    ("api-server/deletion", Package("lifesign-apiserver")),
    ("api-server/discovery", Package("lifesign-apiserver")),
    ("api-server/durability", Package("lifesign-apiserver")),
    ("api-server/fieldvalidation", Package("lifesign-apiserver")),
    ("api-server/gates", Package("lifesign-apiserver")),
    ("api-server/paging", Package("lifesign-apiserver")),
    ("api-server/patch", Package("lifesign-apiserver")),
    ("api-server/pods", Package("lifesign-apiserver")),
    ("api-server/selectors", Package("lifesign-apiserver")),
    ("api-server/status", Package("lifesign-apiserver")),
    ("api-server/table", Package("lifesign-apiserver")),
    ("api-server/types", Package("lifesign-apiserver")),
    ("api-server/watch", Package("lifesign-apiserver")),
    ("api-server/workloads", Package("lifesign-apiserver")),
    ("cluster/condition", Package("lifesign-pods")),
    ("cluster/guard", Package("lifesign-guard")),
    ("endpointslices/conditions", Package("lifesign-endpoints")),
    ("endpointslices/gate", Package("lifesign-api")),
    ("endpointslices/hints", Package("lifesign-endpoints")),
    ("endpointslices/labels", Package("lifesign-endpoints")),
    ("endpointslices/lifecycle", Package("lifesign-endpoints")),
    ("endpointslices/membership", Package("lifesign-endpoints")),
    ("endpointslices/ports", Package("lifesign-endpoints")),
    ("endpointslices/reconcile", Package("lifesign-endpoints")),
    ("endpointslices/requeue", Package("lifesign-endpoints")),
    ("endpointslices/tracker", Package("lifesign-endpoints")),
    ("endpointslices/trigger_time", Package("lifesign-endpoints")),
    ("endpointslices/usable", Package("lifesign-endpoints")),
    ("endpointslices/validation", Package("lifesign-api")),
    ("explain/manifests", Package("lifesign-explain")),
    ("latency-profiles/beats", Package("lifesign-nodes")),
    ("latency-profiles/hazards", Package("lifesign-profiles")),
    ("latency-profiles/nodes", Package("lifesign-nodes")),
    ("latency-profiles/plan", Package("lifesign-profiles")),
    ("latency-profiles/profiles", Package("lifesign-profiles")),
    ("latency-profiles/simulator", Package("lifesign-sim")),
    ("latency-profiles/status", Package("lifesign-profiles")),
    ("latency-profiles/steps", Package("lifesign-profiles")),
    ("latency-profiles/tolerations", Package("lifesign-nodes")),
    ("latency-profiles/transitions", Package("lifesign-profiles")),
    ("pod-probe-markers/agent", Package("lifesign-markers")),
    ("pod-probe-markers/marking", Package("lifesign-markers")),
    ("pod-probe-markers/nodepodprobe", Package("lifesign-markers")),
    ("pod-probe-markers/scenarios", Package("lifesign-markers")),
    ("pod-probe-markers/validation", Package("lifesign-api")),
    ("probes/backoff", Package("lifesign-probe")),
    ("probes/dropping", Package("lifesign-api")),
    ("probes/handlers", Package("lifesign-probe")),
    ("probes/http", Package("lifesign-probe")),
    ("probes/listen", Package("lifesign-probe")),
    ("probes/podready", Package("lifesign-probe")),
    ("probes/timing", Package("lifesign-probe")),
    ("probes/worker", Package("lifesign-probe")),
    ("protobuf/decode", Package("lifesign-kinds")),
    ("view/board", Package("lifesign-view")),
    ("why/nodes", Package("lifesign-why")),
    ("why/pods", Package("lifesign-why")),
    ("why/services", Package("lifesign-why")),
    ("why/workloads", Package("lifesign-why")),
];

/// Returns the files that a package runs.
pub fn files_of(package: &str) -> Vec<&'static str> {
    files_in(FILES, package)
}

/// Returns the files that a package runs by a table.
pub fn files_in(table: Table, package: &str) -> Vec<&'static str> {
    table.iter().filter(|(_, runner)| matches!(runner, Package(name) if *name == package)).map(|(name, _)| *name).collect()
}
