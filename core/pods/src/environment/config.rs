//! Why a container cannot be configured. Every text says what to do about it.

/// Why a container cannot be configured: state Waiting, reason `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A ConfigMap or Secret is not there.
    #[error("{kind} {name:?} not found; create it in the pod's namespace or mark the reference optional")]
    Missing {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A key is not there.
    #[error("couldn't find key {key} in {kind} {name:?}; add it or mark the reference optional")]
    MissingKey {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A value that is no text where one is needed.
    #[error("key {key} of {kind} {name:?} is not UTF-8 text; mount it as a volume instead")]
    NotText {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A variable that no process can have.
    #[error("the value of variable {name} contains a zero byte; mount it as a volume instead")]
    ZeroByte {
        /// The variable.
        name: String,
    },
    /// A field that cannot be referred to.
    #[error(
        "fieldPath {0:?} is not supported; use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.podIP, status.podIPs, status.hostIP or status.hostIPs"
    )]
    FieldPath(String),
    /// A resource that cannot be referred to.
    #[error(
        "resourceFieldRef {resource:?} of container {container:?} is not supported; use limits or requests of cpu, memory, ephemeral-storage or hugepages-*"
    )]
    Resource {
        /// The resource.
        resource: String,
        /// The container named.
        container: String,
    },
    /// A source that does not exist here.
    #[error(
        "valueFrom.{kind} is not supported for pods that are processes; use value, fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef"
    )]
    ValueFrom {
        /// The source.
        kind: String,
    },
    /// Nothing to run.
    #[error("container {container:?} has no command; images are not pulled here, so set command to the program to run")]
    NoCommand {
        /// The container.
        container: String,
    },
    /// Another user, without the right to become it.
    #[error("{field} {id} needs lifesign to run as root (it runs as {own}); remove it or start lifesign as root")]
    NeedsRoot {
        /// `runAsUser`, `runAsGroup` or `supplementalGroups`.
        field: &'static str,
        /// What was asked for.
        id: i64,
        /// What lifesign has.
        own: u32,
    },
    /// Root, where that was ruled out.
    #[error("container has runAsNonRoot and would run as root; set runAsUser or start lifesign as another user")]
    WouldBeRoot,
    /// A setting that cannot be honoured.
    #[error("{field} is not supported for pods that are processes; {hint}")]
    Unsupported {
        /// The setting.
        field: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A volume that cannot be provided.
    #[error(
        "volume {volume:?}: {kind} is not supported for pods that are processes; use emptyDir, configMap, secret, downwardAPI, projected, or hostPath with path equal to mountPath"
    )]
    Volume {
        /// The volume.
        volume: String,
        /// Its kind.
        kind: String,
    },
    /// A host path that would have to appear elsewhere.
    #[error(
        "volume {volume:?}: hostPath {path:?} cannot appear at {mount_path:?}; pods are processes here, so mountPath must be equal to path and subPath empty"
    )]
    HostPath {
        /// The volume.
        volume: String,
        /// Where it is.
        path: String,
        /// Where it should be.
        mount_path: String,
    },
    /// A host path that is not of the type that was asked for.
    #[error("volume {volume:?}: hostPath {path:?} is not of type {type_}; create it or change the type")]
    HostPathType {
        /// The volume.
        volume: String,
        /// Where it is.
        path: String,
        /// What was asked for.
        type_: String,
    },
    /// A volume that the user of a container cannot reach.
    #[error(
        "volume {volume:?}: container {container:?} runs as user {user}, which may not enter {path:?}; remove runAsUser, or use a hostPath with path equal to mountPath"
    )]
    Unreachable {
        /// The volume.
        volume: String,
        /// The container.
        container: String,
        /// Its user.
        user: u32,
        /// The folder where it ends.
        path: String,
    },
    /// A path that leads out of the volume.
    #[error("volume {volume:?}: path {path:?} must be relative and must not contain '..'")]
    Path {
        /// The volume.
        volume: String,
        /// The path.
        path: String,
    },
}
