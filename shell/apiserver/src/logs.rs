//! Pod logs: found by the pod's node, read from its agent.

use std::sync::Arc;
use std::time::Duration;

use api::json;
use api::status::Status;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use registry::containers::{self, agent_address, check_started, container_of};
use registry::state::key;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pki::Credentials;
use crate::reply::{self, Reply};
use crate::request::Target;
use crate::serve::TlsError;
use crate::server::{Call, Server};

/// An agent that does not answer in this time is told of as unreachable.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The most that is told of what an agent says is wrong.
const ERROR_BYTES_MAX: usize = 16 << 10;
/// What is read of a log before the client has taken it, at most.
const READ_AHEAD: usize = 64 << 10;

/// Dials agents, known to them by the server's client certificate.
#[derive(Clone)]
pub struct AgentDialer {
    connector: TlsConnector,
}

impl AgentDialer {
    /// Returns a dialer with these client credentials.
    pub fn new(credentials: &Credentials) -> Result<AgentDialer, TlsError> {
        let bad = crate::serve::tls_error;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| bad(&error))?;
        let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).map_err(|error| bad(&error))?;
        let config = runtime::tls_without_verification().with_client_auth_cert(chain, key).map_err(|error| bad(&error))?;
        Ok(AgentDialer { connector: TlsConnector::from(Arc::new(config)) })
    }

    async fn get(&self, host: &str, port: u16, path: &str) -> Result<http::Response<hyper::body::Incoming>, String> {
        let request = Request::get(path).header("host", format!("{host}:{port}")).body(Empty::<Bytes>::new());
        self.send(host, port, request.map_err(|error| error.to_string())?).await
    }

    /// Sends a request to an agent; the connection may be upgraded.
    pub(crate) async fn send<B>(
        &self,
        host: &str,
        port: u16,
        request: Request<B>,
    ) -> Result<http::Response<hyper::body::Incoming>, String>
    where
        B: http_body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + Unpin + 'static,
    {
        let dial = async {
            let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
            let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
            let stream = self.connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            let (mut sender, connection) = Builder::new()
                .max_buf_size(READ_AHEAD)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| error.to_string())?;
            // Ends with the answer: the connection is used once.
            tokio::spawn(connection.with_upgrades());
            sender.send_request(request).await.map_err(|error| error.to_string())
        };
        tokio::time::timeout(DIAL_TIMEOUT, dial).await.map_err(|_| format!("no answer within {DIAL_TIMEOUT:?}"))?
    }
}

/// Answers `pods/log`.
pub(crate) async fn log(server: &Server, target: &Target, call: &Call) -> Result<Reply, Status> {
    let snapshot = server.0.hub.snapshot();
    let catalog = server.catalog();
    let pods = catalog.find("", "v1", "pods").expect("pods are built in");
    let stored = snapshot
        .get(&key("", "pods", &target.namespace, &target.name))
        .ok_or_else(|| Status::not_found(&pods.resource.subject(&target.name)))?;
    let pod = stored.object();
    let container = container_of(&pod, call.parameters.text("container"))?;
    let node = json::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Ok(reply::text(StatusCode::OK, ""));
    }
    check_started(&pod, &container, call.parameters.flag("previous"))?;
    let (host, port) = agent_address(&snapshot, node)?;
    let place = server.0.log_streams.open(&call.identity.user)?;
    let dialer = server.0.logs.as_ref().ok_or_else(|| Status::not_implemented("this server cannot reach agents"))?;
    let query: Vec<String> = ["follow", "previous", "timestamps", "tailLines", "sinceSeconds", "sinceTime", "limitBytes"]
        .iter()
        .filter_map(|name| Some(format!("{name}={}", call.parameters.get(name)?.replace('+', "%2B").replace(':', "%3A"))))
        .collect();
    let path = format!("/containerLogs/{}/{}/{container}?{}", target.namespace, target.name, query.join("&"));
    let answer = dialer
        .get(&host, port, &path)
        .await
        .map_err(|error| Status::internal(format!("the agent of node {node:?} at {host}:{port} cannot be reached: {error}")))?;
    if answer.status() != StatusCode::OK {
        let code = answer.status();
        let text = error_text(answer.into_body()).await;
        return Err(if code.is_client_error() { Status::bad_request(text) } else { Status::internal(text) });
    }
    // The place is held until the last byte: the body owns it.
    let body = answer.into_body().map_err(move |error| {
        let _ = &place;
        std::io::Error::other(error)
    });
    Ok(reply::long_running(reply::reply(StatusCode::OK, "text/plain", body.boxed_unsync())))
}

/// Answers `nodes/N/proxy`: what the endpoint of the node's agent or kubelet says, as it is.
pub(crate) async fn proxy(server: &Server, target: &Target, call: &Call) -> Result<Reply, Status> {
    let (node, (host, port)) = containers::proxied_node(&server.0.hub.snapshot(), &target.name)?;
    let place = server.0.log_streams.open(&call.identity.user)?;
    let dialer = server.0.logs.as_ref().ok_or_else(|| Status::not_implemented("this server cannot reach agents"))?;
    let beyond: Vec<String> = target.beyond.split('/').map(registry::query::encode_component).collect();
    let path = format!("/{}?{}", beyond.join("/"), call.parameters.encoded());
    let unreachable =
        |error| Status::internal(format!("the agent of node {node:?} at {host}:{port} cannot be reached: {error}"));
    let mut request = Request::builder().method(&call.method).uri(path).header(HOST, format!("{host}:{port}"));
    for name in [ACCEPT, CONTENT_TYPE] {
        request = call.headers.get(&name).into_iter().fold(request, |request, value| request.header(&name, value));
    }
    let request = request.body(Full::new(call.body.clone())).map_err(|error| Status::bad_request(error.to_string()))?;
    let answer = dialer.send(&host, port, request).await.map_err(unreachable)?;
    let (parts, body) = answer.into_parts();
    let body = body.map_err(move |error| {
        let _ = &place;
        std::io::Error::other(error)
    });
    let mut reply = reply::reply(parts.status, "text/plain", body.boxed_unsync());
    if let Some(type_) = parts.headers.get(CONTENT_TYPE) {
        reply.headers_mut().insert(CONTENT_TYPE, type_.clone());
    }
    Ok(reply::long_running(reply))
}

/// Returns what an agent says is wrong; it is not trusted to be brief, or to come to an end.
pub(crate) async fn error_text<B>(body: B) -> String
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = http_body_util::Limited::new(body, ERROR_BYTES_MAX);
    let mut text = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    };
    // What has come by then is all that is told.
    let _ = tokio::time::timeout(DIAL_TIMEOUT, read).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    #[tokio::test(start_paused = true)]
    async fn what_an_agent_says_is_wrong_is_bounded() {
        let chunk = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 1_000])));
        let brief = StreamBody::new(futures::stream::iter([chunk(), chunk()]));
        assert_eq!(error_text(brief).await.len(), 2_000);
        let endless = StreamBody::new(futures::stream::iter((0..).map(|_| chunk())));
        assert_eq!(error_text(endless).await.len(), ERROR_BYTES_MAX / 1_000 * 1_000);
        let stuck = StreamBody::new(futures::stream::iter([chunk()]).chain(futures::stream::pending()));
        assert_eq!(error_text(stuck).await.len(), 1_000);
    }
}
