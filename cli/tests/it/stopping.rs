//! Signals: the first one stops cleanly, the second one at once.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::streams::{Next, Watch};
use crate::{LIFESIGN, until};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_ends_watches_and_keeps_everything() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut plane = Plane::started(LIFESIGN);
        let kubeconfig = plane.kubeconfig();
        let old = Client::new(&kubeconfig, Protocol::Http1).unwrap();
        let new = Client::new(&kubeconfig, Protocol::Http2).unwrap();
        let mut watches = Vec::new();
        for client in [&old, &new] {
            let path = format!("{CONFIGMAPS}?watch=1&fieldSelector=metadata.name%3Dkept");
            watches.push(Watch::open(client, &path).await);
        }
        let made = new.call("POST", CONFIGMAPS, &json!({"metadata": {"name": "kept"}})).await.unwrap();
        assert_eq!(made.code, 201);
        for watch in &mut watches {
            assert_eq!(watch.event().await, ("ADDED".to_owned(), "kept".to_owned()));
        }
        plane.signal(signal);
        for watch in &mut watches {
            assert_eq!(watch.next().await, Next::End, "{signal:?}: a watch ends, it does not break");
        }
        assert!(plane.wait().success(), "{}", plane.log());
        plane.start().unwrap();
        let again = Client::new(&kubeconfig, Protocol::Http2).unwrap();
        let kept = again.call("GET", &format!("{CONFIGMAPS}/kept"), &Value::Null).await.unwrap();
        assert_eq!(kept.json(), made.json(), "the same object, the same version");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait_for_anybody() {
    let mut plane = Plane::started(LIFESIGN);
    // A client in the middle of its request: the server would wait for it for a while. It asks to be told when the server
    // begins to read the body.
    let mut half = testkit::client::tls_stream(&plane.kubeconfig()).await.unwrap();
    let head = format!("POST {CONFIGMAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n");
    half.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 21];
    half.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 100 Continue");
    plane.signal(Signal::TERM);
    until("the first signal was seen", || plane.log().contains("stopping")).await;
    plane.signal(Signal::INT);
    let status = plane.wait();
    assert_eq!(status.code(), Some(130), "{}", plane.log());
}
