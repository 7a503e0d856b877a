//! `exec`, `cp` and `port-forward` of the real kubectl into pods of `lifesign up`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Kubectl, On};

/// Returns a pod of two containers, one of which serves.
fn web(kubectl: &Kubectl) -> Value {
    let (image, server) = kubectl.web_server();
    let container = |name: &str, color: &str, command: &str| {
        let mut env = vec![json!({"name": "COLOR", "value": color})];
        if kubectl.plane().is_none() {
            // Ours has it anyway.
            env.push(json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
        }
        let command: Vec<&str> = command.split(' ').collect();
        json!({"name": name, "image": image, "imagePullPolicy": "Never", "command": command, "env": env})
    };
    let mut server = container("server", "green", server);
    server["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let containers = [server, container("beside", "blue", "sleep 1000")];
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": containers});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
}

/// Starts what runs pods, with a pod that is ready.
fn with_pod(on: On) -> Kubectl {
    let kubectl = Kubectl::whole(on);
    kubectl.apply(&web(&kubectl).to_string());
    kubectl.run("wait --for=condition=Ready pod/web --timeout=120s");
    kubectl
}

pub(crate) fn exec_runs_a_command_in_the_environment_of_a_container(on: On) {
    let kubectl = with_pod(on);
    assert_eq!(kubectl.run("exec web -c server -- sh -c 'echo $COLOR $POD_NAME'"), "green web\n");
    assert_eq!(kubectl.run("exec web -c beside -- sh -c 'echo $COLOR'"), "blue\n");
    let input = "a line of input\n".repeat(20_000);
    assert_eq!(kubectl.run_with("exec -i web -c server -- cat", &input), input);
    assert_eq!(kubectl.run_with("exec -i web -c server -- wc -c", &input).trim(), input.len().to_string());

    let ran = kubectl.try_run("exec web -c server -- sh -c 'echo out; echo err >&2; exit 7'");
    assert_eq!(ran.stdout, "out\n");
    assert!(ran.stderr.starts_with("err\n") && ran.stderr.contains("command terminated with exit code 7"), "{}", ran.stderr);
    assert_eq!(kubectl.command("exec web -c server -- sh -c 'exit 7'").output().unwrap().status.code(), Some(7));
    assert_eq!(kubectl.command("exec web -c server -- sh -c 'kill -9 $$'").output().unwrap().status.code(), Some(137));

    assert!(kubectl.refused("exec web -c server -- no-such-program").contains("no-such-program"));
    assert!(kubectl.refused("exec web -c nobody -- true").contains("nobody"));
    assert!(kubectl.refused("exec nothing -- true").contains("not found"));
}

pub(crate) fn cp_copies_files_both_ways(on: On) {
    let kubectl = with_pod(on);
    let folder = kubectl.folder().to_owned();
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(folder.join("there"), &bytes).unwrap();
    // Pods of a plane have the files of the machine.
    let target = if kubectl.plane().is_some() { folder.join("inside") } else { "/inside".into() };
    kubectl.run(&format!("cp there web:{} -c server", target.display()));
    if kubectl.plane().is_some() {
        assert_eq!(std::fs::read(&target).unwrap(), bytes);
    }
    kubectl.run(&format!("cp web:{} back -c server", target.display()));
    assert_eq!(std::fs::read(folder.join("back")).unwrap(), bytes);
}

pub(crate) fn port_forward_connects_to_a_port_of_the_pod(on: On) {
    let kubectl = with_pod(on);
    let mut forward = kubectl.follow("port-forward pod/web :8080 :9");
    let mut port = || {
        let line = forward.next();
        let port = line.strip_prefix("Forwarding from 127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
        port.split(' ').next().unwrap().parse::<u16>().unwrap()
    };
    let web = port();
    let get = || {
        let mut connection = TcpStream::connect(("127.0.0.1", web)).unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    for _ in 0..3 {
        assert!(get().starts_with("HTTP/1.1 200"), "one after the other");
    }
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..20).map(|_| scope.spawn(get)).collect();
        for one in all {
            assert!(one.join().unwrap().starts_with("HTTP/1.1 200"), "at once");
        }
    });
}

pub(crate) fn what_is_not_there_is_refused_with_the_reason() {
    let kubectl = with_pod(On::Plane);
    let attach = kubectl.refused("attach web -c server");
    assert!(attach.contains("attach is not available") && attach.contains("kubectl logs -f"), "{attach}");
    let top = kubectl.refused("top pods");
    assert!(top.contains("Metrics API not available"), "{top}");
    let debug = kubectl.refused("debug web --image=none --target=server");
    assert!(debug.contains("ephemeral containers"), "{debug}");
    let forward = kubectl.refused("port-forward pod/nothing :8080");
    assert!(forward.contains("not found"), "{forward}");
}

pub(crate) fn the_endpoint_of_a_node_is_reached_through_the_server(on: On) {
    let kubectl = with_pod(on);
    let node = kubectl.run("get pod web -o jsonpath={.spec.nodeName}");
    let port = kubectl.run("get nodes -o jsonpath={.items[0].status.daemonEndpoints.kubeletEndpoint.Port}");
    assert_eq!(kubectl.run(&format!("get --raw /api/v1/nodes/{node}/proxy/healthz")), "ok");
    assert!(kubectl.run(&format!("get --raw /api/v1/nodes/{node}/proxy/metrics/probes")).contains("prober_probe_total"));
    let log = kubectl
        .run(&format!("get --raw /api/v1/nodes/{node}/proxy/containerLogs/{}/web/server?tailLines=1", kubectl.namespace()));
    assert_eq!(log, kubectl.run("logs web -c server --tail=1"));
    assert_eq!(kubectl.run(&format!("get --raw /api/v1/nodes/https:{node}:{port}/proxy/healthz")), "ok");
    let elsewhere = kubectl.refused(&format!("get --raw /api/v1/nodes/{node}:22/proxy/healthz"));
    assert!(kubectl.plane().is_none() || elsewhere.contains("only the agent"), "{elsewhere}");
    assert!(kubectl.refused("get --raw /api/v1/nodes/nobody/proxy/healthz").contains("not found"));
    let viewer = format!("--as=somebody get --raw /api/v1/nodes/{node}/proxy/healthz");
    assert!(kubectl.refused(&viewer).contains("cannot get resource"));
}

pub(crate) fn a_command_ends_when_its_client_is_killed() {
    let kubectl = with_pod(On::Plane);
    let mut client = kubectl.follow("exec web -c server -- sh -c 'echo $$; exec sleep 1000'");
    let number = client.lines.next().unwrap().unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{number}"));
    assert!(process.exists());
    client.child.kill().unwrap();
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    while process.exists() {
        assert!(std::time::Instant::now() < deadline, "the command goes on without its client");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

pub(crate) fn a_port_that_nobody_listens_on_is_named(on: On) {
    let kubectl = with_pod(on);
    let mut command = kubectl.command("port-forward pod/web :9");
    let mut forward = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // Kept open: kubectl goes on writing there.
    let mut stdout = BufReader::new(forward.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let port: u16 = line.strip_prefix("Forwarding from 127.0.0.1:").unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Closed or reset: nothing comes.
    assert_eq!(connection.read(&mut [0; 1]).unwrap_or(0), 0);
    // It is said once, and kubectl gives up.
    let mut stderr = String::new();
    forward.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    forward.wait().unwrap();
    assert!(stderr.contains("port 9 "), "{stderr}");
    assert!(kubectl.plane().is_none() || stderr.contains("cannot connect to port 9 of the pod"), "{stderr}");
}
