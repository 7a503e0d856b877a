//! `lifesign profile plan`: every step of a rollout before it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::config_node::{ANNOTATION_APPLIED_PROFILE, ANNOTATION_GRACE_PERIOD, ConfigNode};
use api::{Lease, Node, duration};
use clap::Args;
use profiles::advise::advisories;
use profiles::path::ClusterState;
use profiles::plan::{BlockReason, Blocked, InstanceKind};
use profiles::preview::{Preview, Situation, example, preview, request};
use profiles::rollout::{ControlPlane, NodeLease, World, observed};
use profiles::status::Reason;
use profiles::steps::{Component, ComponentValues, KubeletValues, NodeSteps};
use profiles::stock::{MirrorPod, StaticPods};
use profiles::{Advisory, Observed, Owner, Profile, Request, Target};
use serde_json::{Value, json};

use super::api::{Api, ApiArgs};
use super::rollout::GraceArgs;
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
    #[command(flatten)]
    grace: GraceArgs,
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
    /// What kubelets use, by node, as far as their agents say.
    kubelets: BTreeMap<String, KubeletValues>,
    /// Why instances cannot be changed.
    obstacles: BTreeMap<(InstanceKind, String), String>,
}

impl Question {
    /// A plan that asks no cluster.
    fn offline(from: Profile, to: Profile, nodes: usize, grace: Duration) -> Question {
        let (request, observed) = (request(from, to, grace), example(from, nodes, grace));
        Question { request, observed, stock: false, kubelets: BTreeMap::new(), obstacles: BTreeMap::new() }
    }

    /// Returns what blocks an instance, and why.
    fn describe(&self, blocked: &Blocked) -> String {
        let why = self.obstacles.get(&(blocked.kind, blocked.name.clone())).filter(|why| !why.is_empty());
        let why = why.filter(|_| blocked.reason == BlockReason::ComponentNotAware);
        format!("{blocked}: {}", why.map_or(blocked.reason.text(), String::as_str))
    }
}

impl PlanArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let grace = self.grace.default_node_monitor_grace_period;
        let question = match (self.from, self.to) {
            (Some(from), Some(to)) => Question::offline(from, to, self.nodes, grace),
            (_, to) => block_on(async { observe(&self.api.client().await?, to.map(Target::Of), grace).await })?,
        };
        let preview = preview(&question.request, question.observed.clone());
        // What is changed on the way has the settings of the profile then.
        let mut kubelets = question.kubelets.clone();
        kubelets.retain(|name, _| !preview.steps.iter().any(|line| line.step.name() == name));
        let advisories = advisories(&preview.end, question.stock, &kubelets);
        match self.output {
            Format::Json => print_json(&as_json(&question, &preview, &advisories)),
            Format::Table => output::print(as_table(&question, &preview, &advisories).as_bytes()),
        }
    }
}

/// Reads what a cluster says about its values; what it does not say counts as something that cannot be changed.
async fn observe(api: &Api, to: Option<Target>, default_grace: Duration) -> Result<Question, Failure> {
    let cluster: ConfigNode = api.cluster().await?;
    let nodes: Vec<Node> = api.list("/api/v1/nodes").await?;
    let leases: Vec<Lease> = api.list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await?;
    let leases: BTreeMap<String, NodeLease> =
        leases.iter().filter_map(|lease| Some((lease.metadata.name.clone(), NodeLease::read(lease)?))).collect();
    let stock = !api.is_own().await?;
    let pods = if stock { static_pods(api).await? } else { StaticPods::default() };
    let control_plane = if stock {
        ControlPlane::Stock { pods: &pods, kubeadm: None }
    } else {
        let configz: Value = api.get("/configz").await?.unwrap_or_default();
        let seconds = |name: &str| configz["kube-apiserver"][name].as_i64();
        let tolerations = seconds("defaultNotReadyTolerationSeconds").zip(seconds("defaultUnreachableTolerationSeconds"));
        ControlPlane::Own { grace: own_grace(&cluster, default_grace), tolerations }
    };
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
    let kubelets = nodes.iter().filter_map(|(name, node)| Some((name.clone(), NodeSteps::read(node).kubelet()?))).collect();
    let world = World { cluster: Some(&cluster), nodes: &nodes, leases: &leases, pods: &BTreeMap::new(), control_plane };
    let wanted = Target::parse(&cluster.spec.worker_latency_profile).unwrap_or_default();
    let request = Request { default_grace, ..Request::new(to.unwrap_or(wanted), world.applied()) };
    let (observed, obstacles) = observed(runtime::Clock::system().now(), &world);
    Ok(Question { request, observed, stock, kubelets, obstacles })
}

/// Returns the grace that the node lifecycle controller of our own plane uses. It is asked to use what the carrier says; until its owner has said
/// that it does, the smaller one of that and of the profile before counts.
fn own_grace(cluster: &ConfigNode, default_grace: Duration) -> Duration {
    let annotation = |name: &str| cluster.metadata.annotations.get(name);
    let applied = annotation(ANNOTATION_APPLIED_PROFILE).and_then(|name| Profile::parse(name).ok()).unwrap_or_default();
    let before = applied.values_with(default_grace).node_monitor_grace_period;
    let Some(asked) = annotation(ANNOTATION_GRACE_PERIOD).and_then(|text| duration::parse(text).ok()) else { return before };
    let conditions = &cluster.status.worker_latency_profile_status.conditions;
    let owner = Owner::KubeControllerManager.name();
    let changing = conditions.iter().any(|one| one.owner == owner && one.reason == Reason::ProfileUpdateTriggered.name());
    if changing { asked.min(before) } else { asked }
}

