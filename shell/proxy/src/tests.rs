//! Real sockets on addresses that this test has claimed.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;

use api::Verb;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use processes::addresses::{Claim, POD_RANGE, Pool, SERVICE_RANGE};
use runtime::{Client, Clock, Obj};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

/// A proxy without an API: what it sends is received by the test.
struct World {
    proxy: Proxy,
    service: SocketAddr,
    pods: Pool,
    port: u16,
    sent: mpsc::UnboundedReceiver<(http::Method, String, Value)>,
    _claim: Pool,
}

const READY: [bool; 3] = [true, true, false];
const DRAINING: [bool; 3] = [false, true, true];

impl World {
    async fn new() -> World {
        let mut claim = Pool::new(Claim::first_free(SERVICE_RANGE).unwrap());
        let pods = Pool::new(Claim::first_free(POD_RANGE).unwrap());
        let address = claim.allocate().unwrap();
        // Nobody else uses these addresses, so a number that is free on one is free on all.
        let port = TcpListener::bind((address, 0)).await.unwrap().local_addr().unwrap().port();
        let (sender, sent) = mpsc::unbounded_channel();
        let api = tower::service_fn(move |request: http::Request<runtime::Body>| {
            let sender = sender.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let _ = sender.send((parts.method, parts.uri.path().to_owned(), body));
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let writer = Writer::new(Client::new(api), Clock::system(), "test", runtime::Metrics::default());
        let events = EventWriter::start(writer.clone(), Clock::system(), "proxy", "here");
        let proxy =
            Proxy::new(writer, "here".to_owned(), events, Drains::default(), Connections::default(), CancellationToken::new());
        World { proxy, service: SocketAddr::new(address.into(), port), pods, port, sent, _claim: claim }
    }

    fn apply_service(&mut self, more: Value) {
        let mut spec = json!({
            "clusterIP": self.service.ip().to_string(), "ports": [{"name": "http", "port": self.port, "targetPort": "x"}],
        });
        api::json::object_mut(&mut spec, &[]).extend(more.as_object().unwrap().clone());
        let service = json!({"metadata": {"name": "web", "namespace": "d", "uid": "u"}, "spec": spec});
        self.proxy.see_service(&WatchEvent::Applied(Obj::from_json(&service).unwrap()));
    }

    fn apply_slice(&mut self, endpoints: &[(Ipv4Addr, [bool; 3])]) {
        let endpoint = |(address, [ready, serving, terminating]): &(Ipv4Addr, [bool; 3])| {
            let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
            json!({"addresses": [address.to_string()], "conditions": conditions})
        };
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "d", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": self.port}],
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<Value>>(),
        });
        self.proxy.see_slice(&WatchEvent::Applied(Obj::from_json(&slice).unwrap()));
    }

    /// Starts an endpoint that tells who it is, says everything back, and `!` when the client has said all.
    async fn endpoint(&mut self, who: u8) -> Ipv4Addr {
        let address = self.pods.allocate().unwrap();
        let listener = TcpListener::bind((address, self.port)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.write_u8(who).await.unwrap();
                    while let Ok(byte) = stream.read_u8().await {
                        stream.write_u8(byte).await.unwrap();
                    }
                    let _ = stream.write_u8(b'!').await;
                });
            }
        });
        address
    }

    /// Waits until the Service's listener is open or closed.
    async fn listening(&self, open: bool) {
        let listener = &self.proxy.services[&("d".to_owned(), "web".to_owned())].listeners[&self.service];
        listener.listening.clone().wait_for(|listening| listening.is_some() == open).await.unwrap();
    }

    async fn connect(&self) -> io::Result<(TcpStream, u8)> {
        let mut stream = TcpStream::connect(self.service).await?;
        let who = stream.read_u8().await?;
        Ok((stream, who))
    }

    /// Connects some times; returns who answered, sorted.
    async fn answers(&self, count: usize) -> String {
        let mut all = String::new();
        for _ in 0..count {
            all.push(char::from(self.connect().await.unwrap().1));
        }
        let mut sorted: Vec<char> = all.chars().collect();
        sorted.sort_unstable();
        sorted.into_iter().collect()
    }
}

