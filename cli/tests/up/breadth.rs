//! Every handler in every kind of probe, with and without milliseconds; timeouts, graces and redirects; gates that differ.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::plane::end_containers;

use crate::{Up, is_ready, script, server};

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The handlers: the arguments of the server that answers them, and the action.
fn handlers() -> [(&'static str, &'static [&'static str], Value); 4] {
    [
        ("http", &[], json!({"httpGet": {"path": "/", "port": 8080}})),
        ("tcp", &["--tcp"], json!({"tcpSocket": {"port": 8080}})),
        ("grpc", &["--grpc"], json!({"grpc": {"port": 8080}})),
        ("exec", &[], json!({"exec": {"command": ["true"]}})),
    ]
}

/// A pod of a server with one probe.
fn pod(name: &str, arguments: &[&str], type_: &str, mut probe: Value, offsets: bool) -> Value {
    let mut pod = server(name, arguments);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    let container = pod["spec"]["containers"][0].as_object_mut().expect("an object");
    container.remove("readinessProbe");
    probe["periodSeconds"] = json!(1);
    // A server may be asked before it listens.
    probe["failureThreshold"] = json!(30);
    if offsets {
        probe["initialDelayMilliseconds"] = json!(300);
        // Liveness probes have no faster period.
        if type_ != "livenessProbe" {
            probe["periodMilliseconds"] = json!(-500);
        }
    }
    container.insert(type_.to_owned(), probe);
    pod
}

#[test]
fn every_handler_works_in_every_kind_of_probe_with_and_without_milliseconds() {
    let up = Up::start_with(&["--max-pods", "200"]);
    let mut healthy = Vec::new();
    for (handler, arguments, action) in handlers() {
        for (type_, word) in [("startupProbe", "startup"), ("readinessProbe", "ready"), ("livenessProbe", "live")] {
            for (offsets, unit) in [(true, "ms"), (false, "s")] {
                let name = format!("{handler}-{word}-{unit}");
                up.create_pod(&pod(&name, arguments, type_, action.clone(), offsets));
                healthy.push(name);
            }
        }
    }
    for name in &healthy {
        let pod = up.wait_ready(name);
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!((&status["started"], &status["restartCount"]), (&json!(true), &json!(0)), "{name}");
    }
}

#[test]
fn every_handler_that_fails_stops_starts_or_withholds_what_it_should() {
    let up = Up::start_with(&["--max-pods", "200", "--crash-loop-back-off-initial-period", "1s"]);
    for (handler, arguments, mut action) in handlers() {
        if handler == "exec" {
            action = json!({"exec": {"command": ["false"]}});
        }
        let failing: Vec<&str> = arguments.iter().copied().chain(["--fail-after", "0s"]).collect();
        for (type_, word) in [("readinessProbe", "ready"), ("livenessProbe", "live"), ("startupProbe", "startup")] {
            let mut pod = pod(&format!("{handler}-{word}"), &failing, type_, action.clone(), true);
            pod["spec"]["containers"][0][type_]["failureThreshold"] = json!(2);
            up.create_pod(&pod);
        }
    }
    for (handler, ..) in handlers() {
        for word in ["live", "startup"] {
            let killed = up.wait_for(PODS, &format!("{handler}-{word}"), "restarted", |pod| {
                pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)
            });
            assert_ne!(killed["status"]["phase"], "Failed");
        }
        let name = format!("{handler}-ready");
        let unhealthy = event(&up, &name, "Readiness probe failed");
        assert_eq!(unhealthy["type"], "Warning");
        let pod = up.get(&format!("{PODS}/{name}"));
        assert!(!is_ready(&pod) && pod["status"]["containerStatuses"][0]["restartCount"] == 0, "{name}: {pod:#}");
    }
}

fn event(up: &Up, pod: &str, words: &str) -> Value {
    let path = format!("{EVENTS}?watch=true&fieldSelector=involvedObject.name%3D{pod}");
    let found = up.patiently(up.follow(&path, |_, event| event["message"].as_str().is_some_and(|text| text.contains(words))));
    found.unwrap_or_else(|| panic!("no event of {pod} says {words:?}\nlog:\n{}", up.plane.log()))
}

#[test]
fn a_command_that_hangs_times_out_and_a_probe_has_a_grace_of_its_own() {
    let up = Up::start();
    let mut slow = script("slow", "sleep 60");
    slow["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["sleep", "30"]}, "timeoutSeconds": 1});
    up.create_pod(&slow);
    let mut stubborn = script("stubborn", "trap '' TERM; while :; do sleep 1; done");
    stubborn["spec"]["terminationGracePeriodSeconds"] = json!(600);
    stubborn["spec"]["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["false"]}, "failureThreshold": 1, "terminationGracePeriodSeconds": 3});
    up.create_pod(&stubborn);
    event(&up, "slow", "exec sleep 30: command timed out after 1000ms");
    event(&up, "stubborn", "failed liveness probe and will be restarted (grace period 3s)");
    up.wait_for(PODS, "stubborn", "restarted", |pod| pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1));
    // The grace of the pod would hold up the end of the test.
    up.call("DELETE", &format!("{PODS}/stubborn?gracePeriodSeconds=0"), &Value::Null);
}

/// Answers `/to/PLACE` with a redirect to the rest of the path behind `/to`, and everything else with 200; returns the port.
fn redirecting() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 2048];
            let length = stream.read(&mut request).unwrap_or_default();
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let answer = match path.strip_prefix("/to") {
                Some("/another-host") => "302 Found\r\nLocation: http://192.0.2.1/".to_owned(),
                Some(place) => format!("302 Found\r\nLocation: {place}"),
                None => "200 OK".to_owned(),
            };
            let _ = stream.write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
        }
    });
    port
}

