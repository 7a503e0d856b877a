//! The real kubectl against the real binary. Without a kubectl that is new enough every test is listed as ignored, with the
//! reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod access;
mod applying;
mod deleting;
mod deployments;
mod nodes;
mod reading;
mod streams;
mod writing;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol, Response};
use testkit::plane::Plane;

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// What has not happened by then never will.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Returns a module's tests with their names; one that is not listed is dead code, which clippy refuses.
macro_rules! tests {
    ($($module:ident: $($test:ident),+;)+) => {
        vec![$($((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn())),+),+]
    };
}

fn main() -> ExitCode {
    let tests = tests! {
        access: the_administrator_may_do_everything, a_viewer_reads_all_but_secrets_and_changes_nothing, controllers_write_everything_but_secrets, a_node_sees_its_own_pods_only, a_token_stands_for_its_service_account;
        applying: two_managers_share_an_object_and_conflicts_are_named, diff_and_dry_run_show_what_an_apply_would_do_and_do_nothing, client_side_apply_is_taken_over_without_conflicts;
        deleting: a_pod_goes_with_grace_or_by_force, selected_and_listed_objects_go, dependents_go_with_their_owner, dependents_go_before_their_owner_when_in_the_foreground, orphans_stay, a_namespace_takes_its_contents_along;
        deployments: a_deployment_is_changed_rolled_back_paused_and_exposed, a_drain_goes_on_when_the_budget_allows_it;
        nodes: a_node_is_tainted_and_cordoned, drain_evicts_the_pods_of_a_node, drain_waits_for_pods_that_end_with_grace;
        reading: get_shows_the_columns_of_kubernetes, get_shows_slices_leases_and_replica_sets, yaml_and_json_show_the_object, a_watch_shows_changes_as_they_happen, wait_ends_when_the_condition_holds, wait_ends_when_the_object_is_gone, describe_tells_about_pods_nodes_and_services, events_are_listed_and_selected, explain_knows_fields_and_their_meaning, api_resources_lists_what_is_served;
        streams: exec_runs_a_command_in_the_environment_of_a_container, cp_copies_files_both_ways, port_forward_connects_to_a_port_of_the_pod, what_is_not_there_is_refused_with_the_reason, the_endpoint_of_a_node_is_reached_through_the_server, a_command_ends_when_its_client_is_killed, a_port_that_nobody_listens_on_is_named;
        writing: create_sends_protobuf_and_is_understood, apply_creates_changes_and_prunes, apply_of_a_typo_is_refused, bad_probes_are_refused_with_their_field_and_limit, apply_prunes_what_left_the_manifest, the_three_kinds_of_patch_work, edit_label_annotate_scale_and_replace_change_objects;
    };
    testkit::needs::run(testkit::kubectl::missing(), tests)
}

/// A plane and a kubectl that speaks to it.
struct Kubectl {
    plane: Plane,
    kubeconfig: PathBuf,
}

/// What a command said.
struct CommandOutput {
    stdout: String,
    stderr: String,
    good: bool,
}

