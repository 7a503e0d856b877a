//! `lifesign top`, `kubectl exec -it`, `cp` and `port-forward` in a real terminal: tmux at 80 columns and 24 lines. Without tmux every test is listed as ignored, with the
//! reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

const PODS: &str = "/api/v1/namespaces/default/pods";

fn main() -> ExitCode {
    let version = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
    let missing = (!version.is_ok_and(|status| status.success())).then(|| "tmux is not installed".to_owned());
    let tests: Vec<(&'static str, fn())> = vec![
        (
            "top_shows_filters_opens_and_leaves_the_terminal_as_it_was",
            top_shows_filters_opens_and_leaves_the_terminal_as_it_was,
        ),
        ("top_without_an_agent_shows_conditions_and_events", top_without_an_agent_shows_conditions_and_events),
    ];
    let with_kubectl = missing.clone().or_else(testkit::kubectl::missing);
    let streams: testkit::needs::Tests = vec![
        ("exec_has_a_terminal_with_size_signals_and_exit_code", exec_has_a_terminal_with_size_signals_and_exit_code),
        ("files_and_connections_go_into_a_pod_and_out_of_it", files_and_connections_go_into_a_pod_and_out_of_it),
    ];
    testkit::needs::run_groups(vec![(missing, tests), (with_kubectl, streams)])
}

/// A terminal with a shell in it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn start(plane: &Plane) -> Terminal {
        let terminal = Terminal { socket: plane.folder().join("tmux") };
        let started = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='shell> ' sh"]);
        assert!(started.is_some(), "tmux starts");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).unwrap_or_default()
    }

    fn keys(&self, keys: &[&str]) {
        let all: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&all).expect("tmux takes keys");
    }

    /// Types a line.
    fn enter(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    fn until(&self, what: &str, good: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if good(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "never on the screen: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn top(&self, plane: &Plane) {
        let line = format!("NO_COLOR=1 LANG=C.UTF-8 {LIFESIGN} top --kubeconfig {}", plane.kubeconfig().display());
        self.keys(&[&line, "Enter"]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn create(plane: &Plane, path: &str, object: &Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let answer = runtime.block_on(client.call("POST", path, object)).unwrap();
    assert_eq!(answer.code, 201, "{}", answer.json());
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "server", "image": "none", "command": ["lifesign", "serve", "--port", "8080"],
            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        }]},
    })
}

fn top_shows_filters_opens_and_leaves_the_terminal_as_it_was() {
    let mut plane = Plane::new(LIFESIGN).whole();
    plane.start().unwrap();
    for name in ["one", "two"] {
        create(&plane, PODS, &pod(name));
    }
    let terminal = Terminal::start(&plane);
    terminal.top(&plane);
    // The height of a bar is how long an attempt took, which a busy machine decides.
    let has_attempt = |line: &str| line.chars().any(|bar| ('▁'..='█').contains(&bar));
    let has_attempts = |screen: &str| screen.lines().filter(|line| line.contains("Ready") && has_attempt(line)).count() == 2;
    let screen = terminal.until("both pods with attempts", has_attempts);
    assert!(screen.contains("pods 2/2") && screen.contains("default/one"), "{screen}");
    terminal.keys(&["/", "t", "w", "o", "Enter"]);
    terminal.until("one pod", |screen| screen.contains("default/two") && !screen.contains("default/one"));
    terminal.keys(&["Enter"]);
    let screen = terminal.until("its details", |screen| screen.contains("pod default/two: Ready"));
    assert!(screen.contains("Readiness of server: GET :8080/"), "{screen}");
    terminal.keys(&["q"]);
    terminal.until("the shell again", |screen| screen.contains("shell>") && !screen.contains("Esc back"));
}

