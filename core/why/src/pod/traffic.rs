//! What leads traffic to a ready pod: Services that select it, their ports, their slices.

use std::time::Duration;

use api::{EndpointSlice, Service};

use super::{Checked, Subject};
use crate::answer::Finding;
use crate::chain::Step;
use crate::facts::{Query, Resource};
use crate::service::{matching, ports, slices};
use crate::words;

/// More Services than this are not read; a namespace has fewer.
const SERVICES_MAX: u32 = 500;
/// A slice follows a pod within this time, or its controller does not run.
const SLICE_WITHIN: Duration = Duration::from_secs(3);

fn all(subject: &Subject<'_>) -> Step<Result<Vec<Service>, String>> {
    let query = Query::list(Resource::Services, &subject.pod.metadata.namespace, "", "", SERVICES_MAX);
    Ok(match subject.facts.list(&query)? {
        Ok(listed) => Ok(listed.items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()),
        Err(refused) => Err(refused.say()),
    })
}

/// Returns the Services that select the pod.
fn selecting(subject: &Subject<'_>) -> Step<Vec<Service>> {
    let all = all(subject)?.unwrap_or_default();
    Ok(all.into_iter().filter(|service| matching::selects(service, &subject.pod.metadata.labels)).collect())
}

fn slices_of(subject: &Subject<'_>, services: &[Service]) -> Step<Result<Vec<EndpointSlice>, String>> {
    let names: Vec<&str> = services.iter().map(|service| service.metadata.name.as_str()).collect();
    slices::read(subject.facts, &subject.pod.metadata.namespace, &names)
}

/// Says which Services the pod is behind.
pub(super) fn names(subject: &Subject<'_>) -> Step<String> {
    let services = selecting(subject)?;
    let names: Vec<&str> = services.iter().map(|service| service.metadata.name.as_str()).collect();
    Ok(match names.len() {
        0 => "no Service selects it".to_owned(),
        1 => format!("behind Service {}", names[0]),
        _ => format!("behind Services {}", words::some(&names, 5)),
    })
}

pub(super) fn service(subject: &Subject<'_>) -> Step<Checked> {
    let all = match all(subject)? {
        Ok(all) => all,
        Err(why) => return Ok(Checked::Unknown(why)),
    };
    let selecting: Vec<&Service> =
        all.iter().filter(|service| matching::selects(service, &subject.pod.metadata.labels)).collect();
    if !selecting.is_empty() {
        let names: Vec<&str> = selecting.iter().map(|service| service.metadata.name.as_str()).collect();
        return Ok(Checked::Holds(words::some(&names, 5)));
    }
    // A Service that nearly selects the pod and has nothing else is one that was meant for it.
    for service in &all {
        let Some(miss) = matching::near_miss(&service.spec.selector, &subject.pod.metadata.labels) else { continue };
        let found = slices_of(subject, std::slice::from_ref(service))?;
        if service.spec.type_ == "ExternalName"
            || !found.is_ok_and(|slices| slices.iter().all(|slice| slice.endpoints.is_empty()))
        {
            continue;
        }
        let name = &service.metadata.name;
        let what = format!("Service {name} does not select it, by one label: {}", miss.say());
        return Ok(Finding::new("SelectorMismatch", format!("svc/{name}"), what)
            .seen(format!("svc/{name}"), "spec.selector", words::selector(&service.spec.selector))
            .seen(subject.short(), "metadata.labels", words::selector(&subject.pod.metadata.labels))
            .act("correct the selector of the Service, or the label of the pod", miss.patch(&service.metadata.namespace, name))
            .into());
    }
    Ok(Checked::Holds("no Service selects it".to_owned()))
}

pub(super) fn port(subject: &Subject<'_>) -> Step<Checked> {
    for service in selecting(subject)? {
        if let Some(finding) = ports::undeclared(&service, std::slice::from_ref(&subject.pod)) {
            return Ok(finding.into());
        }
    }
    Ok(Checked::Holds(String::new()))
}

pub(super) fn slice(subject: &Subject<'_>) -> Step<Checked> {
    let services = selecting(subject)?;
    if services.is_empty() {
        return Ok(Checked::Holds(String::new()));
    }
    let all = match slices_of(subject, &services)? {
        Ok(all) => all,
        Err(why) => return Ok(Checked::Unknown(why)),
    };
    for service in &services {
        let own: Vec<&EndpointSlice> = all.iter().filter(|slice| slice.service_name() == service.metadata.name).collect();
        if let Some(finding) = slices::lacks(service, &own, &subject.pod, subject.now, SLICE_WITHIN) {
            return Ok(finding.into());
        }
    }
    Ok(Checked::Holds(String::new()))
}

pub(super) fn endpoints(subject: &Subject<'_>) -> Step<Checked> {
    let services = selecting(subject)?;
    if services.is_empty() {
        return Ok(Checked::Holds(String::new()));
    }
    let Ok(all) = slices_of(subject, &services)? else { return Ok(Checked::Unknown("the slices cannot be read".to_owned())) };
    for service in &services {
        let own: Vec<&EndpointSlice> = all.iter().filter(|slice| slice.service_name() == service.metadata.name).collect();
        let usable = slices::usable(&own);
        if !usable.addresses.iter().any(|address| {
            subject.pod.status.pod_ips.iter().any(|ip| ip.ip == *address) || *address == subject.pod.status.pod_ip
        }) {
            let name = &service.metadata.name;
            let what = format!("Service {name} has its address, but consumers do not use it ({})", usable.mode.name());
            return Ok(Finding::new("NotUsable", format!("svc/{name}"), what)
                .act(
                    "the endpoints as consumers see them",
                    subject.kubectl(&format!("get endpointslices -l kubernetes.io/service-name={name} -o yaml")),
                )
                .into());
        }
    }
    Ok(Checked::Holds(String::new()))
}
