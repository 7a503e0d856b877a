//! The bookkeeping annotation on a pod: which probe owns which mark.

use std::collections::BTreeMap;

use api::marker::split_entry;
use serde::{Deserialize, Serialize};

/// Owners of the marks of a pod; an owner is `<marker>#<probe>`. Its JSON is canonical: sorted, empty sections left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Marked {
    /// By annotation key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// By condition type.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// By label key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Marked {
    /// Reads the annotation; one that is not ours, or was broken by somebody, owns nothing.
    pub fn parse(annotation: &str) -> Marked {
        serde_json::from_str(annotation).unwrap_or_default()
    }

    /// Returns whether nothing is owned: then there is no annotation.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.conditions.is_empty() && self.labels.is_empty()
    }

    /// Returns the text of the annotation, `None` if there is to be none.
    pub fn annotation(&self) -> Option<String> {
        (!self.is_empty()).then(|| serde_json::to_string(self).expect("maps of strings can be written"))
    }

    /// Returns the names of the markers that own something, repeated.
    pub fn markers(&self) -> impl Iterator<Item = &str> {
        let owners = self.annotations.values().chain(self.conditions.values()).chain(self.labels.values());
        owners.filter_map(|owner| split_entry(owner).map(|(marker, _)| marker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_canonical() {
        let owned = |key: &str| BTreeMap::from([(key.to_owned(), "m#p".to_owned())]);
        let marked = Marked { labels: owned("l"), conditions: owned("c"), ..Marked::default() };
        let text = marked.annotation().unwrap();
        assert_eq!(text, r#"{"conditions":{"c":"m#p"},"labels":{"l":"m#p"}}"#);
        assert_eq!(Marked::parse(&text), marked);
        assert_eq!(Marked::default().annotation(), None);
    }

    #[test]
    fn a_broken_text_owns_nothing() {
        for text in ["", "null", "[]", "{", r#"{"labels":{"a":1}}"#] {
            assert_eq!(Marked::parse(text), Marked::default(), "{text}");
        }
    }
}
