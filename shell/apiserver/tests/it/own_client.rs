//! The client of `runtime` over TLS: one connection for all, another one when it ends or stalls, and who we are as the kubeconfig says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::Role;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, Version};
use http_body_util::BodyExt;
use runtime::{Body, Client, Config, Kubeconfig, RequestError, requests};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::plane::{PATIENCE, Plane};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A way to the server that counts connections, and can let those that there are hang.
struct Way {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// Connections with a lower number pass nothing more.
    hanging: Arc<AtomicUsize>,
}

impl Way {
    async fn to(server: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Way { address: listener.local_addr().unwrap(), accepted: Arc::default(), hanging: Arc::default() };
        let (accepted, hanging) = (Arc::clone(&way.accepted), Arc::clone(&way.hanging));
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let number = accepted.fetch_add(1, Ordering::SeqCst);
                let Ok(far) = TcpStream::connect(server).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                tokio::spawn(pass(near_read, far_write, number, Arc::clone(&hanging)));
                tokio::spawn(pass(far_read, near_write, number, Arc::clone(&hanging)));
            }
        });
        way
    }

    fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Lets the connections that there are hang.
    fn hang(&self) {
        self.hanging.store(self.connections(), Ordering::SeqCst);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: usize, hanging: Arc<AtomicUsize>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if number < hanging.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Returns a kubeconfig of a plane with a user.
fn kubeconfig(plane: &Plane, address: SocketAddr, user: &Value) -> Value {
    json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": STANDARD.encode(plane.authority()),
        }}],
        "users": [{"name": "u", "user": user}],
    })
}

async fn config(plane: &Plane, address: SocketAddr, user: &Value) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, kubeconfig(plane, address, user).to_string()).unwrap();
    Kubeconfig::read(&path).unwrap().config(None).await.unwrap()
}

fn admin(plane: &Plane) -> Value {
    let credentials = plane.credentials(&Role::Admin);
    json!({
        "client-certificate-data": STANDARD.encode(&credentials.certificate),
        "client-key-data": STANDARD.encode(&credentials.key),
    })
}

async fn client(plane: &Plane, address: SocketAddr) -> Client {
    Client::try_from(config(plane, address, &admin(plane)).await).unwrap()
}

async fn open(client: &Client, path: &str) -> Response<Body> {
    let answer = client.send(Request::get(path).body(Body::empty()).unwrap());
    tokio::time::timeout(PATIENCE, answer).await.expect("in time").unwrap()
}

async fn watch(client: &Client) -> Response<Body> {
    open(client, &format!("{CONFIGMAPS}?watch=true")).await
}

async fn get(client: &Client, within: Duration) -> Result<Value, RequestError> {
    requests::get(client, CONFIGMAPS, within).await
}

#[tokio::test]
async fn all_requests_share_one_http2_connection() {
    let plane = Plane::start();
    let way = Way::to(plane.address()).await;
    let client = client(&plane, way.address).await;
    let asked = (0..50).map(|_| get(&client, PATIENCE));
    futures::future::try_join_all(asked).await.unwrap();
    let watched = watch(&client).await;
    assert_eq!(watched.version(), Version::HTTP_2);
    get(&client.clone(), PATIENCE).await.unwrap();
    assert_eq!(way.connections(), 1, "also those that came before there was any");
    get(&client.separate(), PATIENCE).await.unwrap();
    assert_eq!(way.connections(), 2, "one of its own for who must not wait for others");
}

