//! What changes on the plane appears on the page, without reload.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::driver::Browser;
use crate::{LIFESIGN, PODS, SERVICES, Site, condition, keep, server, service};

/// Writes down, in the page, what appears when; each thing once.
const RECORD: &str = r#"
    window.seen = [];
    const looks = {
      "not ready": () => document.querySelector('[data-pod="default/flips"][data-state="notReady"]'),
      "terminating": () => document.querySelector('[data-service="default/web"] .cell.draining'),
      "marked": () => [...document.querySelectorAll('[data-marked="flips"]')].some((pod) => pod.textContent.includes("role=primary")),
      "silent": () => document.querySelector('[data-node="far-away"][data-ready="Unknown"]'),
    };
    const look = () => { for (const [name, there] of Object.entries(looks)) if (!window.seen.includes(name) && there()) window.seen.push(name); };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
"#;

/// A pod that is ready, and marked, while files are there.
fn flipping(folder: &Path) -> Value {
    let is_there =
        |name: &str| json!({"exec": {"command": ["test", "-f", folder.join(name)]}, "periodSeconds": 1, "failureThreshold": 1});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "flips", "labels": {"app": "flips"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "main", "image": "none", "command": ["sleep", "1000"], "readinessProbe": is_there("ready")},
        ]},
    })
}

fn marker(folder: &Path) -> Value {
    let probe = json!({"exec": {"command": ["test", "-f", folder.join("primary")]}, "periodSeconds": 1});
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "roles"},
        "spec": {"selector": {"matchLabels": {"app": "flips"}}, "probes": [{
            "name": "primary", "containerName": "main", "podConditionType": "Primary", "probe": probe,
            "markerPolicy": [{"state": "Succeeded", "labels": {"role": "primary"}}, {"state": "Failed", "labels": {"role": "replica"}}],
        }]},
    })
}

pub(crate) fn what_changes_appears_without_reload_and_in_order() {
    let site = Site::start_at_speed(10);
    let folder = site.plane.folder().to_owned();
    std::fs::write(folder.join("ready"), "").unwrap();
    site.create(PODS, &flipping(&folder));
    site.create("/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers", &marker(&folder));
    site.create(SERVICES, &service("web", "web"));
    site.create(PODS, &server("web-1", "web", &["--drain", "3s"]));
    let [flips, web] = ["flips", "web-1"].map(|name| format!("{PODS}/{name}"));
    for path in [&flips, &web] {
        site.wait_for(path, "ready", |pod| condition(pod, "Ready") == "True");
    }

    let browser = Browser::start(1400, 1000);
    browser.open(&site.url());
    browser.until("both pods ready", "document.querySelectorAll('[data-pod][data-state=ready]').length === 2");
    browser.until("the endpoint", "document.querySelector('[data-service=\"default/web\"] .cell.ready') !== null");
    browser.until("attempts", "document.querySelectorAll('.strip svg path.good[d^=M]').length >= 2");
    browser.run(RECORD);
    browser.run("window.stayed = true");

    std::fs::remove_file(folder.join("ready")).unwrap();
    site.wait_for(&flips, "not ready", |pod| condition(pod, "Ready") == "False");
    site.call("DELETE", &web, &Value::Null);
    let draining =
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
    let is_terminating = |slices: &Value| slices["items"][0]["endpoints"][0]["conditions"]["terminating"] == true;
    site.wait_for(draining, "terminating", is_terminating);
    browser.until("a terminating endpoint", "window.seen.includes('terminating')");
    std::fs::write(folder.join("primary"), "").unwrap();
    site.wait_for(&flips, "marked", |pod| pod["metadata"]["labels"]["role"] == "primary");
    // A node that never says anything again.
    site.create("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far-away"}}));
    site.wait_for("/api/v1/nodes/far-away", "silent", |node| condition(node, "Ready") == "Unknown");

    browser.until("a silent node", "window.seen.includes('silent')");
    assert_eq!(browser.run("return window.seen"), json!(["not ready", "terminating", "marked", "silent"]));
    assert_eq!(browser.run("return window.stayed"), true, "the page was not loaded again");
}

pub(crate) fn a_rollout_of_a_profile_shows_its_steps() {
    let site = Site::start_at_speed(10);
    let browser = Browser::start(1400, 1000);
    browser.open(&site.url());
    let tag = "document.querySelector('#profile .tag')?.textContent";
    browser.until("the profile", &format!("{tag} === 'applied'"));
    let wanted = json!({"spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"}});
    site.call("PATCH", "/apis/config.openshift.io/v1/nodes/cluster", &wanted);
    browser.until("a rollout", &format!("{tag} === 'rolling out'"));
    browser.until("its steps", "document.querySelectorAll('#profile [data-owner]').length === 3");
    keep(&browser, "ui-rollout.png");
    browser.until(
        "its end",
        &format!("{tag} === 'applied' && document.querySelector('#profile b').textContent === 'MediumUpdateAverageReaction'"),
    );
    let words = "document.querySelector('[data-node] .sub').textContent";
    browser.until("the grace of the profile", &format!("{words}.includes('of 2 min')"));
}