/// Returns what the API server gives to new pods, as it says itself; on a stock cluster, as all its replicas say.
pub(super) async fn tolerations_in_use(api: &Api) -> Result<(i64, i64), Failure> {
    let found: BTreeSet<Option<(i64, i64)>> = if api.is_own().await? {
        let configz: Value = api.get("/configz").await?.unwrap_or_default();
        let seconds = |name: &str| configz["kube-apiserver"][name].as_i64();
        [seconds("defaultNotReadyTolerationSeconds").zip(seconds("defaultUnreachableTolerationSeconds"))].into()
    } else {
        let pods = static_pods(api).await?;
        let seconds = |values: Option<ComponentValues>| match values? {
            ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => {
                Some((not_ready_seconds, unreachable_seconds))
            }
            _ => None,
        };
        pods.of(Component::ApiServer).map(|(_, values)| seconds(values)).collect()
    };
    let hint = "say which profile pods are to follow with --to";
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(seconds)] => Ok(*seconds),
        [] | [None] => Err(Failure::no("the API server does not say which tolerations it gives to new pods").hint(hint)),
        _ => Err(Failure::no("the API servers do not all give the same tolerations to new pods").hint(hint)),
    }
}

/// Returns the steps that are left on the way to what is wanted, in order; `None`: that cannot be said now.
pub(super) async fn steps_left(api: &Api, to: Target, default_grace: Duration) -> Option<Vec<String>> {
    let Question { request, observed, .. } = observe(api, Some(to), default_grace).await.ok()?;
    let steps = preview(&request, observed).steps;
    Some(steps.into_iter().map(|line| line.step.to_string()).collect())
}

/// Returns the state of a cluster: its nodes by number, the slowest heartbeat, the smallest grace and toleration.
pub(super) async fn in_use(api: &Api, default_grace: Duration) -> Result<(usize, ClusterState), Failure> {
    let Question { request, observed, .. } = observe(api, None, default_grace).await?;
    let (nodes, now) = (observed.nodes.len(), preview(&request, observed).start);
    let interval = now.slowest.ok_or_else(|| Failure::no("this cluster has no nodes"))?;
    Ok((nodes, ClusterState { interval, grace: now.grace, toleration_seconds: now.tolerations.0.min(now.tolerations.1) }))
}

/// Returns where a rollout stands: the profiles on the way with the present one in brackets, the steps that are left, and what to know
/// about the values in use.
pub(super) async fn stand(api: &Api, default_grace: Duration) -> Option<String> {
    let question = observe(api, None, default_grace).await.ok()?;
    let advisories = advisories(&question.observed, question.stock, &question.kubelets);
    let preview = preview(&question.request, question.observed.clone());
    let applied = question.request.applied;
    let mut way: Vec<String> = vec![applied.name().to_owned()];
    way.extend(preview.path.iter().filter(|profile| **profile != applied).map(|profile| profile.name().to_owned()));
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
        text.push_str(&format!("\nblocked: {}", question.describe(blocked)));
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

fn as_table(question: &Question, preview: &Preview, advisories: &BTreeSet<Advisory>) -> String {
    let way: Vec<&str> =
        std::iter::once(question.request.applied).chain(preview.path.iter().copied()).map(Profile::name).collect();
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
        text.push_str(&format!("blocked: {}\n", question.describe(blocked)));
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

fn as_json(question: &Question, preview: &Preview, advisories: &BTreeSet<Advisory>) -> Value {
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
    let blocked = preview.blocked.iter().map(|blocked| {
        let message = question.describe(blocked);
        json!({"kind": blocked.kind.name(), "name": blocked.name, "reason": blocked.reason.name(), "message": message})
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(reason: &str) -> ConfigNode {
        let condition = json!({"owner": "KubeControllerManagerOperator", "type": "Progressing", "status": "True", "reason": reason,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let annotations = json!({"lifesign.dev/node-monitor-grace-period": "2m0s"});
        let status = json!({"workerLatencyProfileStatus": {"conditions": [condition]}});
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "status": status})).unwrap()
    }

    #[test]
    fn a_grace_that_was_only_asked_for_is_not_taken_for_one_in_use() {
        let (forty, sixty) = (Duration::from_secs(40), Duration::from_secs(60));
        assert_eq!(own_grace(&cluster("ProfileUpdateTriggered"), forty), forty);
        assert_eq!(own_grace(&cluster("ProfileUpdateTriggered"), sixty), sixty, "the Default of this plane");
        assert_eq!(own_grace(&cluster("WaitingForOtherOwners"), forty), Duration::from_secs(120), "its owner is done");
        assert_eq!(own_grace(&ConfigNode::default(), sixty), sixty);
    }

    #[test]
    fn what_blocks_says_why() {
        let mut question = Question::offline(Profile::Default, Profile::Medium, 1, Duration::from_secs(40));
        question.obstacles.insert((InstanceKind::Kcm, "kcm-0".to_owned()), "no static pod of it is seen".to_owned());
        let blocked = |kind, name: &str, reason| Blocked { kind, name: name.to_owned(), reason };
        let not_aware = blocked(InstanceKind::Kcm, "kcm-0", BlockReason::ComponentNotAware);
        assert_eq!(question.describe(&not_aware), "kcm kcm-0 ComponentNotAware: no static pod of it is seen");
        let avoided = blocked(InstanceKind::Node, "n0", BlockReason::HazardousStateAvoided);
        assert_eq!(question.describe(&avoided), "node n0 HazardousStateAvoided: living nodes could be taken for dead");
    }
}
