//! `lifesign profile plan`: every step of a rollout before it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::config_node::{ANNOTATION_GRACE_PERIOD, ConfigNode};
use api::{Lease, Node, duration};
use clap::Args;
use profiles::advise::advisories;
use profiles::path::ClusterState;
use profiles::preview::{Preview, Situation, example, preview, request};
use profiles::rollout::{ControlPlane, NodeLease, World, observed};
use profiles::stock::{MirrorPod, StaticPods};
use profiles::{Advisory, Observed, Profile, Request, Target};
use serde_json::{Value, json};

use super::api::{Api, ApiArgs};
use super::rollout::default_grace;
use super::table::table;
use super::{Format, print_json};
use crate::error::Failure;
use crate::{block_on, output};

/// Show every step of a rollout, the state after it, and the states that it avoids
///
/// With --from and --to it asks no cluster; with --kubeconfig (or on a plane of this machine) it plans from what is observed
/// there to the profile that is wanted, or to --to.
#[derive(Args)]
pub(super) struct PlanArgs {
    /// The profile in force
    #[arg(long, value_name = "PROFILE", value_parser = super::profile, requires = "to")]
    from: Option<Profile>,
    /// The profile to get to
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    to: Option<Profile>,
    /// How many nodes to plan for
    #[arg(long, value_name = "N", default_value_t = 3, requires = "from")]
    nodes: usize,
    #[command(flatten)]
    api: ApiArgs,
    /// The grace of the latency profile Default, 40s to 60s
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = default_grace)]
    default_node_monitor_grace_period: Duration,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// What a plan is made for.
struct Question {
    request: Request,
    observed: Observed,
    /// Whether the nodes are kubelets of a stock cluster.
    stock: bool,
}

impl PlanArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let grace = self.default_node_monitor_grace_period;
        let Question { request, observed, stock } = match (self.from, self.to) {
            (Some(from), Some(to)) => {
                Question { request: request(from, to, grace), observed: example(from, self.nodes, grace), stock: false }
            }
            (_, to) => block_on(async { observe(&self.api.client().await?, to, grace).await })?,
        };
        let preview = preview(&request, observed);
        let advisories = advisories(&preview.end, stock, &BTreeMap::new());
        match self.output {
            Format::Json => print_json(&as_json(&preview, &advisories)),
            Format::Table => output::print(as_table(&request, &preview, &advisories).as_bytes()),
        }
    }
}

/// Reads what a cluster says about its values; what it does not say counts as something that cannot be changed.
async fn observe(api: &Api, to: Option<Profile>, default_grace: Duration) -> Result<Question, Failure> {
    let cluster: ConfigNode = api.cluster().await?;
    let nodes: Vec<Node> = api.list("/api/v1/nodes").await?;
    let leases: Vec<Lease> = api.list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await?;
    let leases: BTreeMap<String, NodeLease> =
        leases.iter().filter_map(|lease| Some((lease.metadata.name.clone(), NodeLease::read(lease)?))).collect();
    let stock = !api.is_own().await?;
    let pods = if stock { static_pods(api).await? } else { StaticPods::default() };
    let annotation = |name: &str| cluster.metadata.annotations.get(name);
    let control_plane = if stock {
        ControlPlane::Stock { pods: &pods, kubeadm: None }
    } else {
        let configz: Value = api.get("/configz").await?.unwrap_or_default();
        let seconds = |name: &str| configz["kube-apiserver"][name].as_i64();
        let grace = annotation(ANNOTATION_GRACE_PERIOD).and_then(|text| duration::parse(text).ok()).unwrap_or(default_grace);
        let tolerations = seconds("defaultNotReadyTolerationSeconds").zip(seconds("defaultUnreachableTolerationSeconds"));
        ControlPlane::Own { grace, tolerations }
    };
    let world = World {
        cluster: Some(&cluster),
        nodes: &nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect(),
        leases: &leases,
        pods: &BTreeMap::new(),
        control_plane,
    };
    let wanted = Target::parse(&cluster.spec.worker_latency_profile).unwrap_or_default();
    let target = to.map_or(wanted, Target::Of);
    let request = Request { default_grace, ..Request::new(target, world.applied()) };
    Ok(Question { request, observed: observed(runtime::Clock::system().now(), &world), stock })
}

/// Returns the steps that are left on the way to a profile, in order; `None`: that cannot be said now.
pub(super) async fn steps_left(api: &Api, to: Profile) -> Option<Vec<String>> {
    let Question { request, observed, .. } = observe(api, Some(to), profiles::profile::DEFAULT_GRACE).await.ok()?;
    let steps = preview(&request, observed).steps;
    Some(steps.into_iter().map(|line| line.step.to_string()).collect())
}

/// Returns the state of a cluster: its nodes by number, the slowest heartbeat, the smallest grace and toleration.
pub(super) async fn in_use(api: &Api) -> Result<(usize, ClusterState), Failure> {
    let Question { request, observed, .. } = observe(api, None, profiles::profile::DEFAULT_GRACE).await?;
    let (nodes, now) = (observed.nodes.len(), preview(&request, observed).start);
    let interval = now.slowest.ok_or_else(|| Failure::no("this cluster has no nodes"))?;
    Ok((nodes, ClusterState { interval, grace: now.grace, toleration_seconds: now.tolerations.0.min(now.tolerations.1) }))
}

