//! What clients want of pods and nodes beyond objects: which container, whether it has begun, where its agent listens.

use api::status::{Status, Subject};
use api::{Node, json};
use serde_json::Value;

use crate::state::{Snapshot, key};

/// Returns the container of a pod that a request means: the one that it names, or the only one.
pub fn container_of(pod: &Value, asked: &str) -> Result<String, Status> {
    let pod_name = json::text(pod, &["metadata", "name"]);
    let names = |list: &str| -> Vec<String> {
        json::items(pod, &["spec", list]).iter().map(|container| json::text(container, &["name"]).to_owned()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    if !asked.is_empty() {
        if containers.iter().chain(&init).any(|name| name == asked) {
            return Ok(asked.to_owned());
        }
        return Err(Status::bad_request(format!("container {asked} is not valid for pod {pod_name}")));
    }
    match containers.as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let mut text =
                format!("a container name must be specified for pod {pod_name}, choose one of: [{}]", several.join(" "));
            if !init.is_empty() {
                text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(Status::bad_request(text))
        }
    }
}

/// Refuses the log of a container that has not begun, or the previous one of a container that has had none.
pub fn check_started(pod: &Value, container: &str, previous: bool) -> Result<(), Status> {
    let pod_name = json::text(pod, &["metadata", "name"]);
    let statuses =
        json::items(pod, &["status", "containerStatuses"]).iter().chain(json::items(pod, &["status", "initContainerStatuses"]));
    let status = statuses.into_iter().find(|status| json::text(status, &["name"]) == container);
    let waiting = |reason: &str| {
        Status::bad_request(format!("container {container:?} in pod {pod_name:?} is waiting to start: {reason}"))
    };
    let Some(status) = status else { return Err(waiting("ContainerCreating")) };
    let ended_before = json::at(status, &["lastState", "terminated"]).is_some();
    if previous {
        let text = format!("previous terminated container {container:?} in pod {pod_name:?} not found");
        return if ended_before { Ok(()) } else { Err(Status::bad_request(text)) };
    }
    match json::at(status, &["state", "waiting"]) {
        Some(state) if !ended_before => Err(waiting(json::text(state, &["reason"]))),
        _ => Ok(()),
    }
}

/// Returns where the agent of a node listens.
pub fn agent_address(snapshot: &Snapshot, node: &str) -> Result<(String, u16), Status> {
    let stored = snapshot.get(&key("", "nodes", "", node));
    let found = stored.and_then(|stored| serde_json::from_slice::<Node>(&stored.bytes).ok());
    let unreachable = || Status::internal(format!("node {node:?} has no agent endpoint; is its agent running?"));
    found.and_then(|node| node.agent_address()).ok_or_else(unreachable)
}

/// Returns the node that `nodes/NAME/proxy` means and where its agent listens. NAME may have a scheme and a port, as
/// `https:NODE:10250`; only the port of the agent is reached.
pub fn proxied_node(snapshot: &Snapshot, name: &str) -> Result<(String, (String, u16)), Status> {
    let parts: Vec<&str> = name.split(':').collect();
    let (scheme, node, port) = match parts.as_slice() {
        [node] => ("", *node, ""),
        [node, port] => ("", *node, *port),
        [scheme @ ("http" | "https"), node, port] => (*scheme, *node, *port),
        _ => return Err(Status::bad_request(format!("invalid node request {name:?}"))),
    };
    let subject = Subject { resource: "nodes".into(), kind: "Node".into(), name: node.into(), ..Subject::default() };
    if snapshot.get(&key("", "nodes", "", node)).is_none() {
        return Err(Status::not_found(&subject));
    }
    let (host, agent) = agent_address(snapshot, node)?;
    if scheme == "http" || !(port.is_empty() || port == agent.to_string()) {
        let why = format!("only the agent of node {node:?} is reached, over https at port {agent}");
        return Err(Status::bad_request(why));
    }
    Ok((node.to_owned(), (host, agent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, WindowLimits, Write};
    use machine::Time;
    use serde_json::json;

    fn pod(status: &Value) -> Value {
        json!({
            "metadata": {"name": "p"}, "status": {"containerStatuses": [status]},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
        })
    }

    #[test]
    fn a_container_is_named_or_the_only_one() {
        let pod = pod(&Value::Null);
        assert_eq!(container_of(&pod, "i").unwrap(), "i");
        assert!(container_of(&pod, "x").unwrap_err().message.contains("container x is not valid for pod p"));
        let several = container_of(&pod, "").unwrap_err().message;
        assert!(several.contains("choose one of: [a b] or one of the init containers: [i]"), "{several}");
        assert_eq!(container_of(&json!({"spec": {"containers": [{"name": "only"}]}}), "").unwrap(), "only");
    }

    #[test]
    fn there_is_no_log_before_the_first_start() {
        let of = |status: Value, previous| check_started(&pod(&status), "a", previous).map_err(|status| status.message);
        let waiting = json!({"waiting": {"reason": "PullBackOff"}});
        assert!(of(json!({"name": "a", "state": waiting}), false).unwrap_err().ends_with("waiting to start: PullBackOff"));
        assert!(of(json!({"name": "b"}), false).unwrap_err().ends_with("waiting to start: ContainerCreating"));
        assert!(of(json!({"name": "a", "state": {"running": {}}}), false).is_ok());
        assert!(of(json!({"name": "a", "state": {"running": {}}}), true).unwrap_err().contains("previous"));
        assert!(of(json!({"name": "a", "state": waiting, "lastState": {"terminated": {}}}), true).is_ok());
    }

    #[test]
    fn a_node_is_reached_at_the_port_of_its_agent_alone() {
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let status = json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}});
        let put = |name: &str, status: Value| {
            Write::put(key("", "nodes", "", name), Expect::Absent, json!({"metadata": {"name": name}, "status": status}))
        };
        let writes = vec![put("n1", status), put("silent", json!({}))];
        let world = state.snapshot().stage(Time::from_secs(1), writes).into_parts().0;
        let of = |name: &str| proxied_node(&world, name).map_err(|status| status.code);
        let n1 = ("n1".to_owned(), ("10.0.0.1".to_owned(), 10250));
        for name in ["n1", "n1:10250", "https:n1:10250"] {
            assert_eq!(of(name), Ok(n1.clone()), "{name}");
        }
        for (name, code) in [("n1:22", 400), ("http:n1:10250", 400), ("a:b:c:d", 400), ("n2", 404), ("silent", 500)] {
            assert_eq!(of(name), Err(code), "{name}");
        }
    }
}