#[test]
fn redirects_are_followed_on_the_same_host_and_never_to_another() {
    let up = Up::start();
    let port = redirecting();
    for (name, path) in [("same", "/to/healthz"), ("other", "/to/another-host")] {
        let mut pod = script(name, "sleep 60");
        pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"host": "127.0.0.1", "port": port, "path": path}});
        up.create_pod(&pod);
    }
    up.wait_ready("same");
    up.wait_ready("other");
    event(&up, "other", "HTTP 302 leads to another host");
}

/// An agent with flags of its own.
struct Agent {
    child: Child,
    data: PathBuf,
}

impl Agent {
    fn join(up: &Up, node: &str, arguments: &[&str]) -> Agent {
        let printed = up.plane.command("kubeconfig").args(["--node", node]).output().expect("a kubeconfig");
        let (data, kubeconfig) = (up.plane.folder().join(node), up.plane.folder().join(format!("{node}.kubeconfig")));
        std::fs::write(&kubeconfig, printed.stdout).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
        command
            .args(["agent", "--node-name", node, "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--data-dir")
            .arg(&data)
            .args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("text");
        assert_eq!(line, format!("ready node/{node}\n"), "an agent says when it is ready");
        Agent { child, data }
    }
}

/// Waits for some requests to a server and returns the median of the times between two, in milliseconds.
///
/// The first ones are left out: a server that begins to listen is asked out of turn. One that a busy machine holds up makes the gap
/// before it long and the one after it short: the median of five takes one of both.
fn usual_gap_ms(up: &Up, pod: &str) -> i64 {
    const LEFT_OUT: usize = 3;
    const ASKED: usize = 9;
    let mut times = Vec::new();
    let path = format!("{PODS}/{pod}/log?timestamps=true");
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    while times.len() < ASKED {
        assert!(std::time::Instant::now() < deadline, "{pod} is not asked; log:\n{}", up.plane.log());
        let answer = up.runtime.block_on(up.client.call("GET", &path, &Value::Null)).expect("an answer");
        let log = String::from_utf8_lossy(&answer.body).into_owned();
        let requests = log.lines().filter(|line| line.contains("REQUEST"));
        times = requests.filter_map(|line| api::Timestamp::parse(line.split(' ').next()?).ok()).collect();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let times = &times[LEFT_OUT..];
    let gap = |pair: &[api::Timestamp]| i64::try_from(pair[1].0.since(pair[0].0).as_millis()).expect("not that long");
    let mut gaps: Vec<i64> = times.windows(2).map(gap).collect();
    gaps.sort_unstable();
    gaps[gaps.len() / 2]
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_containers(&self.data);
    }
}

/// A pod on a node that is never ready, so that its probe keeps its fast period.
fn waiting(name: &str, node: &str) -> Value {
    let mut pod = server(name, &["--log", "--status", "500"]);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

#[test]
fn a_gate_of_the_api_server_and_one_of_an_agent_may_differ() {
    let up = Up::start_in(&[], &[("LIFESIGN_TEST", "gates")]);
    let off = Agent::join(&up, "off", &["--feature-gates", "SubSecondProbes=false"]);
    up.create_pod(&waiting("stored", "off"));
    let gap = usual_gap_ms(&up, "stored");
    assert!(gap > 600, "stored by the API server, ignored by the agent, but asked after {gap} ms");
    assert_eq!(up.get(&format!("{PODS}/stored"))["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"], -800);
    drop(off);
    let on = Agent::join(&up, "off", &[]);
    let restarted = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1);
    up.wait_for(PODS, "stored", "running again", |pod| {
        restarted(pod) && !pod["status"]["containerStatuses"][0]["state"]["running"].is_null()
    });
    let gap = usual_gap_ms(&up, "stored");
    assert!(gap < 600, "upgraded, so in force without a write, but asked after {gap} ms");
    drop(on);

    let up = Up::start_in(&["--feature-gates", "SubSecondProbes=false"], &[("LIFESIGN_TEST", "gates")]);
    let on = Agent::join(&up, "on", &[]);
    let created = up.create_pod(&waiting("dropped", "on"));
    assert!(created["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"].is_null());
    let gap = usual_gap_ms(&up, "dropped");
    assert!(gap > 600, "the agent would, but the field was dropped; asked after {gap} ms");
    drop(on);
}