impl Kubectl {
    /// Starts a plane.
    fn start() -> Kubectl {
        let plane = Plane::started(LIFESIGN);
        let kubeconfig = plane.kubeconfig();
        Kubectl { plane, kubeconfig }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.args(words(line)).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.plane.folder());
        command.current_dir(self.plane.folder());
        command
    }

    /// Runs a command line (words, quoted with ' where they have blanks).
    fn try_run(&self, line: &str) -> CommandOutput {
        self.try_run_with(line, "")
    }

    /// Runs a command line with a text on stdin.
    fn try_run_with(&self, line: &str, stdin: &str) -> CommandOutput {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("stdin is piped").write_all(stdin.as_bytes()).expect("kubectl reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CommandOutput { stdout: text(&output.stdout), stderr: text(&output.stderr), good: output.status.success() }
    }

    /// Runs a command that must succeed and returns what it printed.
    fn run(&self, line: &str) -> String {
        self.run_with(line, "")
    }

    /// Runs a command with a text on stdin that must succeed.
    fn run_with(&self, line: &str, stdin: &str) -> String {
        let output = self.try_run_with(line, stdin);
        assert!(output.good, "kubectl {line}\n{}{}\n{}", output.stdout, output.stderr, self.plane.log());
        output.stdout
    }

    /// Runs a command that must fail and returns its complaint.
    fn refused(&self, line: &str) -> String {
        let output = self.try_run(line);
        assert!(!output.good, "kubectl {line} should fail\n{}", output.stdout);
        output.stderr
    }

    /// Returns a table with its columns told apart, ages and addresses hidden.
    fn table(&self, line: &str) -> String {
        table(&self.run(line))
    }

    /// Starts a command that goes on, and returns its lines as they come.
    fn follow(&self, line: &str) -> Following {
        let mut child = self.command(line).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Following { child, lines }
    }

    /// Applies a manifest.
    fn apply(&self, manifest: &str) -> String {
        self.run_with("apply -f -", manifest)
    }

    /// Sends a request as an agent or a controller would, without kubectl; returns the object.
    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert!(answer.code < 300, "{method} {path}: {}", answer.json());
        answer.json()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Response {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let client = Client::new(&self.plane.kubeconfig(), Protocol::Http1).expect("the kubeconfig is good");
        let type_ = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let sent = runtime.block_on(client.call_with(method, path, &[("content-type", type_)], body));
        sent.expect("the plane answers")
    }

    /// Returns the metrics of the server.
    fn metrics(&self) -> String {
        String::from_utf8_lossy(&self.ask("GET", "/metrics", &Value::Null).body).into_owned()
    }

    /// Sets the status of an object in the default namespace, as an agent would.
    fn set_pod_status(&self, pod: &str, status: Value) {
        self.send("PATCH", &format!("/api/v1/namespaces/default/pods/{pod}/status"), &json!({"status": status}));
    }

    /// Makes a node that is ready.
    fn ready_node(&self, name: &str) {
        let labels = json!({"node-role.kubernetes.io/worker": ""});
        self.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}));
        let status = json!({
            "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "nodeInfo": {
                "kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1.0", "architecture": "amd64",
                "containerRuntimeVersion": "process://1", "operatingSystem": "linux",
                "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
            },
        });
        self.send("PATCH", &format!("/api/v1/nodes/{name}/status"), &json!({"status": status}));
    }

    /// Makes a pod on a node (empty: on none) that nobody has reported about.
    fn pending_pod(&self, name: &str, node: &str) {
        self.send("POST", "/api/v1/namespaces/default/pods", &pod(name, node));
    }

    /// Makes a pod that runs on a node.
    fn running_pod(&self, name: &str, node: &str) {
        self.pending_pod(name, node);
        let status = json!({
            "phase": "Running", "podIP": "127.88.0.7", "podIPs": [{"ip": "127.88.0.7"}], "hostIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
            "containerStatuses": [{
                "name": "app", "ready": true, "started": true, "restartCount": 0, "image": "web:1", "imageID": "",
                "state": {"running": {"startedAt": "2026-11-15T00:00:00Z"}},
            }],
        });
        self.set_pod_status(name, status);
    }
}

/// Returns a pod.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "app", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
            }],
        },
    })
}

/// A command that goes on until it is dropped.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Waits for the next line.
    fn next(&mut self) -> String {
        let line = self.lines.next().expect("kubectl goes on").expect("kubectl writes text");
        // In a watch every line has its own widths.
        line.split_whitespace().map(hidden).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits a command line at blanks, but not between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut any) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Tells the columns of a table apart by its head, and hides what differs from run to run.
fn table(text: &str) -> String {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return String::new() };
    let starts = column_starts(head);
    let cells = |line: &str| -> String {
        let characters: Vec<char> = line.chars().collect();
        let ends = starts.iter().skip(1).copied().chain([characters.len()]);
        let cell = |(start, end): (usize, usize)| {
            let end = end.min(characters.len());
            characters.get(start..end).unwrap_or_default().iter().collect::<String>()
        };
        let cells = starts.iter().copied().zip(ends).map(|range| hidden(cell(range).trim()));
        cells.collect::<Vec<_>>().join(" | ")
    };
    std::iter::once(head).chain(lines).map(cells).collect::<Vec<_>>().join("\n")
}

/// Columns begin after three blanks; names of columns have one blank at most.
fn column_starts(head: &str) -> Vec<usize> {
    let characters: Vec<char> = head.chars().collect();
    let begins = |at: usize| characters[at] != ' ' && (at == 0 || (at >= 3 && characters[at - 3..at] == [' '; 3]));
    (0..characters.len()).filter(|at| begins(*at)).collect()
}

/// Hides ages and the addresses that are handed out.
fn hidden(cell: &str) -> String {
    let mut parts = cell.split_inclusive(['s', 'm', 'h', 'd', 'y']);
    let is_age = !cell.is_empty()
        && parts.all(|part| {
            part.len() > 1
                && part[..part.len() - 1].bytes().all(|byte| byte.is_ascii_digit())
                && !part.ends_with(|c: char| c.is_ascii_digit())
        });
    if is_age {
        return "AGE".to_owned();
    }
    if cell.starts_with("127.96.") { "CLUSTER-IP".to_owned() } else { cell.to_owned() }
}
