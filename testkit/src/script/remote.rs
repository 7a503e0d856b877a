//! A server behind TLS, as the scripts see it: one client with the certificate of a kubeconfig, one without.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use http_body_util::{BodyDataStream, Full};

use super::{Answer, Auth, Request};
use crate::client::{Client, Protocol};

/// The clients of one case.
#[derive(Clone)]
pub struct Clients {
    runner: Arc<Client>,
    stranger: Arc<Client>,
}

impl Clients {
    /// Returns clients of the server of a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Result<Clients, String> {
        Ok(Clients {
            runner: Arc::new(Client::new(kubeconfig, Protocol::Http2)?),
            stranger: Arc::new(Client::without_certificate(kubeconfig, Protocol::Http1)?),
        })
    }

    /// Sends a request of a script as whoever it comes from.
    pub async fn send(&self, request: Request) -> Result<Answer, String> {
        let mut built = http::Request::builder().method(request.method.as_str()).uri(request.path.as_str());
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        if let Auth::Token(token) = &request.auth {
            built = built.header("authorization", format!("Bearer {token}"));
        }
        let client = if request.auth == Auth::Runner { &self.runner } else { &self.stranger };
        let built = built.body(Full::new(request.body)).map_err(|error| error.to_string())?;
        let (parts, body) = client.send(built).await?.into_parts();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = BodyDataStream::new(body).map(|chunk| chunk.map_err(|error| error.to_string()));
        Ok(Answer { code: parts.status.as_u16(), headers, body: body.boxed() })
    }
}
