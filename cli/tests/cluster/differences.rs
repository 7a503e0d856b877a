//! Where kube-apiserver and `lifesign apiserver` differ, by case, with the reason: the list of `docs/compatibility.md`.

use testkit::script::Case;

/// Cases that do not hold on a real cluster.
const CASES: &[(&str, &str, &str)] = &[];

/// Returns why a case is not run against kube-apiserver.
pub(crate) fn reason(file: &str, case: &Case) -> Option<&'static str> {
    if case.restarts() {
        return Some("restarts the server");
    }
    if file == "api-server/gates" || !case.gates.is_empty() {
        return Some("about feature gates that only Lifesign has");
    }
    CASES.iter().find(|(of, name, _)| *of == file && *name == case.name).map(|(_, _, reason)| *reason)
}
