//! The agent's endpoint: who gets what.

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::{Credentials, Role};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::plane::{Plane, script};

/// Asks the endpoint with a client certificate, or without.
pub(crate) async fn ask(plane: &Plane, credentials: Option<Credentials>, path: &str) -> (u16, String) {
    let builder = runtime::tls_without_verification();
    let config = match credentials {
        None => builder.with_no_client_auth(),
        Some(credentials) => {
            let chain = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).unwrap()).unwrap()
        }
    };
    ask_at(plane.address(), config, path, None).await
}

/// Asks an endpoint over TLS, with a token or without.
pub(crate) async fn ask_at(address: SocketAddr, config: ClientConfig, path: &str, token: Option<&str>) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get(path).header("host", "agent");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_come_through_the_api_server() {
    let plane = Plane::start().await;
    plane.create_pod("talker", json!({"containers": [script("app", "echo one; echo two; echo three; exec sleep 1000")]})).await;
    let pod = plane.until_ready("talker").await;
    crate::support::wait_for_line(plane.instances(&pod, "app").last().unwrap().path(), "three").await;
    let path = "/api/v1/namespaces/default/pods/talker/log?tailLines=2";
    let log = runtime::requests::read(&plane.client, path, std::time::Duration::from_secs(10)).await.unwrap();
    assert_eq!(log, "two\nthree\n");
    let (code, text) =
        ask(&plane, Some(plane.authority.client(&Role::Admin).unwrap()), "/containerLogs/default/talker/app").await;
    assert_eq!((code, text.as_str()), (200, "one\ntwo\nthree\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_gets_what_they_may_have() {
    let plane = Plane::start().await;
    let credentials = |role: &Role| Some(plane.authority.client(role).unwrap());
    assert_eq!(ask(&plane, None, "/healthz").await, (200, "ok".to_owned()));
    for path in ["/metrics", "/metrics/probes", "/debug/probes", "/containerLogs/default/p/c"] {
        assert_eq!(ask(&plane, None, path).await.0, 401, "{path}");
    }
    assert_eq!(ask(&plane, credentials(&Role::Viewer), "/debug/probes").await.0, 200);
    assert_eq!(ask(&plane, credentials(&Role::Viewer), "/containerLogs/default/p/c").await.0, 403);
    assert_eq!(ask(&plane, credentials(&Role::Admin), "/containerLogs/default/p/c").await.0, 404);
    assert_eq!(ask(&plane, credentials(&Role::Admin), "/nothing").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_fast_until_ready_and_slow_afterwards() {
    let plane = Plane::start().await;
    let mut container = crate::plane::server("web", 500, 0);
    container["readinessProbe"] = json!({"tcpSocket": {"port": "http"}, "periodSeconds": 1, "periodMilliseconds": -800});
    plane.create_pod("seen", json!({"containers": [container]})).await;
    plane.until_ready("seen").await;
    let admin = || Some(plane.authority.client(&Role::Admin).unwrap());
    let worker = loop {
        let (_, text) = ask(&plane, admin(), "/debug/probes").await;
        let probes: Value = serde_json::from_str(&text).unwrap();
        let worker = probes["workers"][0].clone();
        let successes =
            worker["outcomes"].as_array().unwrap().iter().filter(|finished| finished["outcome"] == "success").count();
        if successes >= 3 {
            break worker;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    let began: Vec<(i64, bool)> = worker["outcomes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finished| {
            let at = api::Timestamp::parse(finished["began"].as_str().unwrap()).unwrap().0.as_millis();
            (at, finished["outcome"] == "success")
        })
        .collect();
    let pod = plane.pod("seen").await.unwrap();
    assert_eq!(crate::plane::status(&pod, "web")["restartCount"], 0, "{:#}", pod["status"]);
    let gaps: Vec<(i64, (bool, bool))> = began.windows(2).map(|pair| (pair[1].0 - pair[0].0, (pair[0].1, pair[1].1))).collect();
    assert!(gaps.iter().any(|(_, (after_success, _))| !after_success), "{gaps:?}");
    for (gap, outcomes) in &gaps {
        let expected = match outcomes {
            (true, _) => 940..1_150,
            (false, false) => 140..350,
            // Begun as soon as it listened.
            (false, true) => 0..350,
        };
        assert!(expected.contains(gap), "{gaps:?}");
    }
    assert_eq!((worker["phase"].as_str(), worker["periodMilliseconds"].as_i64()), (Some("slow"), Some(1_000)));
    let (_, metrics) = ask(&plane, admin(), "/metrics").await;
    for line in [
        "lifesign_probe_workers{probe_type=\"Readiness\",handler=\"tcpSocket\",phase=\"slow\"} 1",
        "lifesign_probe_offsets{field=\"periodMilliseconds\"} 1",
        "lifesign_container_ready_seconds_count 1",
        "lifesign_agent_pods 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    let (_, probes) = ask(&plane, admin(), "/metrics/probes").await;
    assert!(probes.contains("prober_probe_total{probe_type=\"Readiness\",result=\"successful\",container=\"web\""), "{probes}");
    plane.request(Method::DELETE, "/api/v1/namespaces/default/pods/seen", json!({})).await.unwrap();
    plane.until_gone("seen").await;
}
