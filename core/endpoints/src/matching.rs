//! Which Services select a pod, without asking every Service of its namespace.
//!
//! Each Service is filed under one pair of its selector, the one under which the fewest others are; a pod then has to ask only
//! what is filed under its own labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The selectors of the Services of one namespace.
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    filed: BTreeMap<String, BTreeMap<String, BTreeSet<Arc<str>>>>,
    selectors: BTreeMap<Arc<str>, Filed>,
}

#[derive(Clone, Debug)]
struct Filed {
    under: (String, String),
    selector: BTreeMap<String, String>,
}

impl Selectors {
    /// Files a Service; an empty selector selects nothing.
    pub fn insert(&mut self, service: &Arc<str>, selector: &BTreeMap<String, String>) {
        self.remove(service);
        let load = |(key, value): &(&String, &String)| {
            self.filed.get(*key).and_then(|values| values.get(*value)).map_or(0, BTreeSet::len)
        };
        let Some((key, value)) = selector.iter().min_by_key(load) else { return };
        let under = (key.clone(), value.clone());
        self.filed.entry(key.clone()).or_default().entry(value.clone()).or_default().insert(Arc::clone(service));
        self.selectors.insert(Arc::clone(service), Filed { under, selector: selector.clone() });
    }

    /// Forgets a Service.
    pub fn remove(&mut self, service: &Arc<str>) {
        let Some(Filed { under: (key, value), .. }) = self.selectors.remove(service) else { return };
        let values = self.filed.get_mut(&key).expect("filed under it");
        let services = values.get_mut(&value).expect("filed under it");
        services.remove(service);
        if services.is_empty() {
            values.remove(&value);
        }
        if values.is_empty() {
            self.filed.remove(&key);
        }
    }

    /// Returns the Services that select these labels.
    pub fn matching(&self, labels: &BTreeMap<String, String>) -> BTreeSet<Arc<str>> {
        let candidates = labels.iter().filter_map(|(key, value)| self.filed.get(key)?.get(value)).flatten();
        candidates.filter(|service| self.selects(service, labels)).cloned().collect()
    }

    fn selects(&self, service: &Arc<str>, labels: &BTreeMap<String, String>) -> bool {
        self.selectors[service].selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_pair_of_the_selector_must_match() {
        let mut selectors = Selectors::default();
        selectors.insert(&"web".into(), &map(&[("app", "web")]));
        selectors.insert(&"web-x".into(), &map(&[("app", "web"), ("tier", "x")]));
        selectors.insert(&"nothing".into(), &map(&[]));
        let matching = |selectors: &Selectors, labels: &[(&str, &str)]| {
            selectors.matching(&map(labels)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(matching(&selectors, &[("app", "web"), ("tier", "x")]), ["web", "web-x"]);
        assert_eq!(matching(&selectors, &[("tier", "x")]), [""; 0]);
        selectors.insert(&"web".into(), &map(&[("app", "db")]));
        selectors.remove(&"web-x".into());
        assert_eq!(matching(&selectors, &[("app", "web"), ("tier", "x")]), [""; 0]);
        assert_eq!(matching(&selectors, &[("app", "db")]), ["web"]);
    }
}
