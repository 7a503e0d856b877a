//! The priority of a new pod: the number and the preemption policy of its PriorityClass, or of the class that is the default.
//!
//! For a scheduler beside this server. Standalone nobody preempts, and there are no classes to look up.

use api::json;
use api::status::{Status, Subject};
use kinds::builtin::SYSTEM_PRIORITIES;
use serde_json::Value;

use crate::state::{Snapshot, key, prefix};

const GROUP: &str = "scheduling.k8s.io";
const RESOURCE: &str = "priorityclasses";
const PREEMPTS: &str = "PreemptLowerPriority";

/// What a pod says of its priority by itself, before defaults.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stated {
    priority: Option<i64>,
    policy: Option<String>,
}

/// What a class gives to its pods.
struct Class {
    name: String,
    priority: i64,
    policy: String,
}

impl Stated {
    pub(super) fn of(pod: &Value) -> Stated {
        let policy = json::text(pod, &["spec", "preemptionPolicy"]);
        Stated { priority: json::int(pod, &["spec", "priority"]), policy: (!policy.is_empty()).then(|| policy.to_owned()) }
    }

    /// Gives the pod what its class says. What the pod stated must be the same: texts of Kubernetes.
    pub(super) fn resolve(self, pod: &mut Value, snapshot: &Snapshot, subject: &Subject) -> Result<(), Status> {
        let wanted = json::text(pod, &["spec", "priorityClassName"]);
        let class = match wanted {
            "" => default_class(snapshot),
            name => Some(
                find(name, snapshot)
                    .ok_or_else(|| Status::forbidden(subject, format!("no PriorityClass with name {name} was found")))?,
            ),
        };
        let class = class.unwrap_or_else(|| Class { name: String::new(), priority: 0, policy: PREEMPTS.to_owned() });
        let from = "must not be provided in pod spec; priority admission controller computed";
        if let Some(stated) = self.priority.filter(|stated| *stated != class.priority) {
            let computed = class.priority;
            let why = format!("the integer value of priority ({stated}) {from} {computed} from the given PriorityClass name");
            return Err(Status::forbidden(subject, why));
        }
        if let Some(stated) = self.policy.filter(|stated| *stated != class.policy) {
            let computed = &class.policy;
            let why =
                format!("the string value of PreemptionPolicy ({stated}) {from} {computed} from the given PriorityClass name");
            return Err(Status::forbidden(subject, why));
        }
        let spec = json::object_mut(pod, &["spec"]);
        if !class.name.is_empty() {
            spec.insert("priorityClassName".to_owned(), class.name.into());
        }
        spec.insert("priority".to_owned(), class.priority.into());
        spec.insert("preemptionPolicy".to_owned(), class.policy.into());
        Ok(())
    }
}

fn find(name: &str, snapshot: &Snapshot) -> Option<Class> {
    let system = || {
        let (_, priority) = SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name)?;
        Some(Class { name: name.to_owned(), priority: *priority, policy: PREEMPTS.to_owned() })
    };
    snapshot.get(&key(GROUP, RESOURCE, "", name)).map(|stored| read(&stored.object())).or_else(system)
}

/// Returns the class of pods that name none; of several, the one with the lowest number.
fn default_class(snapshot: &Snapshot) -> Option<Class> {
    let place = prefix(GROUP, RESOURCE, "");
    let objects = snapshot.range(&place, None).map(|(_, stored)| stored.object());
    let defaults = objects.filter(|class| json::boolean(class, &["globalDefault"]) == Some(true));
    defaults.map(|class| read(&class)).min_by_key(|class| class.priority)
}

fn read(class: &Value) -> Class {
    let policy = json::text(class, &["preemptionPolicy"]);
    Class {
        name: json::text(class, &["metadata", "name"]).to_owned(),
        priority: json::int(class, &["value"]).unwrap_or(0),
        policy: if policy.is_empty() { PREEMPTS.to_owned() } else { policy.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, WindowLimits, Write};
    use machine::Time;
    use serde_json::json;

    fn world(classes: &[(&str, Value)]) -> Snapshot {
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let put = |(name, class): &(&str, Value)| {
            let mut class = class.clone();
            class["metadata"] = json!({"name": name});
            Write::put(key(GROUP, RESOURCE, "", name), Expect::Absent, class)
        };
        state.snapshot().stage(Time::from_secs(1), classes.iter().map(put).collect()).into_parts().0
    }

    fn resolved(spec: Value, world: &Snapshot) -> Result<(i64, String, String), String> {
        let mut pod = json!({"spec": spec});
        let stated = Stated::of(&pod);
        pod["spec"]["priority"] = pod["spec"].get("priority").cloned().unwrap_or_else(|| 0.into());
        stated.resolve(&mut pod, world, &Subject::default()).map_err(|status| status.message)?;
        let text = |field: &str| json::text(&pod, &["spec", field]).to_owned();
        Ok((json::int(&pod, &["spec", "priority"]).unwrap(), text("preemptionPolicy"), text("priorityClassName")))
    }

    #[test]
    fn a_pod_gets_what_its_class_says() {
        let world = world(&[("polite", json!({"value": 7, "preemptionPolicy": "Never"})), ("loud", json!({"value": 9}))]);
        let of = |name: &str| resolved(json!({"priorityClassName": name}), &world);
        assert_eq!(of("polite"), Ok((7, "Never".into(), "polite".into())));
        assert_eq!(of("loud"), Ok((9, PREEMPTS.into(), "loud".into())));
        assert_eq!(of("system-node-critical"), Ok((2_000_001_000, PREEMPTS.into(), "system-node-critical".into())));
        assert!(of("missing").unwrap_err().contains("no PriorityClass with name missing was found"));
        assert_eq!(resolved(json!({}), &world), Ok((0, PREEMPTS.into(), String::new())), "there is no default");
    }

    #[test]
    fn the_default_class_is_for_pods_that_name_none() {
        let default = |value: i64| json!({"value": value, "globalDefault": true});
        let world = world(&[("high", default(20)), ("low", default(10)), ("other", json!({"value": 1}))]);
        assert_eq!(resolved(json!({}), &world), Ok((10, PREEMPTS.into(), "low".into())), "of several the lowest");
        assert_eq!(resolved(json!({"priorityClassName": "other"}), &world), Ok((1, PREEMPTS.into(), "other".into())));
    }

    #[test]
    fn a_pod_cannot_choose_its_number() {
        let world = world(&[("polite", json!({"value": 7, "preemptionPolicy": "Never"}))]);
        let of = |priority: i64, policy: &str| {
            resolved(json!({"priorityClassName": "polite", "priority": priority, "preemptionPolicy": policy}), &world)
        };
        assert!(of(7, "Never").is_ok(), "the same is no choice");
        assert!(of(8, "Never").unwrap_err().contains("the integer value of priority (8) must not be provided"));
        assert!(of(7, PREEMPTS).unwrap_err().contains("the string value of PreemptionPolicy (PreemptLowerPriority)"));
        assert!(resolved(json!({"priority": 5}), &world).is_err());
    }
}
