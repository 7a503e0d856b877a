//! What survives a crash of the plane: running pods are adopted, not restarted.

use serde_json::Value;

use crate::{Up, is_ready, processes_below, server};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// As many as the acceptance of the feature names.
const COUNT: usize = 20;

fn identity(pod: &Value) -> (String, String, u64) {
    let status = &pod["status"]["containerStatuses"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&status["containerID"]), text(&pod["status"]["podIP"]), status["restartCount"].as_u64().unwrap_or(0))
}

#[test]
fn running_pods_are_adopted_after_a_kill() {
    let mut up = Up::start();
    for number in 0..COUNT {
        up.create_pod(&server(&format!("web-{number}"), &[]));
    }
    let before: Vec<_> = (0..COUNT).map(|number| identity(&up.wait_ready(&format!("web-{number}")))).collect();
    up.plane.kill();
    assert!(processes_below(&up.plane).len() >= COUNT, "containers outlive the plane");
    up.start_again(&[]);
    for (number, before) in before.iter().enumerate() {
        let name = format!("web-{number}");
        let pod = up.get(&format!("{PODS}/{name}"));
        assert!(is_ready(&pod), "readiness of {name} is not lost: {pod:#}");
        let after = up.wait_ready(&name);
        assert_eq!(&identity(&after), before, "{name} is the same container");
    }
    assert!(up.plane.stop().success());
    assert_eq!(processes_below(&up.plane), Vec::<String>::new(), "nothing is left after a clean stop");
}

#[test]
fn pods_continue_after_a_clean_stop() {
    let mut up = Up::start();
    up.create_pod(&server("web", &[]));
    up.wait_ready("web");
    assert!(up.plane.stop().success());
    assert_eq!(processes_below(&up.plane), Vec::<String>::new());
    up.start_again(&[]);
    let pod = up.wait_for(PODS, "web", "ready in a new container", |pod| {
        is_ready(pod) && pod["status"]["containerStatuses"][0]["state"]["running"].is_object()
    });
    assert_eq!(pod["status"]["phase"], "Running");
}

#[test]
fn two_planes_never_share_an_address() {
    let (one, two) = (Up::start(), Up::start());
    one.create_pod(&server("web", &[]));
    two.create_pod(&server("web", &[]));
    let (first, second) = (one.wait_ready("web"), two.wait_ready("web"));
    // Not what the Node shows: that stays what it was when another plane took the range meanwhile.
    let range = |pod: &Value| {
        let address = pod["status"]["podIP"].as_str().expect("an address").to_owned();
        address.rsplit_once('.').map(|(range, _)| range.to_owned()).expect("four numbers")
    };
    assert_ne!(range(&first), range(&second), "each plane has a /24 of its own");
}