#[tokio::test]
async fn ready_endpoints_take_turns_and_a_refused_connection_tries_the_next() {
    let mut world = World::new().await;
    let (a, b) = (world.endpoint(b'a').await, world.endpoint(b'b').await);
    let silent = world.pods.allocate().unwrap();
    world.apply_service(json!({}));
    world.apply_slice(&[(a, READY), (b, READY)]);
    world.listening(true).await;
    assert_eq!(world.answers(4).await, "aabb");
    world.apply_slice(&[(silent, READY), (b, READY)]);
    assert_eq!(world.answers(4).await, "bbbb");
    world.apply_slice(&[(a, DRAINING), (b, READY)]);
    assert_eq!(world.answers(3).await, "bbb", "a terminating endpoint gets nothing while another is ready");
    world.apply_slice(&[(a, DRAINING), (b, [false, false, false])]);
    assert_eq!(world.answers(2).await, "aa", "it serves when none is ready");
}

#[tokio::test]
async fn ports_are_counted_by_the_endpoints_that_they_use_and_changes_are_measured_once() {
    let mut world = World::new().await;
    let a = world.endpoint(b'a').await;
    let counted =
        |world: &World| [Mode::Ready, Mode::ServingTerminating, Mode::None].map(|mode| world.proxy.metrics.ports(mode));
    world.apply_service(json!({}));
    assert_eq!(counted(&world), [0, 0, 1]);
    world.apply_slice(&[(a, READY)]);
    assert_eq!(counted(&world), [1, 0, 0]);
    world.apply_slice(&[(a, DRAINING)]);
    assert_eq!(counted(&world), [0, 1, 0]);
    let mut registry = Default::default();
    world.proxy.metrics = Metrics::register(&mut registry);
    let trigger = |time: &str| {
        let metadata = json!({"name": "web-1", "namespace": "d", "labels": {"kubernetes.io/service-name": "web"},
            "annotations": {TRIGGER_TIME_ANNOTATION: time}});
        let slice = json!({"metadata": metadata, "addressType": "IPv4", "ports": [], "endpoints": []});
        WatchEvent::Applied(Obj::from_json(&slice).unwrap())
    };
    world.proxy.see_slice(&trigger("2026-01-01T00:00:00Z"));
    world.proxy.see_slice(&WatchEvent::Synced);
    for time in ["2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"] {
        world.proxy.see_slice(&trigger(time));
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("kubeproxy_network_programming_duration_seconds_count 2"), "the first was there before: {text}");
}

#[tokio::test]
async fn without_endpoints_a_connection_is_refused_and_established_ones_live_on() {
    let mut world = World::new().await;
    let a = world.endpoint(b'a').await;
    world.apply_service(json!({}));
    let refused = world.connect().await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "no endpoint yet");
    world.apply_slice(&[(a, READY)]);
    world.listening(true).await;
    let (mut stream, who) = world.connect().await.unwrap();
    assert_eq!(who, b'a');
    world.apply_slice(&[(a, [false, false, true])]);
    world.listening(false).await;
    let refused = world.connect().await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    stream.write_all(b"still here").await.unwrap();
    let mut output = [0; 10];
    stream.read_exact(&mut output).await.unwrap();
    assert_eq!(&output, b"still here");
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"!", "what is said after the client's end arrives");
    world.apply_slice(&[(a, READY)]);
    world.listening(true).await;
    assert_eq!(world.answers(1).await, "a");
}

