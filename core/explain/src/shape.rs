//! Fields that a type does not have, and values of the wrong type: what no API server takes.

use api::json;
use serde_json::Value;

use crate::Origin;
use crate::findings::Findings;
use crate::report::Severity;
use crate::{patch, templates};

impl Findings {
    /// Holds a value against a type of Kubernetes; `counts` says of which unknown fields to speak.
    pub(super) fn shape(&mut self, type_: &str, value: &Value, prefix: &str, counts: impl Fn(&str) -> bool) {
        let Some(message) = kinds::model::message(type_) else { return };
        let checked = kinds::model::check(message, &mut value.clone());
        for misfit in checked.misfits {
            let found = value.pointer(&pointer(&misfit.path)).unwrap_or(&Value::Null);
            let text = misfit_text(found, &misfit.wanted);
            self.add(Severity::Error, "unreadable", format!("{prefix}{}", misfit.path), text, self.refused());
        }
        // A rule looks at what could be read of a value of the wrong type: nothing. What it says is not about what is written.
        let wrong: Vec<String> =
            self.all.iter().filter(|finding| finding.id == "unreadable").map(|finding| finding.path.clone()).collect();
        self.all.retain(|finding| finding.id != "invalid" || !wrong.iter().any(|path| finding.path.starts_with(path.as_str())));
        let advice = match self.origin() {
            Origin::BuiltIn => "kubectl refuses it; with --validate=false it is dropped without a word",
            Origin::Custom => "it is refused or dropped, as the schema of the kind says",
        };
        for path in checked.unknown.iter().filter(|path| counts(path)) {
            let field = path.rsplit(['.', ']']).next().unwrap_or(path);
            let meant = patch::nearest(path).map(|near| format!(": do you mean {near:?}?")).unwrap_or_default();
            let text = format!("there is no field {field:?} here{meant}");
            self.add(Severity::Error, "unknown-field", format!("{prefix}{path}"), text, advice);
        }
    }
}

/// Finds a kind in a group of Kubernetes that has no such kind.
pub(super) fn kind(object: &Value, found: &mut Findings) {
    let (version, kind) = (json::text(object, &["apiVersion"]), json::text(object, &["kind"]));
    if version.is_empty() || !templates::is_of_kubernetes(object) || kinds::model::message_for(version, kind).is_some() {
        return;
    }
    let text = format!("Kubernetes 1.36 does not serve {kind} of {version}");
    match kinds::model::kinds().find(|(_, known, _)| *known == kind) {
        Some((other, ..)) => found.add(Severity::Error, "unknown-kind", "apiVersion", text, format!("it is of {other}")),
        None => {
            let near = kinds::model::kinds().find(|(_, known, _)| patch::near(known, kind));
            let meant = near.map(|(_, known, _)| format!("do you mean {known}?")).unwrap_or_default();
            found.add(Severity::Error, "unknown-kind", "kind", text, meant);
        }
    }
}

/// Returns a path as a JSON pointer; keys of annotations, which have dots, are texts and never looked up.
fn pointer(path: &str) -> String {
    path.replace('[', ".").replace(']', "").split('.').map(|step| format!("/{step}")).collect()
}

/// Says what stands there and what is needed.
fn misfit_text(found: &Value, wanted: &str) -> String {
    let is = match found {
        Value::Null => "this".to_owned(),
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    };
    let (needed, hint) = match (wanted, found) {
        ("string", Value::Number(_) | Value::Bool(_)) => ("a text", ": put it in quotes"),
        ("string", _) => ("a text", ""),
        ("bool", _) => ("true or false", ""),
        ("int32", Value::Number(number)) if number.is_i64() => ("a whole number of 32 bits", ""),
        ("int32" | "int64", Value::String(text)) if text.parse::<i64>().is_ok() => ("a number", ": leave the quotes away"),
        ("int32" | "int64" | "float64", _) => ("a whole number", ""),
        ("intstr.IntOrString", _) => ("a number or a name", ""),
        (list, _) if list.starts_with("[]") => ("a list", ""),
        _ => ("an object", ""),
    };
    format!("{is} stands where {needed} is needed{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_told_in_plain_words() {
        let texts = |probe: Value| {
            let mut found = Findings::default();
            found.shape("Probe", &probe, "", |_| true);
            found.all.into_iter().map(|finding| format!("{}: {}", finding.path, finding.text)).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(json!({"periodSeconds": "5"})),
            ["periodSeconds: the text \"5\" stands where a number is needed: leave the quotes away"]
        );
        assert_eq!(texts(json!({"periodSeconds": 1.5})), ["periodSeconds: 1.5 stands where a whole number is needed"]);
        assert_eq!(
            texts(json!({"failureThreshold": 99999999999_i64})),
            ["failureThreshold: 99999999999 stands where a whole number of 32 bits is needed"]
        );
        assert_eq!(
            texts(json!({"exec": {"command": "cat /tmp/ok"}})),
            ["exec.command: the text \"cat /tmp/ok\" stands where a list is needed"]
        );
        assert_eq!(
            texts(json!({"httpGet": {"httpHeaders": [{"name": "a", "value": 1}]}})),
            ["httpGet.httpHeaders[0].value: 1 stands where a text is needed: put it in quotes"]
        );
        assert_eq!(texts(json!({"httpGet": "/"})), ["httpGet: the text \"/\" stands where an object is needed"]);
    }
}