/// Returns where a rollout stands: the profiles on the way with the present one in brackets, the steps that are left, and what to know
/// about the values in use.
pub(super) async fn stand(api: &Api) -> Option<String> {
    let Question { request, observed, stock } = observe(api, None, profiles::profile::DEFAULT_GRACE).await.ok()?;
    let advisories = advisories(&observed, stock, &BTreeMap::new());
    let preview = preview(&request, observed);
    let mut way: Vec<String> = vec![request.applied.name().to_owned()];
    way.extend(preview.path.iter().filter(|profile| **profile != request.applied).map(|profile| profile.name().to_owned()));
    way[0] = format!("[{}]", way[0]);
    let left = match preview.steps.as_slice() {
        [] if preview.blocked.is_empty() => "nothing left to do".to_owned(),
        [] => format!("{} blocked", preview.blocked.len()),
        [next] => format!("1 step left: {}", next.step),
        [next, ..] => format!("{} steps left, next {}", preview.steps.len(), next.step),
    };
    let mut text = format!("{}  {left}", way.join(" -> "));
    let start = values(&preview.start).join(" ");
    text.push_str(&format!("\nin use (slowest heartbeat, grace, tolerations, chances, class): {start}"));
    for blocked in &preview.blocked {
        text.push_str(&format!("\nblocked: {blocked}"));
    }
    for advisory in &advisories {
        text.push_str(&format!("\nto know: {}: {}", advisory.name(), advisory.text()));
    }
    Some(text)
}

/// Reads the mirrors of static pods, and what the operators of OpenShift have rendered.
async fn static_pods(api: &Api) -> Result<StaticPods, Failure> {
    let mut pods = StaticPods::default();
    for pod in api.list::<MirrorPod>("/api/v1/namespaces/kube-system/pods").await? {
        pods.take(&pod);
    }
    controllers::profile::read_rendered(&api.client, &mut pods).await;
    Ok(pods)
}

fn values(situation: &Situation) -> Vec<String> {
    let seconds = situation.slowest.map_or_else(|| "-".to_owned(), duration::format);
    vec![
        seconds,
        duration::format(situation.grace),
        format!("{}s/{}s", situation.tolerations.0, situation.tolerations.1),
        situation.chances.map_or_else(|| "-".to_owned(), |chances| chances.to_string()),
        situation.class.name().to_owned(),
    ]
}

fn as_table(request: &Request, preview: &Preview, advisories: &BTreeSet<Advisory>) -> String {
    let way: Vec<&str> = std::iter::once(request.applied).chain(preview.path.iter().copied()).map(Profile::name).collect();
    let mut text = format!("{}\n\n", way.join(" -> "));
    if preview.steps.is_empty() && preview.blocked.is_empty() {
        text.push_str("nothing to do\n");
        return text;
    }
    let mut rows = vec![[vec![String::new(), "as it is".to_owned()], values(&preview.start)].concat()];
    for (index, line) in preview.steps.iter().enumerate() {
        rows.push([vec![(index + 1).to_string(), line.step.to_string()], values(&line.after)].concat());
    }
    let head = ["#", "STEP", "SLOWEST", "GRACE", "TOLERATIONS", "CHANCES", "CLASS"];
    text.push_str(&table(&head, &[true, false, true, true, true, true, false], &rows));
    for blocked in &preview.blocked {
        text.push_str(&format!("blocked: {blocked}\n"));
    }
    if !preview.deferred.is_empty() {
        text.push_str(&format!("offline, changed when they return: {}\n", preview.deferred.join(", ")));
    }
    if !preview.avoided.is_empty() {
        text.push_str("\navoided (heartbeat/grace/toleration)\n");
    }
    for avoided in &preview.avoided {
        let state = avoided.state;
        let values = format!("{}/{}/{}", state.interval.as_secs(), state.grace.as_secs(), state.toleration_seconds);
        text.push_str(&format!("  {values:<12} {}\n", avoided.why()));
    }
    if !advisories.is_empty() {
        text.push_str("\nto know\n");
    }
    for advisory in advisories {
        text.push_str(&format!("  {}: {}\n", advisory.name(), advisory.text()));
    }
    text
}

fn as_json(preview: &Preview, advisories: &BTreeSet<Advisory>) -> Value {
    let situation = |situation: &Situation| {
        json!({
            "slowestSeconds": situation.slowest.map(|slowest| slowest.as_secs_f64()),
            "graceSeconds": situation.grace.as_secs_f64(),
            "notReadyTolerationSeconds": situation.tolerations.0,
            "unreachableTolerationSeconds": situation.tolerations.1,
            "chances": situation.chances,
            "class": situation.class.name(),
        })
    };
    let steps = preview.steps.iter().map(|line| {
        json!({"leg": line.stage.name(), "step": line.step.to_string(), "kind": line.step.kind().name(),
            "name": line.step.name(), "after": situation(&line.after)})
    });
    let avoided = preview.avoided.iter().map(|avoided| {
        json!({"between": [avoided.between.0.name(), avoided.between.1.name()],
            "intervalSeconds": avoided.state.interval.as_secs_f64(), "graceSeconds": avoided.state.grace.as_secs_f64(),
            "tolerationSeconds": avoided.state.toleration_seconds, "chances": avoided.state.chances(),
            "class": avoided.state.class().name(), "why": avoided.why()})
    });
    let blocked = preview
        .blocked
        .iter()
        .map(|blocked| json!({"kind": blocked.kind.name(), "name": blocked.name, "reason": blocked.reason.name()}));
    json!({
        "path": preview.path.iter().map(|profile| profile.name()).collect::<Vec<_>>(),
        "start": situation(&preview.start),
        "steps": steps.collect::<Vec<_>>(),
        "blocked": blocked.collect::<Vec<_>>(),
        "deferred": preview.deferred,
        "avoided": avoided.collect::<Vec<_>>(),
        "advisories": advisories.iter().map(|advisory| advisory.name()).collect::<Vec<_>>(),
    })
}
