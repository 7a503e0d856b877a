//! The chain of a Service: from its selector to an address that takes traffic.

pub(crate) mod matching;
mod nobody;
pub(crate) mod ports;
pub(crate) mod slices;

use std::time::Duration;

use api::{EndpointSlice, Pod, Service, json};
use endpoints::usable::Mode;
use machine::Time;
use serde_json::Value;

use crate::answer::{Answer, Finding};
use crate::chain::{Chain, Step, Stop};
use crate::exists;
use crate::facts::{Facts, Query, Resource};
use crate::pod;
use crate::target::Target;
use crate::words;

const LINKS: &[&str] = &["exists", "selector", "pods", "port", "slice", "endpoints", "address"];
/// Pods are read to see which are ready and what they declare: some of them stand for all.
const PODS_MAX: u32 = 50;
/// A slice follows its Service and pods within this time, or its controller does not run.
const SLICE_WITHIN: Duration = Duration::from_secs(3);

/// A Service and what is known of it.
struct Subject<'a> {
    now: Time,
    target: &'a Target,
    facts: &'a Facts,
    service: Service,
    raw: &'a Value,
    slices: Vec<EndpointSlice>,
}

/// The first of the pods of a Service, and how many more there are.
struct Selected<'a> {
    pods: Vec<(Pod, &'a Value)>,
    more: u64,
}

/// What a look at a link said: how it holds, or what is wrong.
type Look = Step<Result<String, Box<Finding>>>;

/// Examines a Service.
pub(crate) fn examine(now: Time, target: &Target, facts: &Facts) -> Step<Answer> {
    facts.want([exists::query(target), slices::query(&target.namespace, &[&target.name])]);
    let mut chain = Chain::new(LINKS);
    let raw = match exists::find(target, facts)? {
        Ok(raw) => raw,
        Err(finding) => return Ok(chain.broken(target, finding.what.clone(), finding)),
    };
    let service: Service = serde_json::from_value(raw.clone()).map_err(|error| {
        Stop::CannotTell(Finding::new("Unreadable", target.short(), format!("the Service cannot be read: {error}")))
    })?;
    chain.ok(format!("created {}", words::when(now, service.metadata.creation_timestamp)));
    if service.spec.type_ == "ExternalName" {
        return external_name(target, facts, &service, raw, chain);
    }
    let slices = match slices::read(facts, &target.namespace, &[&target.name])? {
        Ok(slices) => slices,
        Err(why) => return Err(Stop::CannotTell(Finding::new("CannotRead", target.short(), why))),
    };
    let subject = Subject { now, target, facts, service, raw, slices };
    let looks: [fn(&Subject<'_>) -> Look; 6] = [selector, selected, port, slice, usable, address];
    let mut notes = Vec::new();
    for look in looks {
        match look(&subject)? {
            Ok(note) => {
                chain.ok(note.clone());
                notes.push(note);
            }
            Err(finding) => {
                let headline = format!("{} {}: {}", target.short(), subject.state(), finding.what);
                return Ok(chain.broken(target, headline, *finding));
            }
        }
    }
    let shown: Vec<&str> =
        [&notes[1], &notes[4], &notes[5]].into_iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
    Ok(chain.healthy(target, format!("{} has somewhere to send traffic: {}", target.short(), shown.join("; "))))
}

impl Subject<'_> {
    fn state(&self) -> &'static str {
        match slices::usable(&self.slices.iter().collect::<Vec<_>>()).mode {
            Mode::Ready => "has endpoints, but",
            Mode::ServingTerminating => "is losing its endpoints",
            _ => "has nowhere to send traffic",
        }
    }

    fn name(&self) -> &str {
        &self.service.metadata.name
    }

    fn namespace(&self) -> &str {
        &self.service.metadata.namespace
    }

    fn kubectl(&self, rest: &str) -> String {
        format!("kubectl -n {} {rest}", self.namespace())
    }

    /// Returns the pods that the Service selects, or why they cannot be read.
    fn pods(&self) -> Step<Result<Selected<'_>, String>> {
        let labels = words::selector(&self.service.spec.selector);
        let query = Query::list(Resource::Pods, self.namespace(), &labels, "", PODS_MAX);
        Ok(match self.facts.list(&query)? {
            Ok(listed) => {
                let read = |item| Some((serde_json::from_value::<Pod>(Value::clone(item)).ok()?, item));
                Ok(Selected { pods: listed.items.iter().filter_map(read).collect(), more: listed.more })
            }
            Err(refused) => Err(refused.say()),
        })
    }

    fn has_selector(&self) -> bool {
        !self.service.spec.selector.is_empty()
    }

    fn references(&self) -> Vec<&EndpointSlice> {
        self.slices.iter().collect()
    }
}

