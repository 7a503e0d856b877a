//! Reviews over TLS, as an API server sends them.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use runtime::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use webhook::{Metrics, Shown, keep, serve};

use crate::api::Api;

struct Served {
    api: Api,
    address: SocketAddr,
    registry: Registry,
    stop: CancellationToken,
}

/// Starts a replica that leads, and waits until it is ready.
async fn served() -> Served {
    let (api, clock, stop) = (Api::installed(), Clock::system(), CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shown, mut registry) = (Shown::new(clock.clone()), Registry::default());
    tokio::spawn(serve(listener, Arc::clone(&shown), Metrics::register(&mut registry), stop.clone()));
    assert!(post(&api, address, "/admit", b"{}").await.is_err(), "without a certificate there is no handshake");
    tokio::spawn(keep(api.client(), clock, "ns".to_owned(), stop.clone()));
    tokio::spawn(Arc::clone(&shown).follow(api.client(), "ns".to_owned(), stop.clone()));
    while !shown.is_ready() {
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    Served { api, address, registry, stop }
}

/// Posts a body as an API server does: it trusts the bundle of the configurations and expects the name of the Service.
async fn post(api: &Api, address: SocketAddr, path: &str, body: &[u8]) -> Result<(u16, Bytes), String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(api.trusted().as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("lifesign-webhook.ns.svc").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| error.to_string())?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let request = Request::post(path).header("host", "x").body(Full::new(Bytes::copy_from_slice(body))).unwrap();
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let code = answer.status().as_u16();
    Ok((code, answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes()))
}

fn review(annotation: &str) -> Vec<u8> {
    let pod = json!({"metadata": {"annotations": {"lifesign.dev/probes": annotation}},
        "spec": {"containers": [{"name": "app", "readinessProbe": {"tcpSocket": {"port": 80}}}]}});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let request = json!({"uid": "u", "operation": "CREATE", "resource": resource, "object": pod});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

#[tokio::test]
async fn reviews_are_answered_and_counted() {
    let served = served().await;
    let (code, body) =
        post(&served.api, served.address, "/admit", &review(r#"{"app": {"readinessProbe": {}}}"#)).await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)), "{answer}");
    let (_, body) = post(&served.api, served.address, "/admit", &review("x")).await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["status"]["code"], 422, "{answer}");
    let (_, body) = post(&served.api, served.address, "/admit", b"{").await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&answer["response"]["allowed"], &answer["response"]["status"]["code"]), (&json!(false), &json!(400)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &served.registry).unwrap();
    for line in [
        r#"lifesign_admission_reviews_total{resource="pods",outcome="patched"} 1"#,
        r#"lifesign_admission_reviews_total{resource="pods",outcome="refused"} 1"#,
        r#"lifesign_admission_reviews_total{resource="unknown",outcome="broken"} 1"#,
        r#"lifesign_admission_reviews_total{resource="pods",outcome="allowed"} 0"#,
        "lifesign_admission_duration_seconds_count 3",
    ] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
    served.stop.cancel();
}

#[tokio::test]
async fn what_is_no_review_gets_an_http_error() {
    let served = served().await;
    assert_eq!(post(&served.api, served.address, "/", b"").await.unwrap().0, 404);
    let large = vec![b' '; 9 << 20];
    assert_eq!(post(&served.api, served.address, "/admit", &large).await.unwrap().0, 413);
    served.stop.cancel();
}
