//! The worked examples of markers on a cluster where Lifesign is installed, from the files that users have: see `installation`.

use serde_json::{Value, json};

use crate::bed::{Bed, Namespace};
use crate::installation::POD_IMAGE;
use crate::installed::kubectl;
use crate::moved::{is_ready, pods};

/// Applies a file of `examples/` in a namespace, with an image that the node has.
fn apply(bed: &Bed, namespace: &Namespace<'_>, file: &str, change: impl Fn(&mut Value)) {
    let path = format!("{}/../examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (_, yaml) = bed.kubectl(&["create", "--dry-run=client", "-o", "json", "-f", "-"], &text);
    let objects: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&yaml).into_iter().collect();
    let mut objects = objects.unwrap_or_else(|error| panic!("{error}: {yaml}"));
    for object in &mut objects {
        object["metadata"]["namespace"] = namespace.name.clone().into();
        if object["kind"] == "Deployment" {
            let spec = &mut object["spec"]["template"]["spec"];
            for container in spec["containers"].as_array_mut().unwrap() {
                container["image"] = POD_IMAGE.into();
                container["imagePullPolicy"] = "Never".into();
            }
            change(spec);
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let (good, output) = bed.kubectl(&["apply", "-f", "-"], &list.to_string());
    assert!(good, "{output}");
}

/// `examples/game-server-idle.yaml` on the cluster: idle servers are marked, and the real ReplicaSet controller takes one of those.
pub(crate) fn idle_servers_go_first(bed: &Bed, namespace: &Namespace<'_>) {
    apply(bed, namespace, "game-server-idle.yaml", |_| {});
    let named = |bed: &Bed, idle: &str| -> Vec<String> {
        let selector = format!("labelSelector=app%3Dgame-server%2Cgameserver-idle%3D{idle}");
        let found = bed.list(&format!("{}?{selector}", pods(&namespace.name)));
        let alive = found.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        alive.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut names = bed.until("three idle servers", |bed| Some(named(bed, "true")).filter(|names| names.len() == 3));
    let idle = names.pop().unwrap();
    for busy in &names {
        kubectl(bed, &["exec", "-n", &namespace.name, busy, "--", "sh", "-c", r#"touch "$GAME_DIR/match""#]);
    }
    bed.until("two matches", |bed| (named(bed, "false").len() == 2).then_some(()));
    kubectl(bed, &["scale", "-n", &namespace.name, "deployment/game-server", "--replicas=2"]);
    bed.until("the idle server is gone", |bed| {
        let left = named(bed, "false");
        assert_eq!(left.len(), 2, "a server with a match went before {idle}");
        named(bed, "true").is_empty().then_some(())
    });
    kubectl(bed, &["delete", "deployment/game-server", "podprobemarker/game-server-probe", "-n", &namespace.name]);
}

/// `examples/primary-replica-role.yaml` on the cluster: one is primary, the label follows when it goes, and an update replaces it last.
pub(crate) fn roles_follow_the_primary(bed: &Bed, namespace: &Namespace<'_>) {
    // What the page asks users to change beside the image: one folder that all pods share.
    apply(bed, namespace, "primary-replica-role.yaml", |spec| {
        spec["containers"][0]["volumeMounts"] = json!([{"name": "shared", "mountPath": "/tmp/lifesign-demo/db"}]);
        let folder = format!("/tmp/lifesign-demo-{}", std::process::id());
        spec["volumes"] = json!([{"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}]);
    });
    let role = |bed: &Bed, role: &str| -> Vec<String> {
        let found = bed.list(&format!("{}?labelSelector=tier%3Ddb%2Crole%3D{role}", pods(&namespace.name)));
        let alive = found.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod));
        alive.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let settled =
        |bed: &Bed| (role(bed, "primary").len() == 1 && role(bed, "replica").len() == 2).then(|| role(bed, "primary"));
    let first = bed.until("one primary, two replicas, all Ready", settled);
    kubectl(bed, &["delete", "pod", "-n", &namespace.name, &first[0], "--wait=false"]);
    let second = bed.until("another primary", |bed| settled(bed).filter(|primary| *primary != first));
    println!("primary {} then {}", first[0], second[0]);
    // Updated: the real Deployment controller takes the one whose deletion costs most last.
    let replicas = role(bed, "replica");
    kubectl(bed, &["set", "env", "-n", &namespace.name, "deployment/db", "RELEASE=2"]);
    let gone = |bed: &Bed, name: &str| {
        let answer = bed.ask("GET", &format!("{}/{name}", pods(&namespace.name)), &Value::Null);
        answer.code == 404 || !answer.json()["metadata"]["deletionTimestamp"].is_null()
    };
    bed.until("the replicas are replaced", |bed| {
        let all_gone = replicas.iter().all(|name| gone(bed, name));
        assert!(all_gone || !gone(bed, &second[0]), "the primary went before a replica");
        all_gone.then_some(())
    });
    bed.until("rolled out", |bed| (gone(bed, &second[0]) && settled(bed).is_some()).then_some(()));
    kubectl(bed, &["delete", "deployment/db", "podprobemarker/db-role", "-n", &namespace.name]);
}