fn external_name(target: &Target, facts: &Facts, service: &Service, raw: &Value, mut chain: Chain) -> Step<Answer> {
    let name = json::text(raw, &["spec", "externalName"]).trim_end_matches('.');
    let headline = |what: &str| format!("{}: {what}", target.short());
    if api::ip::parse(name).is_some() {
        let what = format!("its externalName is the address {name}: DNS answers with it as a name, which nobody resolves");
        let finding =
            Finding::new("ExternalNameIsAddress", target.short(), &what).seen(target.short(), "spec.externalName", name).act(
                "use a Service without selector and an EndpointSlice with that address, or a DNS name",
                format!("kubectl -n {} edit svc {}", target.namespace, target.name),
            );
        return Ok(chain.broken(target, headline(&what), finding));
    }
    let parts: Vec<&str> = name.split('.').collect();
    if let [inner, namespace, "svc", ..] = parts.as_slice() {
        let query = Query::get(Resource::Services, namespace, inner);
        if facts.object(&query)?.is_ok_and(|found| found.is_none()) {
            let what = format!("its externalName {name} means Service {inner} in namespace {namespace}, which does not exist");
            let finding = Finding::new("ExternalNameMissing", target.short(), &what)
                .seen(target.short(), "spec.externalName", name)
                .act("correct the name, or create that Service", format!("kubectl -n {namespace} get svc"));
            return Ok(chain.broken(target, headline(&what), finding));
        }
    }
    let ignored =
        if service.spec.selector.is_empty() { "" } else { "; its selector is ignored: type ExternalName has no pods" };
    let what = format!(
        "type ExternalName: DNS leads its clients to {name}; there are no endpoints, and nothing in this cluster to look at{ignored}"
    );
    chain.ok(what.clone());
    Ok(chain.healthy(target, headline(&what)))
}

fn selector(subject: &Subject<'_>) -> Look {
    if subject.has_selector() {
        return Ok(Ok(words::selector(&subject.service.spec.selector)));
    }
    if subject.slices.iter().any(|slice| !slice.endpoints.is_empty()) {
        let by: Vec<&str> = subject.slices.iter().map(|slice| slice.managed_by()).filter(|by| !by.is_empty()).collect();
        return Ok(Ok(format!("none; its EndpointSlices are made by {}", by.first().copied().unwrap_or("somebody else"))));
    }
    let what = "it has no selector, and nobody has made EndpointSlices with addresses for it".to_owned();
    let name = subject.name();
    Ok(Err(Box::new(
        Finding::new("NoSelector", subject.target.short(), what)
            .seen(subject.target.short(), "spec.selector", "empty")
            .seen(
                "endpointslices",
                format!("kubernetes.io/service-name={name}"),
                format!("{}, without endpoints", words::count(subject.slices.len(), "slice")),
            )
            .act(
                "give it the labels of its pods",
                subject.kubectl(&format!(
                    "patch svc {name} --type=merge -p '{{\"spec\":{{\"selector\":{{\"app\":\"LABEL\"}}}}}}'"
                )),
            )
            .act("or, for addresses outside the cluster, make an EndpointSlice with that label", ""),
    )))
}

