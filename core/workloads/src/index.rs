//! Selectors by labels and labels by selectors, without looking at all of them.
//!
//! A selector with `matchLabels` is kept under one of its pairs, the one that the fewest others are kept under: an object can
//! only match it if it has that pair. Selectors made of expressions alone are few, and looked at one by one.

use std::collections::BTreeMap;

use api::{Key, LabelSelector};
use machine::Groups;

/// A label with its value, in a namespace.
type Pair = (String, String, String);

/// Selectors of objects, found by the labels that they may match.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    by_pair: Groups<Pair, Key>,
    /// Those that have no pair, by namespace.
    others: Groups<String, Key>,
    places: BTreeMap<Key, Option<Pair>>,
}

impl SelectorIndex {
    /// Keeps the selector of an object.
    pub(crate) fn insert(&mut self, key: &Key, selector: &LabelSelector) {
        self.remove(key);
        let pairs = selector.match_labels.iter().map(|(label, value)| pair(&key.namespace, label, value));
        let place = pairs.min_by_key(|pair| self.by_pair.count(pair));
        match &place {
            Some(pair) => self.by_pair.insert(pair, key),
            None => self.others.insert(&key.namespace, key),
        }
        self.places.insert(key.clone(), place);
    }

    /// Forgets the selector of an object.
    pub(crate) fn remove(&mut self, key: &Key) {
        match self.places.remove(key) {
            Some(Some(pair)) => self.by_pair.remove(&pair, key),
            Some(None) => self.others.remove(&key.namespace, key),
            None => {}
        }
    }

    /// Returns the objects whose selectors may match these labels; each must still be asked.
    pub(crate) fn candidates(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Key> {
        let pairs = labels.iter().map(|(label, value)| pair(namespace, label, value));
        let by_pair = pairs.flat_map(|pair| self.by_pair.get(&pair).cloned().collect::<Vec<_>>());
        by_pair.chain(self.others.get(namespace).cloned()).collect()
    }
}

/// Labels of objects, found by the selectors that may match them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelIndex {
    by_pair: Groups<Pair, Key>,
    all: Groups<String, Key>,
}

impl LabelIndex {
    /// Keeps the labels of an object that is not kept yet.
    pub(crate) fn insert(&mut self, key: &Key, labels: &BTreeMap<String, String>) {
        self.all.insert(&key.namespace, key);
        labels.iter().for_each(|(label, value)| self.by_pair.insert(&pair(&key.namespace, label, value), key));
    }

    /// Forgets the labels that an object was kept with.
    pub(crate) fn remove(&mut self, key: &Key, labels: &BTreeMap<String, String>) {
        self.all.remove(&key.namespace, key);
        labels.iter().for_each(|(label, value)| self.by_pair.remove(&pair(&key.namespace, label, value), key));
    }

    /// Returns the objects that a selector may match; each must still be asked.
    pub(crate) fn candidates(&self, namespace: &str, selector: &LabelSelector) -> Vec<Key> {
        let pairs = selector.match_labels.iter().map(|(label, value)| pair(namespace, label, value));
        match pairs.min_by_key(|pair| self.by_pair.count(pair)) {
            Some(pair) => self.by_pair.get(&pair).cloned().collect(),
            None => self.all.get(namespace).cloned().collect(),
        }
    }
}

fn pair(namespace: &str, label: &str, value: &str) -> Pair {
    (namespace.to_owned(), label.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_shared_label_does_not_make_every_selector_a_candidate() {
        let mut index = SelectorIndex::default();
        for number in 0..100 {
            let match_labels = labels(&[("app", "web"), ("set", &number.to_string())]);
            index.insert(&Key::new("ns", &number.to_string()), &LabelSelector { match_labels, ..LabelSelector::default() });
        }
        let found = index.candidates("ns", &labels(&[("app", "web"), ("set", "7")]));
        assert!(found.contains(&Key::new("ns", "7")) && found.len() <= 2, "{found:?}");
        assert_eq!(index.candidates("other", &labels(&[("app", "web"), ("set", "7")])), []);
        index.remove(&Key::new("ns", "7"));
        assert!(!index.candidates("ns", &labels(&[("app", "web"), ("set", "7")])).contains(&Key::new("ns", "7")));
    }

    #[test]
    fn objects_are_found_by_the_rarest_pair_of_a_selector() {
        let mut index = LabelIndex::default();
        for number in 0..100 {
            index.insert(&Key::new("ns", &number.to_string()), &labels(&[("app", "web"), ("set", &number.to_string())]));
        }
        let selector = |pairs| LabelSelector { match_labels: labels(pairs), ..LabelSelector::default() };
        assert_eq!(index.candidates("ns", &selector(&[("app", "web"), ("set", "7")])), [Key::new("ns", "7")]);
        assert_eq!(index.candidates("ns", &selector(&[])).len(), 100);
    }
}
