//! Streams into a pod: `exec`, `attach` and `port-forward` are upgraded connections that are passed on to the pod's node.
//!
//! What is spoken over them (WebSocket or SPDY) is between the client and the node: bytes go through as they are.

use api::json;
use api::status::Status;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use registry::containers::{agent_address, container_of};
use registry::state::key;

use crate::logs::error_text;
use crate::reply::{self, Reply};
use crate::request::Target;
use crate::server::{Call, Server};

/// Headers by which both ends agree on what they speak; everything else stays here.
const PASSED: [&str; 7] = [
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-accept",
    "x-stream-protocol-version",
];

/// Answers `pods/exec`, `pods/attach` and `pods/portforward`.
pub(crate) async fn tunnel(server: &Server, target: &Target, call: &Call) -> Result<Reply, Status> {
    let snapshot = server.0.hub.snapshot();
    let catalog = server.catalog();
    let pods = catalog.find("", "v1", "pods").expect("pods are built in");
    let subject = pods.resource.subject(&target.name);
    let stored = snapshot.get(&key("", "pods", &target.namespace, &target.name)).ok_or_else(|| Status::not_found(&subject))?;
    let upgrade = call.upgrade.clone().filter(|_| call.headers.contains_key(UPGRADE));
    let upgrade = upgrade.ok_or_else(|| Status::bad_request("Upgrade request required"))?;
    let pod = stored.object();
    let node = json::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name)));
    }
    let path = node_path(&pod, target, call)?;
    let (host, port) = agent_address(&snapshot, node)?;
    let place = server.0.tunnels.open(&call.identity.user)?;
    let dialer = server.0.logs.as_ref().ok_or_else(|| Status::not_implemented("this server cannot reach agents"))?;
    let mut request = Request::new(http_body_util::Empty::<bytes::Bytes>::new());
    *request.method_mut() = if call.method == Method::POST { Method::POST } else { Method::GET };
    *request.uri_mut() = path.parse().map_err(|_| Status::bad_request("the query cannot be part of a path"))?;
    pass_on(&call.headers, request.headers_mut());
    request.headers_mut().insert(HOST, format!("{host}:{port}").parse().expect("an address is a header value"));
    let unreachable = |error| Status::internal(format!("node {node:?} at {host}:{port} cannot be reached: {error}"));
    let mut answer = dialer.send(&host, port, request).await.map_err(unreachable)?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let code = answer.status();
        let text = error_text(answer.into_body()).await;
        return Err(refusal(code, text.trim().to_owned()));
    }
    let mut reply = reply::text(StatusCode::SWITCHING_PROTOCOLS, "");
    reply.headers_mut().clear();
    pass_on(answer.headers(), reply.headers_mut());
    let other_end = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        copy(upgrade, other_end).await;
        drop(place);
    });
    Ok(reply::long_running(reply))
}

/// Returns the answer to a client whose stream the node refused.
fn refusal(code: StatusCode, text: String) -> Status {
    match code {
        StatusCode::NOT_IMPLEMENTED => Status::not_implemented(text),
        code if code.is_client_error() => Status::bad_request(text),
        _ => Status::internal(text),
    }
}

fn pass_on(from: &HeaderMap, to: &mut HeaderMap) {
    for name in PASSED {
        for value in from.get_all(name) {
            to.append(HeaderName::from_static(name), value.clone());
        }
    }
    // A connection that is upgraded says so, whatever else the client wrote there.
    to.insert(CONNECTION, http::HeaderValue::from_static("Upgrade"));
}

/// Copies both ways until either end is done.
async fn copy(client: OnUpgrade, node: OnUpgrade) {
    let (client, node) = match tokio::join!(client, node) {
        (Ok(client), Ok(node)) => (client, node),
        (client, node) => {
            let error = client.err().or(node.err());
            return tracing::debug!(?error, "a stream was not upgraded");
        }
    };
    let ended = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(node)).await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a stream ended");
    }
}

/// Returns the path at the node: kubelets have other names for the same options.
fn node_path(pod: &serde_json::Value, target: &Target, call: &Call) -> Result<String, Status> {
    let (namespace, name) = (&target.namespace, &target.name);
    if target.subresource == "portforward" {
        return Ok(format!("/portForward/{namespace}/{name}"));
    }
    let container = container_of(pod, call.parameters.text("container"))?;
    let mut query: Vec<String> =
        call.parameters.all("command").map(|word| format!("command={}", registry::query::encode_component(word))).collect();
    for (ours, theirs) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if call.parameters.flag(ours) {
            query.push(format!("{theirs}=1"));
        }
    }
    Ok(format!("/{}/{namespace}/{name}/{container}?{}", target.subresource, query.join("&")))
}
