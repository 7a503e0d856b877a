//! Findings for other programs: SARIF, and the commands of GitHub's workflows.

use ::explain::{Finding, Severity, rules};
use serde_json::{Value, json};

/// A finding and where it stands.
pub(super) struct Located<'a> {
    pub(super) finding: &'a Finding,
    pub(super) object: String,
    pub(super) file: String,
    pub(super) line: usize,
}

/// Returns the findings as SARIF 2.1.0.
pub(super) fn sarif(found: &[Located<'_>]) -> Value {
    let level = |severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let rules: Vec<Value> =
        rules::RULES.iter().map(|(code, what)| json!({"id": code, "shortDescription": {"text": what}})).collect();
    let results: Vec<Value> = found
        .iter()
        .map(|located| {
            let finding = located.finding;
            json!({
                "ruleId": finding.id,
                "level": level(finding.severity),
                "message": {"text": format!("{}: {}: {}", located.object, finding.path, sentence(finding))},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": located.file},
                    "region": {"startLine": located.line},
                }}],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "lifesign explain", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

fn sentence(finding: &Finding) -> String {
    if finding.advice.is_empty() { finding.text.clone() } else { format!("{}; {}", finding.text, finding.advice) }
}

/// Returns a line per finding that GitHub shows at the file.
pub(super) fn github(found: &[Located<'_>]) -> String {
    let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| escape(text).replace(':', "%3A").replace(',', "%2C");
    let mut lines = String::new();
    for located in found {
        let finding = located.finding;
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        lines.push_str(&format!(
            "::{level} file={},line={},title={}::{}\n",
            property(&located.file),
            located.line,
            finding.id,
            escape(&format!("{}: {}: {}", located.object, finding.path, sentence(finding)))
        ));
    }
    lines
}
