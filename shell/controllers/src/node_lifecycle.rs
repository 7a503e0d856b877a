//! The node lifecycle controller: heartbeats in; conditions, taints and evictions out.
//!
//! Who is silent, what follows, when, and what is written is decided by [`nodes::Lifecycle`]. This feeds it from Nodes, Leases
//! and pods, and sends what it wants written.

mod metrics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::config_node::{self, ConfigNode};
use api::{Lease, Node, Pod};
use futures::StreamExt;
use machine::Time;
use nodes::lifecycle::{Effect, Input, Lifecycle, Report};
use nodes::monitor;
use runtime::{Answers, Events, Scope, Shell, WatchEvent};
use tokio::sync::watch;

use crate::context::Context;

pub use metrics::Metrics;

/// The namespace of the heartbeats.
pub(crate) const LEASES: &str = "kube-node-lease";

/// Returns the one object that carries the latency profile.
pub(crate) fn cluster_object(context: &Context) -> Events<ConfigNode> {
    context.informers.follow_in(Scope::fields(format!("metadata.name={}", config_node::NAME)))
}

/// Runs the controller until told to stop; `grace` is told the grace in use. `per_node` is the grace of Default where nodes may
/// have a profile of their own.
pub async fn run(
    context: Context,
    config: monitor::Config,
    per_node: Option<Duration>,
    grace: watch::Sender<Duration>,
    metrics: Metrics,
) {
    metrics.use_clock(&context.clock);
    let (nodes_seen, leases_seen, pods_seen) = (Synced::default(), Synced::default(), Synced::default());
    let synced = [nodes_seen.clone(), leases_seen.clone(), pods_seen.clone()];
    let own_grace = move |node: &Node| per_node.and_then(|default_grace| profiles::rollout::own::grace(node, default_grace));
    let facts = futures::stream::select_all([
        cluster_object(&context).filter_map(|seen| std::future::ready(annotated_grace(seen).map(Input::SetGrace))).boxed(),
        context
            .informers
            .follow_in::<Lease>(Scope::namespace(LEASES))
            .filter_map(move |seen| {
                input_of(seen, &leases_seen, Input::Lease, |lease| Input::LeaseDeleted(lease.metadata.name.as_str().into()))
            })
            .boxed(),
        context
            .informers
            .follow::<Node>()
            .filter_map(move |seen| {
                input_of(
                    seen,
                    &nodes_seen,
                    |node| Input::Node { grace: own_grace(&node), node },
                    |node| Input::NodeDeleted(node.metadata.name.as_str().into()),
                )
            })
            .boxed(),
        context
            .informers
            .follow::<Pod>()
            .filter_map(move |seen| input_of(seen, &pods_seen, Input::Pod, |pod| Input::PodDeleted(pod.metadata.key().into())))
            .boxed(),
    ]);
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let mut lifecycle = Lifecycle::new(config, clock.now());
    let mut shell = LifecycleShell { context, metrics, grace, synced, began: Instant::now(), step: Step::Tick };
    runtime::drive(&mut lifecycle, &clock, &stop, facts, &mut shell).await;
}

/// Whether everything of a kind was seen once; clones are the same.
#[derive(Clone, Default)]
struct Synced(Arc<std::sync::atomic::AtomicBool>);

/// Returns what the controller is told of something seen.
fn input_of<T>(
    seen: WatchEvent<T>,
    synced: &Synced,
    applied: impl Fn(Arc<T>) -> Input,
    deleted: impl Fn(&T) -> Input,
) -> std::future::Ready<Option<Input>> {
    std::future::ready(seen.input(
        applied,
        |object| deleted(&object),
        || {
            synced.0.store(true, std::sync::atomic::Ordering::Relaxed);
            None
        },
    ))
}

/// Returns the grace that the latency profile asks for. One that is gone says nothing: the planner goes on from what is used.
fn annotated_grace(seen: WatchEvent<ConfigNode>) -> Option<Duration> {
    let WatchEvent::Applied(cluster) = seen else { return None };
    cluster.annotated_grace()
}

