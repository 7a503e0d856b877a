//! A small HTTPS client for tests: certificates out of a kubeconfig, HTTP/2 or HTTP/1.1 as asked, nothing hidden.
//!
//! It keeps one connection and makes a new one when that has ended. It never repeats a request by itself: whether a write
//! was acknowledged is what tests are about.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::client::TlsStream;

/// Which HTTP a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, as client-go does.
    Http2,
}

/// A client of one server as one identity.
pub struct Client {
    address: String,
    tls: Arc<rustls::ClientConfig>,
    protocol: Protocol,
    connection: Mutex<Option<Connection>>,
}

#[derive(Clone)]
enum Connection {
    Http1(Arc<Mutex<http1::SendRequest<Full<Bytes>>>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// An answer that was read whole.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub code: u16,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Returns the body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What a kubeconfig says.
struct Credentials {
    server: String,
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

fn read_kubeconfig(path: &Path) -> Result<Credentials, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config: Value = serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let at = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).ok_or_else(|| format!("no {pointer} in {config}"));
    let decode = |pointer: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(at(pointer)?);
        bytes.map_err(|error| format!("{pointer}: {error}"))
    };
    Ok(Credentials {
        server: at("/clusters/0/cluster/server")?.to_owned(),
        authority: decode("/clusters/0/cluster/certificate-authority-data")?,
        certificate: decode("/users/0/user/client-certificate-data")?,
        key: decode("/users/0/user/client-key-data")?,
    })
}

/// Returns a connection over which HTTP/1.1 can be spoken by hand, as the user of a kubeconfig.
pub async fn tls_stream(kubeconfig: &Path) -> Result<TlsStream<TcpStream>, String> {
    Client::new(kubeconfig, Protocol::Http1)?.dial().await
}

impl Client {
    /// Returns a client as the user of a kubeconfig.
    pub fn new(kubeconfig: &Path, protocol: Protocol) -> Result<Client, String> {
        Client::build(kubeconfig, protocol, true)
    }

    /// Returns a client as the user of a kubeconfig, of another server of the same authority: an agent.
    pub fn of_agent(kubeconfig: &Path, address: &str) -> Result<Client, String> {
        let client = Client::build(kubeconfig, Protocol::Http1, true)?;
        Ok(Client { address: address.to_owned(), ..client })
    }

    /// Returns a client without a certificate: nobody, or whoever a token belongs to.
    pub fn without_certificate(kubeconfig: &Path, protocol: Protocol) -> Result<Client, String> {
        Client::build(kubeconfig, protocol, false)
    }

    fn build(kubeconfig: &Path, protocol: Protocol, identified: bool) -> Result<Client, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let credentials = read_kubeconfig(kubeconfig)?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&credentials.authority) {
            roots.add(certificate.map_err(|error| text(&error))?).map_err(|error| text(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| text(&error))?
            .with_root_certificates(roots);
        let mut tls = if identified {
            let chain = CertificateDer::pem_slice_iter(&credentials.certificate).collect::<Result<Vec<_>, _>>();
            let key = PrivateKeyDer::from_pem_slice(&credentials.key).map_err(|error| text(&error))?;
            builder.with_client_auth_cert(chain.map_err(|error| text(&error))?, key).map_err(|error| text(&error))?
        } else {
            builder.with_no_client_auth()
        };
        tls.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        let address = credentials.server.trim_start_matches("https://").to_owned();
        Ok(Client { address, tls: Arc::new(tls), protocol, connection: Mutex::new(None) })
    }

    async fn dial(&self) -> Result<TlsStream<TcpStream>, String> {
        let stream = TcpStream::connect(&self.address).await.map_err(|error| format!("{}: {error}", self.address))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = TokioIo::new(self.dial().await?);
        match self.protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.map_err(|error| error.to_string())?;
                tokio::spawn(connection);
                Ok(Connection::Http1(Arc::new(Mutex::new(sender))))
            }
            Protocol::Http2 => {
                let shaken = http2::handshake(TokioExecutor::new(), stream).await;
                let (sender, connection) = shaken.map_err(|error| error.to_string())?;
                tokio::spawn(connection);
                Ok(Connection::Http2(sender))
            }
        }
    }

    /// Sends a request and returns the answer, its body still unread.
    pub async fn send(&self, mut request: http::Request<Full<Bytes>>) -> Result<http::Response<Incoming>, String> {
        let connection = {
            let mut known = self.connection.lock().await;
            match known.as_ref() {
                Some(Connection::Http2(sender)) if !sender.is_closed() => Connection::Http2(sender.clone()),
                Some(Connection::Http1(sender)) if !sender.lock().await.is_closed() => Connection::Http1(Arc::clone(sender)),
                _ => known.insert(self.connect().await?).clone(),
            }
        };
        let target = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let whole = match connection {
            Connection::Http1(_) => target,
            Connection::Http2(_) => format!("https://{}{target}", self.address),
        };
        *request.uri_mut() = whole.parse().map_err(|error| format!("{whole}: {error}"))?;
        match connection {
            Connection::Http1(sender) => {
                request.headers_mut().insert("host", self.address.parse().map_err(|_| "no host name".to_owned())?);
                let mut sender = sender.lock().await;
                sender.ready().await.map_err(|error| error.to_string())?;
                sender.send_request(request).await.map_err(|error| error.to_string())
            }
            Connection::Http2(mut sender) => {
                sender.ready().await.map_err(|error| error.to_string())?;
                sender.send_request(request).await.map_err(|error| error.to_string())
            }
        }
    }

    /// Sends a request with a JSON body (null: none) and reads the answer whole.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Result<Response, String> {
        self.call_with(method, path, &[("content-type", "application/json")], body).await
    }

    /// Sends a request with headers and a JSON body (null: none) and reads the answer whole.
    pub async fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Response, String> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.send(request.body(Full::new(body)).map_err(|error| error.to_string())?).await?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
        Ok(Response { code: parts.status.as_u16(), headers: parts.headers, body })
    }
}
