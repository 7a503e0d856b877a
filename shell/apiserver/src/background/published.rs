//! Objects by which clients inside the plane find the server: the Service `default/kubernetes` with its endpoints, and the
//! certificate of its authority.

use api::json;
use api::status::Status;
use kinds::builtin::{Part, SYSTEM_PRIORITIES};
use registry::meta::UpdateForm;
use registry::ownership::Writer;
use registry::state::{Current, Stored};
use serde_json::{Value, json};

use crate::handlers::write::Next;
use crate::server::Server;

/// The name of the Service and of its endpoints; Kubernetes API.
const SERVICE: &str = "kubernetes";
/// The ConfigMap that every namespace has; Kubernetes API.
pub(super) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// The ConfigMap from which components learn whose client certificates are good; Kubernetes API.
const CLIENT_CERTIFICATES: &str = "extension-apiserver-authentication";

/// Returns whether an object is one that says where the server is or whom it trusts; one that is gone is made again.
pub(super) fn is_published(stored: &Stored) -> bool {
    matches!(
        (stored.index.namespace.as_str(), stored.index.name.as_str()),
        ("default", SERVICE) | ("kube-system", CLIENT_CERTIFICATES)
    )
}

/// Makes the priority classes that a scheduler beside this server finds everywhere.
pub(super) async fn priority_classes(server: &Server) -> Result<(), Status> {
    for (name, value) in SYSTEM_PRIORITIES.iter().filter(|_| server.0.settings.external_controllers) {
        let class =
            json!({"metadata": {"name": name}, "value": value, "description": "for pods that the cluster itself needs"});
        server.ensure("scheduling.k8s.io", "priorityclasses", "", class).await?;
    }
    Ok(())
}

/// Makes the objects that say where the server is, or brings them up to date.
pub(super) async fn publish(server: &Server) -> Result<(), Status> {
    let Some(published) = &server.0.settings.published else { return Ok(()) };
    let (ip, port) = (published.address.ip().to_string(), published.address.port());
    let family = if published.address.is_ipv4() { "IPv4" } else { "IPv6" };
    let metadata = json!({"name": SERVICE, "labels": {"component": "apiserver", "provider": "kubernetes"}});
    let spec = |address: Option<String>| {
        let mut spec = json!({"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]});
        if let Some(address) = address {
            spec["clusterIP"] = address.into();
        }
        json!({"metadata": metadata, "spec": spec})
    };
    let first = server.0.settings.service_range().first().to_string();
    match server.ensure("", "services", "default", spec(Some(first))).await {
        // The first address belongs to another Service: any other does as well.
        Err(status) if status.reason == "Invalid" => server.ensure("", "services", "default", spec(None)).await?,
        outcome => outcome?,
    }
    let ports = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]);
    put(server, "", "services", "default", &["spec", "ports"], (json!({"metadata": metadata}), ports)).await?;
    // Pods of other machines and containers cannot use a loopback address; then there are no endpoints.
    if !published.address.ip().is_loopback() || server.0.settings.allow_loopback_endpoints {
        publish_endpoints(server, &ip, port, family).await?;
    }
    let certificates = json!({"client-ca-file": published.authority});
    let map = json!({"metadata": {"name": CLIENT_CERTIFICATES}});
    put(server, "", "configmaps", "kube-system", &["data"], (map, certificates)).await
}

async fn publish_endpoints(server: &Server, ip: &str, port: u16, family: &str) -> Result<(), Status> {
    let slice =
        json!({"metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}}, "addressType": family});
    let endpoints = json!([{"addresses": [ip], "conditions": {"ready": true}}]);
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let group = "discovery.k8s.io";
    put(server, group, "endpointslices", "default", &["endpoints"], (with(&slice, "ports", &ports), endpoints)).await?;
    put(server, group, "endpointslices", "default", &["ports"], (slice, ports.clone())).await?;
    let subsets = json!([{"addresses": [{"ip": ip}], "ports": ports}]);
    let legacy = json!({"metadata": {"name": SERVICE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    put(server, "", "endpoints", "default", &["subsets"], (legacy, subsets)).await
}

/// Sees to it that a namespace has the certificate of the authority.
pub(super) async fn root_certificate(server: &Server, namespace: &str) -> Result<(), Status> {
    let Some(published) = &server.0.settings.published else { return Ok(()) };
    let map = json!({"metadata": {"name": ROOT_CERTIFICATE}});
    put(server, "", "configmaps", namespace, &["data"], (map, json!({"ca.crt": published.authority}))).await
}

fn with(object: &Value, key: &str, value: &Value) -> Value {
    let mut object = object.clone();
    object[key] = value.clone();
    object
}

/// Creates an object with a value at a path, or sets the value in the object that is there.
async fn put(
    server: &Server,
    group: &str,
    resource: &str,
    namespace: &str,
    path: &[&str],
    (mut object, value): (Value, Value),
) -> Result<(), Status> {
    let (last, parents) = path.split_last().expect("a path has a last part");
    let name = json::text(&object, &["metadata", "name"]).to_owned();
    json::object_mut(&mut object, parents).insert((*last).to_owned(), value.clone());
    let catalog = server.catalog();
    let kind = catalog.find(group, "v1", resource).expect("a built-in kind");
    if server.0.hub.snapshot().get(&kind.resource.key(namespace, &name)).is_none() {
        return server.ensure(group, resource, namespace, object).await;
    }
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        json::object_mut(&mut object, &["metadata"]).remove("resourceVersion");
        json::object_mut(&mut object, parents).insert((*last).to_owned(), value.clone());
        Ok(Next::by(Writer::server(""), object, UpdateForm::Patch))
    };
    match server.update_object(kind, Part::Main, namespace, &name, false, change).await {
        // Somebody deletes it just now: it is looked at again when it is gone.
        Err(status) if status.code == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}
