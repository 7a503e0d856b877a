//! The EndpointSlices of a Service: do they say what the pods are.

use std::time::Duration;

use api::endpointslice::{CONTROLLER_NAME, EndpointSlice, SERVICE_NAME_LABEL, TRIGGER_TIME_ANNOTATION};
use api::{Pod, Service, Timestamp};
use endpoints::usable::{Options, Policy, Usable, usable_endpoints};
use machine::Time;

use crate::answer::{Evidence, Finding};
use crate::chain::Step;
use crate::facts::{Facts, Query, Resource};
use crate::words;

/// A slice has at most a thousand endpoints, as a rule a hundred.
const SLICES_MAX: u32 = 200;

/// Returns the question for the slices of Services.
pub(crate) fn query(namespace: &str, services: &[&str]) -> Query {
    let labels = match services {
        [one] => format!("{SERVICE_NAME_LABEL}={one}"),
        many => format!("{SERVICE_NAME_LABEL} in ({})", many.join(",")),
    };
    Query::list(Resource::EndpointSlices, namespace, &labels, "", SLICES_MAX)
}

/// Returns the slices of Services, or why they cannot be read.
pub(crate) fn read(facts: &Facts, namespace: &str, services: &[&str]) -> Step<Result<Vec<EndpointSlice>, String>> {
    Ok(match facts.list(&query(namespace, services))? {
        Ok(listed) => Ok(listed.items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()),
        Err(refused) => Err(refused.say()),
    })
}

/// Returns what a consumer anywhere in the cluster would use.
pub(crate) fn usable(slices: &[&EndpointSlice]) -> Usable {
    usable_endpoints(slices.iter().copied(), Policy::Cluster, "", "", Options::default())
}

/// Returns what the slices say, in a few lines.
pub(crate) fn evidence(slices: &[&EndpointSlice]) -> Vec<Evidence> {
    let line = |slice: &&EndpointSlice| {
        let count = |good: &dyn Fn(&api::endpointslice::EndpointConditions) -> bool| {
            slice.endpoints.iter().filter(|endpoint| good(&endpoint.conditions)).count()
        };
        Evidence {
            object: format!("endpointslice/{}", slice.metadata.name),
            field: format!("of {}", controller(slice)),
            value: format!(
                "{}: {} ready, {} serving, {} terminating",
                words::count(slice.endpoints.len(), "endpoint"),
                count(&|conditions| conditions.is_ready()),
                count(&|conditions| conditions.is_serving()),
                count(&|conditions| conditions.is_terminating()),
            ),
            at: changed_at(slice),
        }
    };
    slices.iter().take(3).map(line).collect()
}

fn controller(slice: &EndpointSlice) -> &str {
    if slice.managed_by().is_empty() { "an unknown controller" } else { slice.managed_by() }
}

fn changed_at(slice: &EndpointSlice) -> Option<Timestamp> {
    let text = slice.metadata.annotations.get(TRIGGER_TIME_ANNOTATION)?;
    Timestamp::parse(text).ok()
}

fn addresses(pod: &Pod) -> Vec<&str> {
    let mut all: Vec<&str> = pod.status.pod_ips.iter().map(|ip| ip.ip.as_str()).collect();
    if all.is_empty() && !pod.status.pod_ip.is_empty() {
        all.push(&pod.status.pod_ip);
    }
    all
}