/// Notes in the page how few ready endpoints a Service ever had, and whether one was seen that drains.
const RECORD_ROLL: &str = r#"
    const cells = (kind) => document.querySelectorAll(`[data-service="default/web"] .cell.${kind}`).length;
    window.fewest = cells("ready");
    const look = () => { window.fewest = Math.min(window.fewest, cells("ready")); window.drained ||= cells("draining") > 0; };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true });
"#;

pub(crate) fn a_roll_of_a_deployment_is_seen_pod_by_pod() {
    let site = Site::start();
    site.create(SERVICES, &service("web", "web"));
    let mut template = server("none", "web", &["--drain", "1s"]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": template["spec"].take()});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    site.create(deployments, &json!({"metadata": {"name": "web"}, "spec": spec}));
    let browser = Browser::start(1400, 1000);
    browser.open(&site.url());
    browser.until("two endpoints", "document.querySelectorAll('[data-service=\"default/web\"] .cell.ready').length === 2");
    browser.run(RECORD_ROLL);
    browser.run("window.before = [...document.querySelectorAll('[data-pod]')].map((pod) => pod.dataset.pod)");
    let change = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    assert_eq!(site.call("PATCH", &format!("{deployments}/web"), &change).0, 200);
    browser.until("a pod beside the old ones", "document.querySelectorAll('[data-pod]').length > 2");
    keep(&browser, "ui-roll.png");
    browser.until(
        "two other pods",
        "(() => { const pods = [...document.querySelectorAll('[data-pod]')]; return pods.length === 2 && pods.every((pod) => pod.dataset.state === 'ready' && !window.before.includes(pod.dataset.pod)); })()",
    );
    browser.until("two endpoints again", "document.querySelectorAll('[data-service=\"default/web\"] .cell').length === 2");
    assert_eq!(browser.run("return window.drained === true"), true, "the old ones were seen to drain");
    let fewest = browser.run("return window.fewest").as_u64().unwrap();
    assert!(fewest >= 1, "there was always a ready endpoint, {fewest}");
}

/// `lifesign ui` as a process; it goes with this.
struct Ui(Child);

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn a_page_that_was_cut_off_says_so_and_goes_on() {
    use std::io::{BufRead, BufReader};
    let site = Site::start();
    site.create(PODS, &server("one", "one", &[]));
    let mut ui = Command::new(LIFESIGN);
    ui.args(["ui", "--kubeconfig"]).arg(site.plane.kubeconfig()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut ui = Ui(ui.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(ui.0.stdout.take().unwrap()).read_line(&mut url).unwrap();

    let browser = Browser::start(1000, 800);
    browser.open(url.trim());
    browser.until("the pod", "document.querySelector('[data-pod=\"default/one\"][data-state=ready]') !== null");
    browser.until("attempts of the agent", "document.querySelector('.strip svg path.good[d^=M]') !== null");
    assert_eq!(browser.run("return document.getElementById('live').dataset.state"), "live");
    let pid = Pid::from_child(&ui.0);
    kill_process(pid, Signal::STOP).unwrap();
    browser.until("that it is behind", "document.getElementById('live').textContent.startsWith('behind by')");
    site.create(PODS, &server("two", "two", &[]));
    kill_process(pid, Signal::CONT).unwrap();
    browser.until("that it is live", "document.getElementById('live').textContent === 'live'");
    browser.until("what happened meanwhile", "document.querySelector('[data-pod=\"default/two\"]') !== null");
    // Without the server the page keeps what it has, and says so.
    drop(ui);
    browser.until("that the connection is lost", "document.getElementById('live').textContent === 'reconnecting'");
    assert_eq!(browser.run("return document.querySelectorAll('[data-pod]').length"), 2);
}

pub(crate) fn the_waterfall_of_a_start_has_every_step() {
    let site = Site::start();
    site.create(SERVICES, &service("web", "web"));
    site.create(PODS, &server("web-1", "web", &["--listen-after", "400ms"]));
    let browser = Browser::start(1200, 900);
    browser.open(&site.url());
    browser.until("the pod", "document.querySelector('[data-pod=\"default/web-1\"][data-state=ready]') !== null");
    browser.run("document.querySelector('[data-pod=\"default/web-1\"]').click()");
    let names = "[...document.querySelectorAll('#detail .fall .label')].map((label) => label.textContent).join()";
    browser.until("all steps", &format!("{names} === 'created,scheduled,started,listened,probed,ready,in slice'"));
    let times = browser.run("return [...document.querySelectorAll('#detail .fall .at')].map((at) => at.textContent)");
    assert!(times.as_array().unwrap().iter().any(|time| time.as_str().unwrap().ends_with(" ms")), "{times}");
    browser.until("the answer of why", "document.querySelector('#detail .answer.healthy') !== null");
}