fn selected(subject: &Subject<'_>) -> Look {
    if !subject.has_selector() {
        return Ok(Ok(String::new()));
    }
    let Selected { pods, more } = match subject.pods()? {
        Ok(found) => found,
        Err(why) => return Ok(Ok(format!("cannot be seen: {why}"))),
    };
    if pods.is_empty() {
        return nobody::explain(subject.facts, &subject.service).map(|finding| Err(Box::new(finding)));
    }
    let ready = pods.iter().filter(|(pod, _)| pod.condition_true("Ready") && !pod.metadata.deleting()).count();
    let shown = if more > 0 {
        // An API server does not count what a selector leaves out.
        format!("{ready} of the first {} ready, and there are more", words::count(pods.len(), "pod"))
    } else {
        format!("{ready} of {} ready", words::count(pods.len(), "pod"))
    };
    if subject.service.spec.publish_not_ready_addresses {
        return Ok(Ok(format!("{shown}; publishNotReadyAddresses: ready or not")));
    }
    let elsewhere = more > 0 && slices::usable(&subject.references()).mode == Mode::Ready;
    if ready > 0 || elsewhere {
        let sick = pods.iter().find(|(pod, _)| !pod.condition_true("Ready") && !pod.metadata.deleting() && !pod.terminal());
        return Ok(Ok(match sick {
            Some((pod, _)) => format!("{shown}; see `lifesign why pod/{}`", pod.metadata.name),
            None => shown,
        }));
    }
    none_ready(subject, &pods, &shown)
}

/// Every pod is there and none is ready: the first broken link is that of a pod.
fn none_ready(subject: &Subject<'_>, pods: &[(Pod, &Value)], shown: &str) -> Look {
    if pods.iter().all(|(pod, _)| pod.metadata.deleting()) {
        let still = slices::usable(&subject.references());
        let serve = if still.mode == Mode::ServingTerminating {
            "; until they stop, those that still serve get its traffic"
        } else {
            ""
        };
        let what = format!("every pod of it is being deleted ({}){serve}", words::count(pods.len(), "pod"));
        let first = &pods[0].0;
        return Ok(Err(Box::new(
            Finding::new("AllTerminating", subject.target.short(), what)
                .seen_at(
                    format!("pod/{}", first.metadata.name),
                    "metadata.deletionTimestamp",
                    "set",
                    first.metadata.deletion_timestamp,
                )
                .act(
                    "make new ones: scale its workload up, or look at why it makes none",
                    subject.kubectl("get deployments,statefulsets,replicasets"),
                ),
        )));
    }
    // A pod that is neither leaving nor done says most.
    let best = pods
        .iter()
        .find(|(pod, _)| !pod.metadata.deleting() && !pod.terminal())
        .or_else(|| pods.iter().find(|(pod, _)| !pod.metadata.deleting()));
    let (pod, raw) = best.unwrap_or(&pods[0]);
    let name = &pod.metadata.name;
    let what_of = |inner: &str| format!("none of its pods is ready ({shown}); pod/{name}: {inner}");
    Ok(Err(Box::new(match pod::first_broken(subject.now, subject.facts, raw)? {
        Some((link, mut finding)) => {
            finding.what = what_of(&format!("{link}: {}", finding.what));
            finding.act("the whole chain of that pod", format!("lifesign why pod/{name} -n {}", subject.namespace()))
        }
        None => Finding::new("NotReady", format!("pod/{name}"), what_of("it has ended"))
            .seen(format!("pod/{name}"), "status.phase", pod.status.phase.clone())
            .act("the whole chain of that pod", format!("lifesign why pod/{name} -n {}", subject.namespace())),
    })))
}

fn port(subject: &Subject<'_>) -> Look {
    if !subject.has_selector() {
        return Ok(Ok(String::new()));
    }
    let Ok(Selected { pods, .. }) = subject.pods()? else { return Ok(Ok(String::new())) };
    let publishes = subject.service.spec.publish_not_ready_addresses;
    let live: Vec<Pod> = pods
        .into_iter()
        .map(|(pod, _)| pod)
        .filter(|pod| (publishes || pod.condition_true("Ready")) && !pod.metadata.deleting())
        .collect();
    Ok(match ports::undeclared(&subject.service, &live) {
        Some(finding) => Err(Box::new(finding)),
        None => Ok(ports::say(&subject.service)),
    })
}