fn top_without_an_agent_shows_conditions_and_events() {
    // An API without agents: what it has was written by somebody else.
    let plane = Plane::started(LIFESIGN);
    let mut object = pod("far");
    object["spec"]["nodeName"] = json!("elsewhere");
    create(&plane, PODS, &object);
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": "Warning", "reason": "Unhealthy",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "far"}, "message": "Readiness probe failed", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    create(&plane, "/api/v1/namespaces/default/events", &event);
    let terminal = Terminal::start(&plane);
    terminal.top(&plane);
    terminal.until("the pod", |screen| screen.contains("Pending") && screen.contains("default/far"));
    terminal.keys(&["Enter"]);
    let screen = terminal.until("its event", |screen| screen.contains("Unhealthy Readiness probe failed"));
    assert!(screen.contains("no agent of Lifesign tells its attempts"), "{screen}");
    terminal.keys(&["q"]);
}

/// Starts a plane with a Deployment that is available, and a terminal whose shell speaks to it.
fn web() -> (Plane, Terminal) {
    let mut plane = Plane::new(LIFESIGN).whole();
    plane.start().unwrap();
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]});
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    create(&plane, "/apis/apps/v1/namespaces/default/deployments", &web);
    let terminal = Terminal::start(&plane);
    let (kubeconfig, folder) = (plane.kubeconfig(), plane.folder().display());
    let there = format!("cd {folder}; export KUBECONFIG={}", kubeconfig.display());
    terminal.enter(&format!("{there}; kubectl wait --for=condition=Available deploy/web --timeout=60s"));
    terminal.until("the deployment", |screen| screen.contains("condition met"));
    (plane, terminal)
}

fn files_and_connections_go_into_a_pod_and_out_of_it() {
    let (_plane, terminal) = web();
    terminal.enter("pod=$(kubectl get pods -o jsonpath={.items[0].metadata.name}); clear");
    terminal.enter(
        "seq 20000 >sent; kubectl cp sent $pod:$PWD/in && kubectl cp $pod:$PWD/in back && cmp sent back && echo same-$((1+1))",
    );
    terminal.until("the file, there and back", |screen| screen.contains("same-2"));
    terminal.enter("clear; kubectl port-forward deploy/web :8080");
    let screen = terminal.until("the port", |screen| screen.contains("Forwarding from 127.0.0.1:"));
    let port = screen.split_once("Forwarding from 127.0.0.1:").unwrap().1.split(' ').next().unwrap().to_owned();
    let answer = answer_of(port.parse().unwrap());
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{answer}");
    terminal.until("the connection is told", |screen| screen.contains("Handling connection for"));
    terminal.keys(&["C-c"]);
    terminal.enter("echo ended-$((1+1))");
    terminal.until("the shell after ^C", |screen| screen.contains("ended-2"));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_err(), "nobody listens any more");
}

/// Returns what an HTTP server at a port of this machine answers.
fn answer_of(port: u16) -> String {
    let mut connection = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn exec_has_a_terminal_with_size_signals_and_exit_code() {
    let (_plane, terminal) = web();
    let line = |text: &str| terminal.keys(&["-l", text]);
    let enter = || terminal.keys(&["Enter"]);
    line("kubectl exec -it deploy/web -- env PS1='inside> ' sh");
    enter();
    terminal.until("a shell in the pod", |screen| screen.contains("inside>"));
    line("stty size; tty; echo it is $POD_NAME");
    enter();
    let shown = |screen: &str| screen.contains("24 80") && screen.contains("/dev/pts/") && screen.contains("it is web-");
    terminal.until("size and terminal", shown);
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]).expect("tmux resizes");
    // The new size travels: asked until it is there.
    line("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.1; done; echo size-$((1+1))");
    enter();
    terminal.until("the new size", |screen| screen.contains("size-2"));
    line("sleep 1000; echo slept-$?");
    enter();
    terminal.until("the command", |screen| screen.contains("sleep 1000"));
    terminal.keys(&["C-c"]);
    line("echo interrupted-$((1+1))");
    enter();
    terminal.until("the prompt after ^C", |screen| screen.contains("interrupted-2"));
    line("exit 7");
    enter();
    terminal.until("the first shell", |screen| screen.contains("exit code 7"));
    line("echo code-$?");
    enter();
    terminal.until("the exit code", |screen| screen.contains("code-7"));
}
