//! A client that shows what is on the wire: any method, any header, bodies sent and read when the test says so.

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::Credentials;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) type Sent = UnsyncBoxBody<Bytes, std::io::Error>;

/// Opens a TLS connection, with a client certificate or as a stranger.
pub(crate) async fn connect(address: SocketAddr, credentials: Option<&Credentials>, alpn: &[u8]) -> TlsStream<TcpStream> {
    let config = runtime::tls_without_verification();
    let mut config = match credentials {
        None => config.with_no_client_auth(),
        Some(credentials) => {
            let chain = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// An HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Raw(SendRequest<Sent>);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr, credentials: Option<&Credentials>) -> Raw {
        let stream = connect(address, credentials, b"h2").await;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Raw(sender)
    }

    /// Sends a request and returns the answer as soon as its head is there.
    pub(crate) async fn open(&self, request: Request<Sent>) -> hyper::Result<Response<Incoming>> {
        let mut sender = self.0.clone();
        sender.ready().await?;
        sender.send_request(request).await
    }

    /// Sends a request with a whole body and returns code and text of the answer.
    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.to_owned())).map_err(|never| match never {}).boxed_unsync();
        let answer = self.open(request.body(body).unwrap()).await.unwrap();
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a request and returns its code alone; what is streamed is left unread.
    pub(crate) async fn code(&self, method: Method, path: &str, type_: &str, body: &Value) -> StatusCode {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(format!("https://localhost{path}")).header("content-type", type_);
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        self.open(request.body(body).unwrap()).await.unwrap().status()
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn create(&self, path: &str, object: &Value) {
        let (code, text) = self.send(Method::POST, path, &[("content-type", "application/json")], &object.to_string()).await;
        assert_eq!(code, StatusCode::CREATED, "{path}: {text}");
    }
}