fn slice(subject: &Subject<'_>) -> Look {
    if !subject.has_selector() {
        return Ok(Ok(String::new()));
    }
    let Ok(Selected { pods, more }) = subject.pods()? else { return Ok(Ok(String::new())) };
    let own = subject.references();
    for (pod, _) in pods.iter().filter(|(pod, _)| pod.condition_true("Ready") && !pod.metadata.deleting() && !pod.terminal()) {
        if let Some(finding) = slices::lacks(&subject.service, &own, pod, subject.now, SLICE_WITHIN) {
            return Ok(Err(Box::new(finding)));
        }
    }
    if more == 0 {
        let known: Vec<&Pod> = pods.iter().map(|(pod, _)| pod).collect();
        if let Some(finding) = slices::stale(&subject.service, &own, &known) {
            return Ok(Err(Box::new(finding)));
        }
    }
    Ok(Ok(words::count(own.len(), "slice")))
}

fn usable(subject: &Subject<'_>) -> Look {
    let own = subject.references();
    let usable = slices::usable(&own);
    let command = subject.kubectl(&format!("get endpointslices -l kubernetes.io/service-name={} -o yaml", subject.name()));
    Ok(match usable.mode {
        Mode::Ready => {
            let local = if subject.service.spec.internal_traffic_policy == "Local" {
                "; internalTrafficPolicy Local: only clients on a node with an endpoint reach one"
            } else {
                ""
            };
            Ok(format!("{}{local}", words::count(usable.addresses.len(), "usable endpoint")))
        }
        Mode::ServingTerminating => Err(Box::new(
            Finding::new(
                "OnlyTerminating",
                subject.target.short(),
                format!("only {} on its way out still serves it", words::count(usable.addresses.len(), "endpoint")),
            )
            .with(slices::evidence(&own))
            .act("make new pods before the old ones are gone", command),
        )),
        Mode::None => Err(Box::new(
            Finding::new("NoUsableEndpoint", subject.target.short(), "no endpoint of it is ready".to_owned())
                .with(slices::evidence(&own))
                .act("who writes these slices, and why are they not ready", command),
        )),
    })
}

fn address(subject: &Subject<'_>) -> Look {
    let spec = &subject.service.spec;
    if spec.type_ != "LoadBalancer" {
        return Ok(Ok(if spec.cluster_ip == "None" {
            "headless: DNS gives the addresses of its pods".to_owned()
        } else {
            format!("cluster IP {}", spec.cluster_ip)
        }));
    }
    let ingress = json::items(subject.raw, &["status", "loadBalancer", "ingress"]);
    if let Some(first) = ingress.first() {
        let shown = [json::text(first, &["ip"]), json::text(first, &["hostname"])]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or("?");
        return Ok(Ok(format!("load balancer {shown}")));
    }
    let query = Query::events(subject.namespace(), "Service", subject.name());
    let reported = subject.facts.list(&query)?.map(|listed| listed.items).unwrap_or_default();
    let reported = crate::events::read(reported, &subject.service.metadata.uid);
    let event = crate::events::last(&reported, |event| event.warning).or(reported.last());
    let why = event.map_or_else(
        || "; no controller has said anything: there may be none".to_owned(),
        |event| format!(": {}", event.message),
    );
    let what = format!("it works inside the cluster, but no load balancer has given it an address{why}");
    Ok(Err(Box::new(
        Finding::new("NoLoadBalancer", subject.target.short(), what)
            .seen_at(
                subject.target.short(),
                "status.loadBalancer.ingress",
                "empty",
                subject.service.metadata.creation_timestamp,
            )
            .with(event.map(crate::events::Event::evidence))
            .act(
                "look at the cloud controller manager or load balancer controller; without one use type NodePort",
                subject.kubectl(&format!("describe svc {}", subject.name())),
            ),
    )))
}
