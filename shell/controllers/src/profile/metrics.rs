//! What is measured about latency profiles.

use profiles::rollout::RolloutUpdate;
use profiles::status::Conditions;
use profiles::steps::StepResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Info {
    spec: &'static str,
    effective: &'static str,
    applied: &'static str,
    leg: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Condition {
    owner: &'static str,
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Class {
    class: &'static str,
}

/// The metrics of latency profiles.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    info: Family<Info, Gauge>,
    conditions: Family<Condition, Gauge>,
    steps: Family<StepLabels, Counter>,
    rollbacks: Family<Reason, Counter>,
    classes: Family<Class, Gauge>,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register("lifesign_latency_profile_info", "The latency profile wanted and in force", metrics.info.clone());
        registry.register(
            "lifesign_latency_profile_condition",
            "Whether a condition of an owner is true",
            metrics.conditions.clone(),
        );
        registry.register("lifesign_latency_profile_steps", "Steps of rollouts that have ended", metrics.steps.clone());
        registry.register(
            "lifesign_latency_profile_rollbacks",
            "Profiles given up in favour of Default",
            metrics.rollbacks.clone(),
        );
        registry.register(
            "lifesign_nodes_in_hazard_class",
            "Nodes by how likely they are taken for dead although they live",
            metrics.classes.clone(),
        );
        metrics
    }

    /// Takes what one look came to.
    pub(super) fn take(&self, update: &RolloutUpdate) {
        for step in &update.applied {
            self.steps.get_or_create(&StepLabels { kind: step.kind().name(), result: "ok" }).inc();
        }
        for step in &update.reverted {
            self.steps.get_or_create(&StepLabels { kind: step.kind().name(), result: "reverted" }).inc();
        }
        for restored in &update.restores {
            let result = if restored.result == StepResult::Applied { "ok" } else { "reverted" };
            self.steps.get_or_create(&StepLabels { kind: restored.kind.name(), result }).inc();
        }
        if let Some(reason) = update.rolled_back {
            self.rollbacks.get_or_create(&Reason { reason }).inc();
        }
        let Some(view) = &update.view else { return };
        self.info.clear();
        let spec = match view.spec {
            profiles::Target::Empty => "",
            profiles::Target::Of(profile) => profile.name(),
        };
        let (effective, applied, leg) = (view.outcome.effective.name(), view.applied.name(), view.stage.name());
        self.info.get_or_create(&Info { spec, effective, applied, leg }).set(1);
        for (owner, conditions) in &view.outcome.owners {
            for (r#type, on) in Conditions::TYPES.into_iter().zip(conditions.status) {
                self.conditions.get_or_create(&Condition { owner: owner.name(), r#type }).set(i64::from(on));
            }
        }
        for (class, count) in &view.classes {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.classes.get_or_create(&Class { class: class.name() }).set(count);
        }
    }
}
