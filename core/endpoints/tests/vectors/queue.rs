//! requeue.yaml, tracker.yaml, trigger_time.yaml: when a Service is synced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{Pod, Timestamp};
use endpoints::matching::Selectors;
use endpoints::pod::PodRecord;
use endpoints::requeue::{Delays, PodChange, SliceOwner, node_queues, slice_services};
use endpoints::tracker::Tracker;
use endpoints::trigger_time::{Seen, Stamp, TriggerTimes};
use machine::Time;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type RequeueCase = testkit::Case<RequeueGiven, RequeueExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RequeueGiven {
    batch_millis: u64,
    services: BTreeMap<String, Option<BTreeMap<String, String>>>,
    event: Event,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueExpect {
    queue: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Event {
    Pod {
        op: String,
        old: Option<PodGiven>,
        new: Option<PodGiven>,
    },
    Service {
        op: String,
        name: String,
    },
    Slice {
        op: String,
        old: Option<SliceGiven>,
        new: Option<SliceGiven>,
        tracked: Option<Value>,
    },
    Node {
        op: String,
        #[serde(default)]
        zone_changed: bool,
        #[serde(default)]
        services_with_pods: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PodGiven {
    resource_version: String,
    uid: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    phase: Option<String>,
    #[serde(default)]
    ips: Vec<String>,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    deleting: bool,
    node: Option<String>,
}

impl PodGiven {
    fn record(&self) -> PodRecord {
        let mut pod = json!({
            "metadata": {
                "name": "p", "namespace": "default", "uid": self.uid.as_deref().unwrap_or("u1"),
                "resourceVersion": self.resource_version, "labels": self.labels,
            },
            "spec": {"nodeName": self.node.as_deref().unwrap_or("n1")},
            "status": {
                "phase": self.phase.as_deref().unwrap_or("Running"),
                "podIPs": self.ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" }}],
            },
        });
        if self.deleting {
            pod["metadata"]["deletionTimestamp"] = json!(format!("2031-05-01T12:00:0{}Z", self.resource_version.len()));
        }
        PodRecord::from(&serde_json::from_value::<Pod>(pod).expect("a Pod"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SliceGiven {
    service: Option<String>,
    managed_by: Option<String>,
    generation: i64,
}

impl SliceGiven {
    fn belonging(&self) -> SliceOwner<'_> {
        SliceOwner {
            service: self.service.as_deref().unwrap_or_default(),
            managed_by: self.managed_by.as_deref().unwrap_or_default(),
        }
    }
}

/// Refuses notation that the runner does not know.
fn expect_op(op: &str, known: &[&str]) -> Verdict {
    if known.contains(&op) { Ok(()) } else { Err(format!("unknown op {op}")) }
}

pub(crate) fn requeue(case: RequeueCase) -> Verdict {
    let mut selectors = Selectors::default();
    for (name, selector) in &case.given.services {
        selectors.insert(&Arc::from(name.as_str()), &selector.clone().unwrap_or_default());
    }
    let delays = Delays { batch: Duration::from_millis(case.given.batch_millis) };
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<String>>();
    let (services, delay): (BTreeSet<String>, Duration) = match case.given.event {
        Event::Pod { op, old, new } => {
            expect_op(&op, &["add", "update", "delete"])?;
            let (old, new) = (old.map(|pod| pod.record()), new.map(|pod| pod.record()));
            let matching =
                |pod: &Option<PodRecord>| pod.as_ref().map(|pod| selectors.matching(&pod.labels)).unwrap_or_default();
            let change = match (&old, &new) {
                (Some(old), Some(new)) => PodChange::between(old, new),
                _ => PodChange::Both,
            };
            let services = change.services(&matching(&old), &matching(&new));
            (services.iter().map(|name| name.to_string()).collect(), delays.pod())
        }
        Event::Service { op, name } => {
            expect_op(&op, &["add", "update", "delete"])?;
            (BTreeSet::from([name]), delays.service())
        }
        Event::Slice { op, old, new, tracked } => {
            expect_op(&op, &["add", "update", "delete"])?;
            let mut tracker = Tracker::default();
            match tracked {
                None | Some(Value::Null) => {}
                Some(Value::Number(generation)) => tracker.wrote("s", generation.as_i64().expect("a generation")),
                Some(Value::String(text)) if text == "deletion-expected" => tracker.deleting("s"),
                Some(other) => return Err(format!("unknown tracked {other}")),
            }
            let news = match &new {
                Some(new) => tracker.observed("s", new.generation, false),
                None => tracker.observed_delete("s"),
            };
            let services =
                slice_services(old.as_ref().map(SliceGiven::belonging), new.as_ref().map(SliceGiven::belonging), news);
            (owned(services), delays.slice())
        }
        Event::Node { op, zone_changed, services_with_pods } => {
            expect_op(&op, &["add", "update", "delete"])?;
            let queued = node_queues(op == "add", op == "update" && zone_changed);
            (if queued { services_with_pods.into_iter().collect() } else { BTreeSet::new() }, delays.pod())
        }
    };
    let queue: BTreeMap<String, u64> = services.into_iter().map(|name| (name, delay.as_millis() as u64)).collect();
    same(&json!(case.expect.queue), &json!(queue))
}

pub(crate) type TrackerCase = testkit::Case<TrackerGiven, TrackerExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrackerGiven {
    steps: Vec<TrackerStep>,
    cache: Vec<Cached>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
enum TrackerStep {
    Write { uid: String, generation: i64 },
    DeleteIssued { uid: String },
    Observed(Cached),
    ObservedDelete { uid: String },
    ServiceDeleted {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cached {
    uid: String,
    generation: i64,
    #[serde(default)]
    deleting: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrackerExpect {
    requeue: Value,
    stale: bool,
}

pub(crate) fn tracker(case: TrackerCase) -> Verdict {
    let mut tracker = Tracker::default();
    let mut requeue = Vec::new();
    for step in &case.given.steps {
        requeue.push(match step {
            TrackerStep::Write { uid, generation } => {
                tracker.wrote(uid, *generation);
                Value::Null
            }
            TrackerStep::DeleteIssued { uid } => {
                tracker.deleting(uid);
                Value::Null
            }
            TrackerStep::Observed(slice) => tracker.observed(&slice.uid, slice.generation, slice.deleting).into(),
            TrackerStep::ObservedDelete { uid } => tracker.observed_delete(uid).into(),
            TrackerStep::ServiceDeleted {} => {
                tracker = Tracker::default();
                Value::Null
            }
        });
    }
    let stale = tracker.stale(case.given.cache.iter().map(|slice| (slice.uid.as_str(), slice.generation, slice.deleting)));
    same(&json!({"requeue": case.expect.requeue, "stale": case.expect.stale}), &json!({"requeue": requeue, "stale": stale}))
}

pub(crate) type TriggerCase = testkit::Case<TriggerGiven, Vec<Option<String>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerGiven {
    steps: Vec<TriggerStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TriggerStep {
    now: Option<Timestamp>,
    service_created: Option<Timestamp>,
    #[serde(default)]
    pods: Vec<TriggerPod>,
    #[serde(default)]
    removed_observed: BTreeMap<String, Timestamp>,
    spec_revision: Option<i64>,
    spec_observed: Option<Timestamp>,
    #[serde(default)]
    service_deleted: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TriggerPod {
    name: String,
    ready_transition: Option<Timestamp>,
    #[serde(default = "yes")]
    ready: bool,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
    observed: Option<Timestamp>,
}

impl TriggerPod {
    fn stamp(&self) -> Stamp {
        let grace = Duration::from_secs(self.deletion_grace_period_seconds.unwrap_or(0).unsigned_abs());
        Stamp {
            uid: self.name.as_str().into(),
            ready: self.ready,
            ready_transition: self.ready_transition.map(|stamp| stamp.0),
            deletion_asked: self.deletion_timestamp.map(|stamp| stamp.0 - grace),
        }
    }
}

pub(crate) fn trigger_time(case: TriggerCase) -> Verdict {
    let mut times = TriggerTimes::default();
    let mut revision = 1;
    let mut got: Vec<Option<String>> = Vec::new();
    for step in &case.given.steps {
        if step.service_deleted {
            times.forget();
            revision = 1;
            got.push(None);
            continue;
        }
        let now: Time = step.now.ok_or("a sync has a time")?.0;
        let at = |stamp: Option<Timestamp>| stamp.map_or(now, |stamp| stamp.0);
        let changed = step.spec_revision.unwrap_or(1) != revision;
        revision = step.spec_revision.unwrap_or(1);
        let seen = Seen {
            service_created: step.service_created.map(|stamp| stamp.0),
            pods: step.pods.iter().map(|pod| (pod.name.clone(), (pod.stamp(), at(pod.observed)))).collect(),
            left: step.removed_observed.iter().map(|(name, stamp)| (name.clone(), stamp.0)).collect(),
            spec_changed: changed.then(|| at(step.spec_observed)),
        };
        got.push(times.sync(now, seen).map(endpoints::render::trigger_text));
    }
    same(&json!(case.expect), &json!(got))
}
