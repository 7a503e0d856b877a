//! Syncs a Service from what is stored, by the plan that defines what is right, and settles it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ip::Family;
use machine::Time;

use crate::content::Edit;
use crate::desired::{Desired, desired};
use crate::index::Scope;
use crate::index::entry::{Draft, EndpointPod, Entry, FamilyState, Outcome, Place};
use crate::index::slices::Body;
use crate::plan::{Observed, Plan, Slice, plan_service};
use crate::pod::PodRecord;
use crate::render;
use crate::service::ServiceRecord;
use crate::trigger_time::{Stamp, change_time};

/// A member for every selected pod, by ordinal; those without a place are no endpoints.
type Members = Vec<(Arc<str>, EndpointPod)>;

impl Entry {
    /// Recomputes the Service and returns what must be written. From here on it is settled, as long as the writes succeed.
    pub(crate) fn rebuild(&mut self, scope: &Scope<'_>) -> Outcome {
        let service = self.service.take().expect("only managed Services are synced");
        let selected = selected(&self.matching, scope);
        let facts = selected.iter().map(|pod| (*pod, scope.nodes.fact(&pod.node)));
        let desired = desired(&service, facts, scope.settings);
        let plan = self.planned(&service, &desired, scope);

        let mut members = self.remember(&selected, &desired, scope);
        let trigger = self.rebuilt_trigger(&service, &members, scope.now);
        for slice in plan.unchanged {
            self.keep(&service, &slice, &mut members, scope);
        }
        let text = trigger.map(render::trigger_text);
        let mut draft = |slice| self.draft(&service, slice, text.as_deref(), &mut members, scope);
        let updates = plan.updates.into_iter().map(&mut draft).collect();
        let creates = plan.creates.into_iter().map(&mut draft).collect();
        let there = members.into_iter().filter(|(_, member)| member.places.iter().any(Option::is_some));
        self.memory.members = there.collect();
        let uid = |name: &str| self.slices.get(name).expect("planned from it").meta.uid.clone();
        let deletes = plan.deletes.iter().map(|name| (name.as_str().into(), uid(name))).collect();
        // While the Service is being deleted nothing is created, so there are members without a slice: recompute each time.
        self.memory.settled = !service.deleting;
        self.service = Some(service);
        Outcome { creates, updates, deletes, churn: plan.churn, trigger }
    }

    fn planned(&self, service: &ServiceRecord, desired: &Desired, scope: &Scope<'_>) -> Plan {
        let stored: Vec<_> = self.slices.sorted().into_iter().map(|slice| (slice, slice.body.endpoints())).collect();
        let observed: Vec<Observed<'_>> = stored
            .iter()
            .map(|(slice, endpoints)| Observed {
                meta: &slice.meta,
                address_type: &slice.address_type,
                ports: Arc::clone(&slice.ports),
                endpoints,
            })
            .collect();
        plan_service(service, desired, &observed, scope.settings)
    }

    /// Returns when that happened for which is written, and begins to collect anew.
    fn rebuilt_trigger(&mut self, service: &ServiceRecord, members: &Members, now: Time) -> Option<Time> {
        let memory = &mut self.memory;
        let touched = std::mem::take(&mut memory.touched);
        let (spec_changed, carried) = (memory.spec_changed.take(), memory.carried.take());
        let Some(previous) = memory.synced_at.replace(now) else { return service.created };
        let seen_at = |pod: &Arc<str>| touched.get(pod).map(|touch| touch.changed_at).or(spec_changed).unwrap_or(now);
        let after: BTreeMap<&Arc<str>, &Stamp> = members
            .iter()
            .filter(|(_, member)| member.places.iter().any(Option::is_some))
            .map(|(pod, member)| (pod, &member.stamp))
            .collect();
        let before = |pod: &Arc<str>| memory.members.get(pod).map(|member| &member.stamp);
        let changed = after.iter().filter_map(|(pod, stamp)| change_time(before(pod), Some(stamp), seen_at(pod), previous));
        let gone = memory.members.iter().filter(|(pod, _)| !after.contains_key(pod));
        let left = gone.filter_map(|(pod, member)| change_time(Some(&member.stamp), None, seen_at(pod), previous));
        changed.chain(left).chain(spec_changed).chain(carried).min()
    }

