//! The live page in a real browser: Debian's chromium with its driver. Without them every test is listed as ignored, with the
//! reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod changes;
mod driver;
mod figures;
mod looks;
mod safety;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a module's tests with their names; one that is not listed is dead code, which clippy refuses.
macro_rules! tests {
    ($($module:ident: $($test:ident),+;)+) => {
        vec![$($((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn())),+),+]
    };
}

fn main() -> ExitCode {
    let tests = tests! {
        changes: what_changes_appears_without_reload_and_in_order, a_rollout_of_a_profile_shows_its_steps, a_roll_of_a_deployment_is_seen_pod_by_pod, a_page_that_was_cut_off_says_so_and_goes_on, the_waterfall_of_a_start_has_every_step;
        figures: the_first_paint_is_quick, two_hundred_pods_cost_little;
        looks: keys_filter_move_open_and_close, a_phone_shows_one_section_at_a_time, pictures_for_the_documents;
        safety: hostile_texts_stay_text, a_wrong_token_a_foreign_host_and_a_foreign_origin_are_refused;
    };
    testkit::needs::run(driver::missing(), tests)
}

/// A plane with a page.
struct Site {
    plane: Plane,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Site {
    fn start() -> Site {
        Site::start_at_speed(1)
    }

    /// Starts a plane whose clock runs faster.
    fn start_at_speed(speed: u32) -> Site {
        let mut plane = Plane::new(LIFESIGN).whole();
        plane.choose_own_profile();
        if speed > 1 {
            plane.set_environment("LIFESIGN_CLOCK_SPEED", &speed.to_string());
        }
        plane.set_arguments(["--max-pods", "300"]);
        plane.start().expect("the plane comes up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        Site { plane, client, runtime }
    }

    /// Returns the address of the page, as it was printed.
    fn url(&self) -> String {
        let mut found = None;
        wait("the address of the page", || {
            found = self.plane.log().lines().find_map(|line| line.strip_prefix("page ").map(str::to_owned));
            found.is_some()
        });
        found.unwrap()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("content-type", kind)];
        let answer = self.runtime.block_on(self.client.call_with(method, path, &headers, body)).expect("an answer");
        (answer.code, answer.json())
    }

    fn create(&self, collection: &str, object: &Value) -> Value {
        let (code, answer) = self.call("POST", collection, object);
        assert_eq!(code, 201, "{answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).1
    }

    /// Waits until an object is as it should be.
    fn wait_for(&self, path: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        wait(&format!("{path} {what}"), || {
            last = self.get(path);
            good(&last)
        });
        last
    }
}

/// Keeps a picture if `LIFESIGN_PICTURES` names a folder; it is made in any case.
fn keep(browser: &driver::Browser, name: &str) {
    use base64::Engine;
    let picture = base64::engine::general_purpose::STANDARD.decode(browser.picture()).unwrap();
    if let Some(folder) = std::env::var_os("LIFESIGN_PICTURES") {
        std::fs::write(std::path::PathBuf::from(folder).join(name), picture).unwrap();
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn condition(object: &Value, type_: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == type_);
    found.map_or_else(String::new, |condition| condition["status"].as_str().unwrap_or_default().to_owned())
}

/// A pod that runs `lifesign serve` with a readiness probe.
fn server(name: &str, app: &str, arguments: &[&str]) -> Value {
    let command: Vec<&str> = ["lifesign", "serve", "--port", "8080"].iter().chain(arguments).copied().collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "containers": [{
                "name": "server", "image": "none", "command": command,
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1},
            }],
        },
    })
}

fn service(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": 8080}]},
    })
}
