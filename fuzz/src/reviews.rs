//! AdmissionReviews: every body gets an answer, and what was moved stays as it is.

use serde_json::Value;

/// Answers a body; a body that is a pod is admitted too, so that mutations of seeds stay near the rules.
pub fn review(bytes: &[u8]) {
    let answer = admission::review(bytes);
    assert!(answer.review["response"]["allowed"].is_boolean());
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    for pod in [&value, &value["request"]["object"]] {
        let Ok(mutation) = admission::mutate(pod) else { continue };
        let patched = registry::patch::json_patch(pod.clone(), &Value::from(mutation.patch)).expect("a patch of ours applies");
        let again = admission::mutate(&patched).expect("our own output is accepted");
        assert!(again.patch.is_empty(), "our own output changes: {patched}");
    }
}