/// Returns what is wrong with how the slices of a Service show a pod that is ready.
pub(crate) fn lacks(service: &Service, slices: &[&EndpointSlice], pod: &Pod, now: Time, within: Duration) -> Option<Finding> {
    let (name, namespace) = (&service.metadata.name, &service.metadata.namespace);
    let pod_name = &pod.metadata.name;
    let own = addresses(pod);
    let all = slices.iter().flat_map(|slice| slice.endpoints.iter().map(move |endpoint| (slice, endpoint)));
    let listed = all
        .filter(|(_, endpoint)| endpoint.addresses.first().is_some_and(|address| own.contains(&address.as_str())))
        .max_by_key(|(_, endpoint)| endpoint.conditions.is_ready());
    if listed.is_some_and(|(_, endpoint)| endpoint.conditions.is_ready()) {
        return None;
    }
    let ready_at = pod.condition("Ready").and_then(|ready| ready.last_transition_time);
    let changed = [ready_at, service.metadata.creation_timestamp].into_iter().flatten().max();
    let just_now = changed.is_some_and(|at| now.since(at.0) < within);
    let object = format!("svc/{name}");
    let command = format!("kubectl -n {namespace} get endpointslices -l {SERVICE_NAME_LABEL}={name} -o yaml");
    let seen = |finding: Finding| {
        finding
            .seen_at(
                format!("pod/{pod_name}"),
                "status.conditions[Ready]",
                format!("True, address {}", own.join(", ")),
                ready_at,
            )
            .with(evidence(slices))
    };
    if just_now {
        let what = format!("pod/{pod_name} became ready just now; the slices of Service {name} do not show it yet");
        return Some(seen(Finding::new("SliceNotYet", object, what)).act("ask again in a moment", command));
    }
    let families = &service.spec.ip_families;
    let family = |address: &&str| if address.contains(':') { "IPv6" } else { "IPv4" };
    if !families.is_empty()
        && !own.is_empty()
        && !own.iter().any(|address| families.iter().any(|wanted| wanted == family(address)))
    {
        let what = format!("Service {name} is of {}, and pod/{pod_name} has only {}", families.join(", "), own.join(", "));
        return Some(
            seen(Finding::new("AddressFamily", &object, what))
                .seen(&object, "spec.ipFamilies", families.join(", "))
                .act("use a family that the pods have", format!("kubectl -n {namespace} edit svc {name}")),
        );
    }
    if slices.is_empty() {
        let what = format!(
            "Service {name} selects pod/{pod_name}, but has no EndpointSlice: the EndpointSlice controller does not run, or is far behind"
        );
        return Some(seen(Finding::new("NoSlice", object, what)).act(
            "who should write them: kube-controller-manager, or `lifesign controllers`",
            "kubectl -n kube-system get lease kube-controller-manager",
        ));
    }
    let writer =
        slices.iter().map(|slice| controller(slice)).find(|writer| *writer != CONTROLLER_NAME).unwrap_or(CONTROLLER_NAME);
    let what = match listed {
        Some((slice, endpoint)) if endpoint.conditions.is_terminating() => {
            format!(
                "slice {} shows the address of pod/{pod_name} as terminating, though the pod is ready: it is stale; {writer} writes it",
                slice.metadata.name
            )
        }
        Some((slice, _)) => format!(
            "slice {} shows pod/{pod_name} as not ready, though it is: it is stale; {writer} writes it",
            slice.metadata.name
        ),
        None => format!(
            "the slices of Service {name} do not have pod/{pod_name}, though it is ready and selected: they are stale; {writer} writes them"
        ),
    };
    Some(
        seen(Finding::new("SliceStale", object, what))
            .act(format!("look at {writer}: does it run, and what does its log say"), command),
    )
}

/// Returns that slices send traffic to pods that are not there.
pub(crate) fn stale(service: &Service, slices: &[&EndpointSlice], pods: &[&Pod]) -> Option<Finding> {
    let (name, namespace) = (&service.metadata.name, &service.metadata.namespace);
    for slice in slices {
        for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.conditions.is_ready()) {
            let address = endpoint.addresses.first()?;
            let of_pod = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod");
            let known = pods.iter().any(|pod| {
                addresses(pod).contains(&address.as_str()) && of_pod.is_none_or(|target| target.name == pod.metadata.name)
            });
            let Some(target) = of_pod.filter(|_| !known) else { continue };
            let writer = controller(slice);
            let what = format!(
                "slice {} sends traffic to {address} of pod/{}, which is not a pod of it any more: it is stale; {writer} writes it",
                slice.metadata.name, target.name
            );
            return Some(Finding::new("SliceStale", format!("svc/{name}"), what).with(evidence(slices)).act(
                format!("look at {writer}: does it run; a slice that nobody owns can be deleted"),
                format!("kubectl -n {namespace} get endpointslice {} -o yaml", slice.metadata.name),
            ));
        }
    }
    None
}