#[tokio::test]
async fn with_http1_a_connection_is_used_again_when_its_answer_was_read_and_not_before() {
    let plane = Plane::speaking(b"http/1.1");
    let way = Way::to(plane.address()).await;
    let client = client(&plane, way.address).await;
    for _ in 0..3 {
        get(&client, PATIENCE).await.unwrap();
    }
    assert_eq!(way.connections(), 1);
    let watched = watch(&client).await;
    assert_eq!(watched.version(), Version::HTTP_11);
    get(&client, PATIENCE).await.unwrap();
    assert_eq!(way.connections(), 2, "the first one is the watch's");
    let asked = (0..8).map(|_| get(&client, PATIENCE));
    futures::future::try_join_all(asked).await.unwrap();
    drop(watched);
    let after = way.connections();
    let asked = (0..7).map(|_| get(&client, PATIENCE));
    futures::future::try_join_all(asked).await.unwrap();
    assert_eq!(way.connections(), after, "those that were made are kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_when_the_server_is_back() {
    for protocol in [&b"h2"[..], b"http/1.1"] {
        for kill in [false, true] {
            let mut plane = Plane::speaking(protocol);
            let client = client(&plane, plane.address()).await;
            for number in 0..3 {
                let object = json!({"metadata": {"name": format!("c{number}")}});
                runtime::request(&client, Method::POST, CONFIGMAPS, &object).await.unwrap();
                let mut watched = watch(&client).await.into_body();
                let restarted = tokio::task::spawn_blocking(move || {
                    plane.restart(kill);
                    plane
                });
                plane = restarted.await.unwrap();
                let ended = async { while let Some(Ok(_)) = watched.frame().await {} };
                tokio::time::timeout(PATIENCE, ended).await.expect("the watch ends with the server");
                // The connection of the watch is gone, so that every new request goes over another one.
                let list = get(&client, PATIENCE).await.unwrap();
                assert_eq!(
                    list["items"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter(|item| item["metadata"]["name"] != "kube-root-ca.crt")
                        .count(),
                    number + 1,
                    "{protocol:?}, kill {kill}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_stalls_holds_nobody_up_for_long() {
    let plane = Plane::start();
    let way = Way::to(plane.address()).await;
    let client = client(&plane, way.address).await;
    let mut watched = watch(&client).await.into_body();
    way.hang();
    let failed = get(&client, Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(failed, RequestError::Timeout(_)), "{failed}");
    get(&client, PATIENCE).await.expect("the next one goes another way");
    assert_eq!(way.connections(), 2);
    // What is left on the first one learns from a ping that it waits for nothing.
    let ended = async { while let Some(Ok(_)) = watched.frame().await {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the watch ends");
    get(&client, PATIENCE).await.unwrap();
    assert_eq!(way.connections(), 2, "the new one is kept");
}

#[tokio::test]
async fn who_cannot_be_reached_is_named_with_the_reason() {
    let plane = Plane::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = get(&client(&plane, free).await, PATIENCE).await.unwrap_err().to_string();
    assert_eq!(refused, format!("https://{free} cannot be reached: Connection refused (os error 111)"));
    let other = Plane::start();
    let address = plane.address();
    let stranger = get(&client(&other, address).await, PATIENCE).await.unwrap_err().to_string();
    let expected = format!("https://{address} cannot be reached: invalid peer certificate: ");
    assert!(stranger.starts_with(&expected), "{stranger}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut quick = config(&plane, silent.local_addr().unwrap(), &admin(&plane)).await;
    quick.connect_timeout = Duration::from_millis(200);
    let late = get(&Client::try_from(quick).unwrap(), PATIENCE).await.unwrap_err().to_string();
    assert!(late.ends_with(" cannot be reached: no connection within 200ms"), "{late}");
}

/// Returns a plugin that prints this.
fn plugin(status: &Value) -> Value {
    let printed = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
    let arguments = ["%s".to_owned(), printed.to_string()];
    json!({"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "printf", "args": arguments})
}

#[tokio::test]
async fn the_server_knows_us_as_the_kubeconfig_says() {
    let plane = Plane::start();
    let client = client(&plane, plane.address()).await;
    let tokens = "/api/v1/namespaces/default/serviceaccounts/default/token";
    runtime::request(
        &client,
        Method::POST,
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"metadata": {"name": "robot"}}),
    )
    .await
    .unwrap();
    let tokens = tokens.replace("default/token", "robot/token");
    let issued = runtime::request(&client, Method::POST, &tokens, &json!({"spec": {}})).await.unwrap();
    let token = issued["status"]["token"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let credentials = plane.credentials(&Role::Admin);
    let certificate = json!({"clientCertificateData": credentials.certificate, "clientKeyData": credentials.key});
    let mut acting = admin(&plane);
    acting["as"] = "jane".into();
    acting["as-groups"] = json!(["system:masters"]);
    let (robot, administrator) = ("system:serviceaccount:default:robot", who(&client).await);
    let cases = [
        (json!({"token": token}), robot),
        (json!({"tokenFile": file}), robot),
        (json!({"exec": plugin(&json!({"token": token}))}), robot),
        (json!({"exec": plugin(&certificate)}), administrator.as_str()),
        (acting, "jane"),
    ];
    for (user, expected) in cases {
        let config = config(&plane, plane.address(), &user).await;
        assert_eq!(who(&Client::try_from(config).unwrap()).await, expected, "{user}");
    }
    let nobody = config(&plane, plane.address(), &admin(&plane)).await.without_tokens();
    assert_eq!(who(&Client::try_from(nobody).unwrap()).await, administrator, "a certificate is no token");
}

/// Returns as whom the server knows a client.
async fn who(client: &Client) -> String {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = runtime::request(client, Method::POST, path, &json!({})).await.unwrap();
    review["status"]["userInfo"]["username"].as_str().unwrap().to_owned()
}