/// What the machine is being told.
enum Step {
    Tick,
    /// A heartbeat of a node that was last heard then.
    Beat {
        node: Arc<str>,
        lease: Option<Duration>,
        before: Option<Time>,
    },
    Gone(Arc<str>),
    Fact,
}

struct LifecycleShell {
    context: Context,
    metrics: Metrics,
    grace: watch::Sender<Duration>,
    synced: [Synced; 3],
    began: Instant,
    step: Step,
}

impl Shell<Lifecycle> for LifecycleShell {
    fn before(&mut self, lifecycle: &Lifecycle, input: Option<&Input>) {
        self.step = match input {
            None => Step::Tick,
            Some(Input::Lease(lease)) => {
                let facts = monitor::LeaseFacts::read(lease);
                let before = last_seen(lifecycle, &facts.node);
                Step::Beat { node: facts.node, lease: facts.duration, before }
            }
            Some(Input::NodeDeleted(name)) => Step::Gone(Arc::clone(name)),
            Some(_) => Step::Fact,
        };
        self.began = Instant::now();
    }

    fn perform(&mut self, _: &Lifecycle, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Write(write) => {
                let writer = self.context.writer.clone();
                answers.spawn(async move {
                    let result = writer.perform(&write).await.map(drop).map_err(Into::into);
                    Input::Answered { id: write.id, result }
                });
            }
            Effect::Event(event) => self.context.events.record(event),
            Effect::Report(report) => self.report(report),
        }
    }

    fn stepped(&mut self, lifecycle: &Lifecycle) {
        let monitor = lifecycle.monitor();
        self.metrics.took(matches!(self.step, Step::Tick), self.began.elapsed());
        match &self.step {
            Step::Beat { node, lease: Some(lease), before } => {
                if let Some(now) = last_seen(lifecycle, node).filter(|now| Some(*now) != *before) {
                    self.metrics.heard(node, now, *lease);
                }
            }
            Step::Beat { .. } => {}
            Step::Gone(node) => {
                self.metrics.gone(node);
                self.metrics.state(monitor);
            }
            Step::Tick | Step::Fact => self.metrics.state(monitor),
        }
        let used = monitor.config().grace;
        self.grace.send_if_modified(|input_of| {
            let changed = std::mem::replace(input_of, used) != used;
            if changed {
                tracing::info!(grace = %api::duration::format(used), "how long a node may be silent");
            }
            changed
        });
        if self.synced.iter().all(|synced| synced.0.load(std::sync::atomic::Ordering::Relaxed)) {
            self.context.tell_synced();
        }
    }
}

impl LifecycleShell {
    fn report(&self, report: Report) {
        match report {
            Report::Silent { node, reason } => tracing::warn!(%node, reason = reason.name(), "node is silent"),
            Report::Taints { node, evicts_in } => {
                tracing::info!(%node, "health taints change");
                if let Some(zone) = evicts_in {
                    self.metrics.tainted(&zone);
                }
            }
            Report::Marked { pod, node } => tracing::warn!(%pod, %node, "pod is marked not ready: its node is silent"),
            Report::Zone { zone, state } => tracing::info!(%zone, ?state, "state of a zone"),
            Report::Evicting(pod) => tracing::warn!(%pod, "pod is evicted: it does not tolerate a taint of its node"),
            Report::Evicted(late) => self.metrics.deleted(late),
            Report::EvictionScheduled { pod, at } => tracing::info!(%pod, %at, "eviction scheduled"),
            Report::EvictionCancelled(pod) => tracing::info!(%pod, "eviction cancelled"),
        }
    }
}

fn last_seen(lifecycle: &Lifecycle, node: &str) -> Option<Time> {
    let monitor = lifecycle.monitor();
    monitor.id(node).map(|id| monitor.last_seen(id))
}
