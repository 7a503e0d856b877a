//! Evictions: a pod is deleted if its disruption budget allows it. What a budget allows is decided by [`workloads::evict`].

use std::sync::Arc;

use api::status::Status;
use api::{LabelSelector, Pod, PodDisruptionBudget, json};
use http::StatusCode;
use kinds::builtin::Part;
use registry::deletion::DeleteOptions;
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::Writer;
use registry::query;
use registry::state::Current;
use serde_json::{Value, json};
use workloads::Eviction;

use crate::handlers::body;
use crate::handlers::write::Next;
use crate::reply::{self, Reply};
use crate::request::Target;
use crate::server::{Call, Server};

/// What a client is told whose eviction must wait; Kubernetes.
const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Deletes a pod on request of an eviction.
pub(crate) async fn evict(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let eviction = body::object(call, true)?.value;
    let empty = json!({});
    let mut options = DeleteOptions::read(json::at(&eviction, &["deleteOptions"]).unwrap_or(&empty), &call.parameters)?;
    options.dry_run |= query::dry_run(&call.parameters, "CreateOptions")?;
    let subject = kind.resource.subject(&target.name);
    let stored = server.0.hub.snapshot().get(&kind.resource.key(&target.namespace, &target.name)).cloned();
    let pod = stored.ok_or_else(|| Status::not_found(&subject))?.object();
    if let Ok(pod) = serde_json::from_value::<Pod>(pod)
        && workloads::needs_budget(&pod)
    {
        take_from_budget(server, target, &pod, options.dry_run).await?;
        mark(server, kind, target, options.dry_run).await?;
    }
    server.delete_object(kind, &target.namespace, &target.name, &options).await?;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(reply::value(StatusCode::CREATED, call.encoding, &success))
}

/// Takes the eviction off the budget that the pod belongs to, if it belongs to one.
async fn take_from_budget(server: &Server, target: &Target, pod: &Pod, dry_run: bool) -> Result<(), Status> {
    let catalog = server.catalog();
    let budgets = catalog.find("policy", "v1", "poddisruptionbudgets").expect("budgets are built in");
    let prefix = budgets.resource.prefix(&target.namespace);
    let snapshot = server.0.hub.snapshot();
    let all = snapshot.range(&prefix, None).filter_map(|(_, stored)| read(stored.object()).ok());
    let mut matching: Vec<PodDisruptionBudget> = all.filter(|budget| applies(budget, pod)).collect();
    let Some(budget) = matching.pop() else { return Ok(()) };
    if !matching.is_empty() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::internal(why));
    }
    let subject = budgets.resource.subject(&budget.metadata.name);
    let now = server.0.clock.now();
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        match workloads::evict(now, pod, &read(current.object())?) {
            Eviction::Free => {}
            Eviction::Takes(taken) => {
                let status = json::object_mut(&mut object, &["status"]);
                status.insert("disruptionsAllowed".into(), taken["disruptionsAllowed"].clone());
                let disrupted = taken["disruptedPods"].as_object().cloned().unwrap_or_default();
                json::object_mut(&mut object, &["status", "disruptedPods"]).extend(disrupted);
            }
            Eviction::NotNow(why) => {
                let mut status = Status::too_many_requests(WOULD_VIOLATE);
                status.details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
                return Err(status);
            }
            Eviction::Forbidden(why) => return Err(Status::forbidden(&subject, why)),
        }
        Ok(Next::by(Writer::server("status"), object, UpdateForm::Patch))
    };
    server.update_object(budgets, Part::Status, &target.namespace, &budget.metadata.name, dry_run, change).await.map(drop)
}

fn read(budget: Value) -> Result<PodDisruptionBudget, Status> {
    serde_json::from_value(budget).map_err(|error| Status::internal(format!("a stored budget cannot be read: {error}")))
}

/// Returns whether a budget is about a pod: no selector is about none, an empty one about all.
fn applies(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.selector.as_ref().and_then(LabelSelector::compile);
    selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
}

/// Says on the pod why it goes, for whoever looks at it while it does.
async fn mark(server: &Server, kind: &ServedKind, target: &Target, dry_run: bool) -> Result<(), Status> {
    let now = api::Timestamp(server.0.clock.now()).to_string();
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        let condition: Value = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": now,
        });
        let conditions = json::object_mut(&mut object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.retain(|other| json::text(other, &["type"]) != "DisruptionTarget");
            conditions.push(condition.clone());
        }
        Ok(Next::by(Writer::server("status"), object, UpdateForm::Patch))
    };
    server.update_object(kind, Part::Status, &target.namespace, &target.name, dry_run, change).await.map(drop)
}
