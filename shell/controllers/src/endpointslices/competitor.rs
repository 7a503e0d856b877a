//! Whether another controller writes the same slices: two under one name would fight for ever.

use std::time::Duration;

use api::endpointslice::{CONTROLLER_NAME, MANAGED_BY_LABEL};
use api::write::collection;
use api::{EndpointSlice, Timestamp, json};
use machine::Time;
use runtime::{Client, RequestError, requests};
use serde_json::Value;

/// The field manager of the controller that clusters run.
const COMPETITOR: &str = "kube-controller-manager";
/// Listing the slices may take this long.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// A write older than this is no sign that it still runs.
const RECENT: Duration = Duration::from_secs(60);

/// Returns a slice that the controller of the cluster wrote lately, as `namespace/name`; `None`: there is no competing controller.
pub async fn competitor(client: &Client, now: Time) -> Result<Option<String>, RequestError> {
    let ours = format!("{}?labelSelector={MANAGED_BY_LABEL}%3D{CONTROLLER_NAME}", collection::<EndpointSlice>(""));
    let slices: Value = requests::get(client, &ours, LIST_TIMEOUT).await?;
    let key = |slice: &Value| {
        let text = |field| json::text(slice, &["metadata", field]).to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    Ok(json::items(&slices, &["items"]).iter().find(|slice| written_lately(slice, now)).map(key))
}

fn written_lately(slice: &Value, now: Time) -> bool {
    written_at(slice).is_some_and(|at| now.since(at) < RECENT)
}

/// Returns when the controller of the cluster last wrote a slice.
fn written_at(slice: &Value) -> Option<Time> {
    let entries = json::items(slice, &["metadata", "managedFields"]).iter();
    let theirs = entries.filter(|entry| json::text(entry, &["manager"]) == COMPETITOR);
    theirs.filter_map(|entry| Timestamp::parse(json::text(entry, &["time"])).ok()).map(|stamp| stamp.0).max()
}

/// A write of another controller to a slice that we manage.
#[derive(Debug, PartialEq)]
pub(super) struct ForeignWrite {
    pub(super) manager: &'static str,
    pub(super) slice: String,
}

/// Returns the write of another controller that a slice shows, if it is of after `since`.
pub(super) fn foreign(text: &str, since: Time) -> Option<ForeignWrite> {
    // Almost no slice names them: the text is looked through before it is read.
    if !text.contains(COMPETITOR) {
        return None;
    }
    let slice: Value = serde_json::from_str(text).ok()?;
    let text = |path: &[&str]| json::text(&slice, path).to_owned();
    let ours = slice["metadata"]["labels"][MANAGED_BY_LABEL] == CONTROLLER_NAME;
    let written = written_at(&slice).filter(|at| ours && *at > since);
    let key = || format!("{}/{}", text(&["metadata", "namespace"]), text(&["metadata", "name"]));
    written.map(|_| ForeignWrite { manager: COMPETITOR, slice: key() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_recent_write_of_the_cluster_controller_counts() {
        let slice = |manager: &str, time: &str| json!({"metadata": {"managedFields": [{"manager": manager, "time": time}]}});
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap().0;
        assert!(written_lately(&slice(COMPETITOR, "2026-01-01T00:00:01Z"), now));
        assert!(!written_lately(&slice(COMPETITOR, "2026-01-01T00:00:00Z"), now), "a minute ago");
        assert!(!written_lately(&slice("lifesign", "2026-01-01T00:00:59Z"), now), "our own");
        assert!(!written_lately(&json!({"metadata": {}}), now));
    }

    #[test]
    fn a_write_of_another_controller_counts_if_it_is_new_and_the_slice_is_ours() {
        let slice = |manager: &str, time: &str, by: &str| {
            let fields = json!([{"manager": "lifesign", "time": "2026-01-01T00:02:00Z"}, {"manager": manager, "time": time}]);
            let labels = json!({MANAGED_BY_LABEL: by});
            json!({"metadata": {"name": "web-1", "namespace": "d", "labels": labels, "managedFields": fields}}).to_string()
        };
        let since = Timestamp::parse("2026-01-01T00:01:00Z").unwrap().0;
        let found = foreign(&slice(COMPETITOR, "2026-01-01T00:01:01Z", CONTROLLER_NAME), since);
        assert_eq!(found, Some(ForeignWrite { manager: COMPETITOR, slice: "d/web-1".to_owned() }));
        assert_eq!(foreign(&slice(COMPETITOR, "2026-01-01T00:00:59Z", CONTROLLER_NAME), since), None, "before we began");
        assert_eq!(foreign(&slice(COMPETITOR, "2026-01-01T00:01:01Z", "somebody"), since), None, "not ours");
        assert_eq!(foreign(&slice("kubectl", "2026-01-01T00:01:01Z", CONTROLLER_NAME), since), None, "people may edit");
    }
}