#[tokio::test]
async fn a_connection_that_nobody_takes_is_reset() {
    let mut world = World::new().await;
    let silent = world.pods.allocate().unwrap();
    world.apply_service(json!({}));
    world.apply_slice(&[(silent, READY)]);
    world.listening(true).await;
    let error = world.connect().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_client_stays_with_its_endpoint_if_the_service_says_so() {
    let mut world = World::new().await;
    let (a, b) = (world.endpoint(b'a').await, world.endpoint(b'b').await);
    world.apply_service(json!({"sessionAffinity": "ClientIP"}));
    world.apply_slice(&[(a, READY), (b, READY)]);
    world.listening(true).await;
    let answers = world.answers(3).await;
    assert!(answers == "aaa" || answers == "bbb", "{answers}");
    world.apply_slice(&[(if answers == "aaa" { b } else { a }, READY)]);
    assert_ne!(world.answers(1).await, answers[..1]);
}

#[tokio::test]
async fn a_service_that_goes_frees_its_address() {
    let mut world = World::new().await;
    let a = world.endpoint(b'a').await;
    world.apply_service(json!({}));
    world.apply_slice(&[(a, READY)]);
    world.listening(true).await;
    let gone = world.proxy.services[&("d".to_owned(), "web".to_owned())].service.clone();
    let gone = Obj { view: gone, text: None };
    let mut listening = world.proxy.services[&("d".to_owned(), "web".to_owned())].listeners[&world.service].listening.clone();
    world.proxy.see_service(&WatchEvent::Deleted(gone));
    // The listener's end drops the sender.
    while listening.changed().await.is_ok() {}
    assert_eq!(world.connect().await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    TcpListener::bind(world.service).await.unwrap();
}

#[tokio::test]
async fn an_end_of_the_proxy_ends_its_connections() {
    let mut world = World::new().await;
    let a = world.endpoint(b'a').await;
    world.apply_service(json!({}));
    world.apply_slice(&[(a, READY)]);
    world.listening(true).await;
    let (mut stream, _) = world.connect().await.unwrap();
    world.proxy.shared.stop.cancel();
    world.proxy.end().await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "closed");
}

#[tokio::test]
async fn a_protocol_that_is_not_carried_is_told_once() {
    let mut world = World::new().await;
    world.apply_service(json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}));
    world.apply_service(json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}));
    world.apply_service(json!({"ports": [{"name": "sctp", "port": 53, "protocol": "SCTP"}]}));
    let mut reported = Vec::new();
    for _ in 0..2 {
        let (method, path, event) = world.sent.recv().await.unwrap();
        assert_eq!((method, path.as_str()), (http::Method::POST, "/api/v1/namespaces/d/events"));
        reported.push((event["reason"].clone(), event["message"].as_str().unwrap()[..9].to_owned()));
    }
    assert_eq!(
        reported,
        [(json!("UnsupportedProtocol"), "Port dns ".into()), (json!("UnsupportedProtocol"), "Port sctp".into())]
    );
}

#[test]
fn a_port_that_moved_is_written_on_its_service() {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "d", "uid": "u", "annotations": {"lifesign.dev/port-http": "10080"}},
        "spec": {"clusterIP": "127.96.0.1", "ports": [{"name": "http", "port": 80}, {"port": 443}]},
    }))
    .unwrap();
    let plan = plan::plan(&service);
    let (http, unnamed) =
        (ServicePortInfo::new(&service, &plan.listeners[0]), ServicePortInfo::new(&service, &plan.listeners[1]));
    assert_eq!(http.correction(Some(10_080)), None, "it says so already");
    let removed = http.correction(None).unwrap();
    assert_eq!(removed.path(), "/api/v1/namespaces/d/services/web");
    let removal = json!({"metadata": {"uid": "u", "annotations": {"lifesign.dev/port-http": null}}});
    assert_eq!(removed.verb, Verb::Merge(removal));
    assert_eq!(unnamed.correction(None), None);
    let added = json!({"metadata": {"uid": "u", "annotations": {"lifesign.dev/port-443": "10443"}}});
    assert_eq!(unnamed.correction(Some(10_443)).unwrap().verb, Verb::Merge(added));
}
