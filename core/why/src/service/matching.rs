//! Which pods a Service selects, and which it nearly does.

use std::collections::BTreeMap;

use api::Service;
use serde_json::json;

use crate::words;

type Labels = BTreeMap<String, String>;

/// Returns whether a Service selects a pod with these labels.
pub(crate) fn selects(service: &Service, labels: &Labels) -> bool {
    let selector = &service.spec.selector;
    service.spec.type_ != "ExternalName"
        && !selector.is_empty()
        && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The one label in which a pod differs from what a Service selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    /// The key and value that the Service wants.
    key: String,
    wanted: String,
    /// The key and value that the pod has instead.
    own: Option<(String, String)>,
}

impl Miss {
    pub(crate) fn say(&self) -> String {
        match &self.own {
            Some((key, value)) => format!("the selector wants {}={}, the pod has {key}={value}", self.key, self.wanted),
            None => format!("the selector wants {}={}, the pod has no such label", self.key, self.wanted),
        }
    }

    /// Returns a command that makes the Service select what the pod has.
    pub(crate) fn patch(&self, namespace: &str, service: &str) -> String {
        let selector = match &self.own {
            Some((key, value)) if *key == self.key => json!({key: value}),
            Some((key, value)) => json!({(self.key.as_str()): null, key.as_str(): value}),
            None => json!({(self.key.as_str()): null}),
        };
        let patch = json!({"spec": {"selector": selector}});
        format!("kubectl -n {namespace} patch svc {service} --type=merge -p '{patch}'")
    }
}

/// Returns in what a pod differs from a selector if that is one label: the others agree, or it is a slip of the pen.
pub(crate) fn near_miss(selector: &Labels, labels: &Labels) -> Option<Miss> {
    let mut wrong = selector.iter().filter(|(key, value)| labels.get(*key) != Some(*value));
    let (key, wanted) = wrong.next()?;
    if wrong.next().is_some() {
        return None;
    }
    let same_key = labels.get(key).map(|own| (key.clone(), own.clone()));
    // The same value under a key that is nearly the same: `ap: web`, `app.kubernetes.io/name: web`.
    let same_value = || {
        labels
            .iter()
            .find(|(own, value)| *value == wanted && !selector.contains_key(*own))
            .map(|(own, value)| (own.clone(), value.clone()))
    };
    let own = same_key.or_else(same_value);
    let slip = own.as_ref().is_some_and(|(own_key, value)| own_key != key || words::alike(value, wanted));
    (selector.len() > 1 || slip).then(|| Miss { key: key.clone(), wanted: wanted.clone(), own })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn one_label_may_differ() {
        let miss =
            near_miss(&labels(&[("app", "web"), ("tier", "front")]), &labels(&[("app", "web"), ("tier", "frontend")])).unwrap();
        assert_eq!(miss.say(), "the selector wants tier=front, the pod has tier=frontend");
        assert!(miss.patch("n", "s").ends_with(r#"-p '{"spec":{"selector":{"tier":"frontend"}}}'"#));
        assert_eq!(near_miss(&labels(&[("app", "web")]), &labels(&[("app", "db")])), None);
        assert!(near_miss(&labels(&[("app", "wbe")]), &labels(&[("app", "web")])).is_some());
        let renamed = near_miss(&labels(&[("app", "web")]), &labels(&[("app.kubernetes.io/name", "web")])).unwrap();
        assert!(renamed.say().contains("app.kubernetes.io/name=web"));
        assert!(
            near_miss(&labels(&[("app", "web"), ("v", "2")]), &labels(&[("app", "web")]))
                .unwrap()
                .say()
                .contains("no such label")
        );
        assert_eq!(near_miss(&labels(&[("a", "1"), ("b", "2")]), &labels(&[("a", "0"), ("b", "0")])), None);
    }
}