    /// Makes the groups anew, and the members of all selected pods; nobody has a slice yet.
    fn remember(&mut self, selected: &[&PodRecord], desired: &Desired, scope: &Scope<'_>) -> Members {
        let memory = &mut self.memory;
        let member = |(id, pod): (u64, &&PodRecord)| {
            (Arc::clone(&pod.name), EndpointPod { id, stamp: Stamp::from(*pod), places: [None, None] })
        };
        let mut members: Members = (0..).zip(selected).map(member).collect();
        memory.next_id = members.len() as u64;
        memory.skipped = desired.skipped.iter().cloned().collect();
        memory.ports = Default::default();
        memory.families.clear();
        for (place, (family, groups)) in desired.families.iter().enumerate() {
            let mut state = FamilyState::new(*family);
            for group in groups {
                state.fill(&group.ports, group.records.iter().map(|record| Arc::clone(&record.pod)), scope.settings);
                for record in &group.records {
                    let (_, member) = &mut members[record.ordinal as usize];
                    let (record, ports) = (Arc::clone(record), Arc::clone(&group.ports));
                    member.places[place] = Some(Place { record, ports, slice: None });
                }
            }
            memory.families.push(state);
        }
        members
    }

    /// Keeps a slice as it is and events the text that we would send for it.
    fn keep(&mut self, service: &ServiceRecord, slice: &Slice, members: &mut Members, scope: &Scope<'_>) {
        let content = Edit::packed(&slice.packed, &service.namespace, service.spec.mode).content();
        let name = self.settle(slice, members, scope);
        let mut stored = self.slices.remove(&name).expect("planned from it");
        let wanted = || slice.packed.records.iter().map(|record| record.endpoint(&service.namespace, service.spec.mode));
        stored.body = match stored.body {
            Body::Sent(sent) if sent.text() == content.text() => Body::Sent(content),
            Body::Sent(sent) => Body::Both(sent.endpoints(), content),
            Body::Observed(endpoints) | Body::Both(endpoints, _) if wanted().eq(endpoints.iter().cloned()) => {
                Body::Sent(content)
            }
            Body::Observed(endpoints) | Body::Both(endpoints, _) => Body::Both(endpoints, content),
        };
        self.slices.insert(name, stored);
    }

    fn draft(
        &mut self,
        service: &ServiceRecord,
        slice: Slice,
        trigger: Option<&str>,
        members: &mut Members,
        scope: &Scope<'_>,
    ) -> Draft {
        let edit = Edit::packed(&slice.packed, &service.namespace, service.spec.mode);
        let (family, ports) = (slice.family, Arc::clone(&slice.packed.ports));
        if slice.name.is_empty() {
            self.family(family).slices += 1;
            let content = render::create(service, family, &ports, edit, trigger);
            let members = slice.packed.records.iter().map(|record| Arc::clone(&record.pod)).collect();
            return Draft { name: None, family, ports, content, members };
        }
        let name = self.settle(&slice, members, scope);
        let meta = &self.slices.get(&name).expect("planned from it").meta;
        let content = render::update(service, meta, family, &ports, edit, trigger);
        Draft { name: Some(name), family, ports, content, members: Vec::new() }
    }

    fn family(&mut self, family: Family) -> &mut FamilyState {
        self.memory.families.iter_mut().find(|state| state.family == family).expect("planned for this family")
    }

    /// Gives the endpoints of a slice that stays their place in it.
    fn settle(&mut self, slice: &Slice, members: &mut Members, scope: &Scope<'_>) -> Arc<str> {
        let name: Arc<str> = slice.name.as_str().into();
        let room = scope.settings.max_endpoints_per_slice.saturating_sub(slice.packed.records.len());
        let state = self.family(slice.family);
        state.slices += 1;
        state.add_slice(&slice.packed.ports, room, Arc::clone(&name));
        let place = self.memory.families.iter().position(|state| state.family == slice.family).expect("found just above");
        for record in &slice.packed.records {
            let (_, member) = &mut members[record.ordinal as usize];
            member.places[place].as_mut().expect("wanted in this family").slice = Some(Arc::clone(&name));
        }
        name
    }
}

/// Returns the pods that a Service selects, by name.
fn selected<'a>(matching: &BTreeSet<Arc<str>>, scope: &Scope<'a>) -> Vec<&'a PodRecord> {
    matching.iter().filter_map(|name| Some(&scope.pods.get(name)?.record)).collect()
}
